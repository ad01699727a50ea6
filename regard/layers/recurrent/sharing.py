"""A weight that many steps share: its gradient is one product for all of them.

    y[t] = base[t] + W x[t],    ∂W = Σ_t ∂y[t] x[t]ᵀ

Forwards a step waits for the one before it, and its product is small. Backwards nobody waits for
the gradient of W: it is made at the end, of everything that the steps have read.
"""

from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


@final
class SharedWeight:
    """One weight, for as many steps as there are bases; every step must say what it read.

    Args:
        weight: maps what a step reads.
        base: what each step's product is added to.
    """

    def __init__(self, weight: Float[Tensor, "g d"], base: Float[Tensor, "t b g"]) -> None:
        self.read: list[Tensor] = []
        self.weight = weight.detach().to(base.dtype)
        """Without a gradient of its own."""
        bases: Tensor = _GradientAtTheEnd.apply(base, weight, self.read)
        self.bases = bases.unbind(0)
        """One for each step."""

    def saw(self, x: Float[Tensor, "b d"]) -> None:
        """The next step read this."""
        self.read.append(x.detach())


def add_product(
    base: Float[Tensor, "b g"], x: Float[Tensor, "b d"], weight: Float[Tensor, "g d"]
) -> Float[Tensor, "b g"]:
    """One step: base + W x."""
    return torch.addmm(base, x.to(base.dtype), weight.mT)


class _GradientAtTheEnd(torch.autograd.Function):
    """The bases as they are; of all their gradients, and all that was read, the weight's."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, weight: Tensor, read: list[Tensor]) -> Tensor:
        ctx.read, ctx.dtype = read, weight.dtype
        return base.view_as(base)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_base: Tensor) -> tuple[Tensor, Tensor, None]:
        read = torch.stack(ctx.read).flatten(0, 1).to(d_base.dtype)
        return d_base, (d_base.flatten(0, 1).mT @ read).to(ctx.dtype), None
