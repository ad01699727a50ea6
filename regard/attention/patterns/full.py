"""Full pattern: every query sees every key.

    visible[i,j] = true

Paper: Bahdanau, Cho & Bengio 2015 (every source word); Luong et al. 2015 call it global.
Cost: time O(q · k · d), memory O(q) fused, O(q · k) dense.
"""

from typing import final

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.links import KernelMask, Pattern
from regard.dims import Dims
from regard.places import Places


@final
class FullPattern(Pattern):
    """Every query sees every key."""

    is_movable, needs_length = True, False

    def __init__(self, dims: Dims | None = None) -> None:
        pass

    def visible(self, places: Places) -> Bool[Tensor, "1 1"]:
        """True, everywhere."""
        return torch.ones(1, 1, dtype=torch.bool, device=places.key.device)

    def as_kernel(self) -> KernelMask:
        """Kernels need no mask for it."""
        return KernelMask(is_causal=False, valid=None)

    def as_text(self) -> str:
        """Name and settings, as a recipe has them."""
        return "full"
