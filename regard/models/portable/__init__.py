"""a trained model → plain weights in the few forms that other runtimes know."""

from regard.models.portable.forms import (
    PortableAttention,
    PortableFeedForward,
    PortableHead,
    PortableLayer,
    PortableLinear,
    PortableModel,
    PortableNorm,
    PortableStack,
)
from regard.models.portable.functions import TensorFunctions, tensor_functions
from regard.models.portable.models import portable_model

__all__ = [
    "PortableAttention",
    "PortableFeedForward",
    "PortableHead",
    "PortableLayer",
    "PortableLinear",
    "PortableModel",
    "PortableNorm",
    "PortableStack",
    "TensorFunctions",
    "portable_model",
    "tensor_functions",
]
