"""pictures → annotations: a small encoder to train and a published one."""

from collections.abc import Callable, Mapping

from regard.layers.vision.efficientnet_lite import EfficientNetLite0
from regard.layers.vision.image_encoder import ImageEncoder
from regard.layers.vision.residual_network import ResidualNetwork

ENCODERS: Mapping[str, Callable[..., ImageEncoder]] = {
    "residual": ResidualNetwork,
    "efficientnet_lite0": EfficientNetLite0,
}
"""The encoders by their names in a recipe; each is made as `Encoder(dims, *, settings)`."""

__all__ = [
    "ENCODERS",
    "EfficientNetLite0",
    "ImageEncoder",
    "ResidualNetwork",
]
