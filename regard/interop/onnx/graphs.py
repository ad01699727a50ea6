"""Graphs: writes the two functions of a model as ONNX files, for any batch and any lengths.

    encoder.onnx    source                                      valid, source_0, source_1, …
    decoder.onnx    tokens, valid, source_0 …, past_0, …        logits, next_past_0, …

The numbers count keys and values in turn, layer by layer. A past begins with length 0.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.subword_kinds import EOS, PAD, UNK
from regard.errors import MissingExtra
from regard.models.portable import TensorFunctions

ENCODER, DECODER = "encoder.onnx", "decoder.onnx"
EXAMPLE = ((UNK, UNK, UNK, UNK, EOS), (UNK, UNK, EOS, PAD, PAD), (UNK, EOS, PAD, PAD, PAD))
"""Sources with which the graphs are traced; no dimension of theirs becomes a constant."""
EXAMPLE_PAST = 2


@torch.no_grad()
def write_graphs(folder: Path, functions: TensorFunctions) -> None:
    """Write both files."""
    source = torch.tensor(EXAMPLE)
    valid, *sources = functions.read(source)
    shape = (len(source), functions.n_heads, EXAMPLE_PAST, functions.d_head)
    pasts = [torch.zeros(shape) for _ in sources]
    changes = torch.export.Dim.DYNAMIC
    by_source = [f"source_{i}" for i in range(len(sources))]
    _write(
        folder / ENCODER, functions.read, (source,), ({0: changes, 1: changes},),
        ["source"], ["valid", *by_source],
    )  # fmt: skip
    rows, columns = {0: changes, 1: changes}, {0: changes, 2: changes}
    _write(
        folder / DECODER,
        functions.step,
        (source[:, :1], valid, sources, pasts),
        ({0: changes}, rows, [columns] * len(sources), [columns] * len(pasts)),
        ["tokens", "valid", *by_source, *(f"past_{i}" for i in range(len(pasts)))],
        ["logits", *(f"next_past_{i}" for i in range(len(pasts)))],
    )


def _write(
    path: Path,
    function: nn.Module,
    example: tuple[Any, ...],
    changing: tuple[Any, ...],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> None:
    try:
        import onnxscript  # noqa: F401 - torch's exporter imports it late
    except ModuleNotFoundError as missing:
        raise MissingExtra(
            f"onnx: '{missing.name}' is not installed. Run pip install 'regard[onnx]'."
        ) from missing
    with _quiet():
        program = torch.onnx.export(
            function,
            example,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=changing,
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        program.save(str(path))


@contextmanager
def _quiet() -> Iterator[None]:
    """A context without the exporter's remarks on packages that are not used here."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
