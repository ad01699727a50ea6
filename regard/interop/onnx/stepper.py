"""Stepper: graphs of a model, run by onnxruntime, for every search of `regard.decoding`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor

from regard.errors import MissingExtra
from regard.interop.onnx.graphs import DECODER, ENCODER
from regard.models.shapes import Logits, NewTokens, SourceTokens
from regard.models.stepper import DecodingState


@final
class OnnxStepper:
    """Reads sources and writes tokens by the two files in a folder."""

    def __init__(self, folder: Path, *, n_heads: int, d_head: int) -> None:
        try:
            import onnxruntime
        except ModuleNotFoundError as missing:
            raise MissingExtra(
                "onnxruntime is not installed. Run pip install 'regard[onnx]'."
            ) from missing
        self._encoder, self._decoder = (
            onnxruntime.InferenceSession(str(folder / name), providers=["CPUExecutionProvider"])
            for name in (ENCODER, DECODER)
        )
        self._names = [one.name for one in self._decoder.get_inputs()]
        self.n_heads, self.d_head = n_heads, d_head

    def start(self, source: SourceTokens) -> DecodingState:
        """Read the source; every row of the state has its source beside it."""
        valid, *sources = _run(self._encoder, {"source": source})
        shape = (len(source), self.n_heads, 0, self.d_head)
        pasts = [torch.zeros(shape) for _ in sources]
        return DecodingState(source[:, :0], (valid, tuple(sources), tuple(pasts)))

    def step(self, state: DecodingState, tokens: NewTokens) -> tuple[Logits, DecodingState]:
        """Logits after each new token, one by one."""
        logits = []
        for token in tokens.split(1, 1):
            valid, sources, pasts = state.rows
            given = {"tokens": token, "valid": valid}
            given |= {f"source_{i}": one for i, one in enumerate(sources)}
            given |= {f"past_{i}": one for i, one in enumerate(pasts)}
            found, *longer = _run(self._decoder, {name: given[name] for name in self._names})
            logits.append(found)
            state = DecodingState(state.source, (valid, sources, tuple(longer)), state.length + 1)
        return torch.stack(logits, 1), state

    def select(self, state: DecodingState, rows: Int[Tensor, " r"]) -> DecodingState:
        """Some rows, all or none of a sentence's, each with its sentence."""
        return state.select(rows)

    def branch(self, state: DecodingState, parents: Int[Tensor, "b w"]) -> DecodingState:
        """Continue in w rows a sentence."""
        return state.branch(parents)


def _run(session: Any, given: dict[str, Tensor]) -> Sequence[Tensor]:
    found = session.run(None, {name: tensor.numpy() for name, tensor in given.items()})
    return [torch.from_numpy(one) for one in found]
