"""pictures → annotations: an encoder of our own and a published one."""

from collections.abc import Callable, Mapping

from regard.layers.vision.efficientnet_lite import GRIDS, EfficientNetLite0
from regard.layers.vision.image_encoder import GridSize, ImageEncoder
from regard.layers.vision.residual_network import ResidualNetwork

ENCODERS: Mapping[str, Callable[..., ImageEncoder]] = {
    "residual": ResidualNetwork,
    "efficientnet_lite0": EfficientNetLite0,
}
"""What a recipe may name; each is made as `Encoder(dims, *, settings)`."""

__all__ = [
    "ENCODERS",
    "GRIDS",
    "EfficientNetLite0",
    "GridSize",
    "ImageEncoder",
    "ResidualNetwork",
]
