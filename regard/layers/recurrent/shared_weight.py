"""Shared weight: one weight for many steps, whose gradient is one product for all of them.

    y[t] = base[t] + W x[t],    ∂W = Σ_t ∂y[t] x[t]ᵀ

In the forward pass steps run in sequence, and their products are small. In the backward pass no
step needs the gradient of W, so it is computed at the end, from all inputs together.
"""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


@final
class SharedWeight:
    """One weight for as many steps as there are bases; each step's input goes to `saw`."""

    def __init__(self, weight: Float[Tensor, "g d"], base: Float[Tensor, "t b g"]) -> None:
        self.read: list[Tensor] = []
        self.weight = weight.detach().to(base.dtype)
        """Detached: its gradient goes through the bases."""
        bases: Tensor = _GradientAtTheEnd.apply(base, weight, self.read)
        self.bases = bases.unbind(0)

    def saw(self, x: Float[Tensor, "b d"]) -> None:
        """Keep the next step's input for the gradient."""
        self.read.append(x.detach())


def add_product(
    base: Float[Tensor, "b g"], x: Float[Tensor, "b d"], weight: Float[Tensor, "g d"]
) -> Float[Tensor, "b g"]:
    """One step: base + W x."""
    return torch.addmm(base, x.to(base.dtype), weight.mT)


class _GradientAtTheEnd(torch.autograd.Function):
    """Gives the bases unchanged; in the backward pass it computes the weight's gradient."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, weight: Tensor, read: list[Tensor]) -> Tensor:
        ctx.read, ctx.dtype = read, weight.dtype
        return base.view_as(base)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_base: Tensor) -> tuple[Tensor, Tensor, None]:
        read = torch.stack(ctx.read).flatten(0, 1).to(d_base.dtype)
        return d_base, (d_base.flatten(0, 1).mT @ read).to(ctx.dtype), None
