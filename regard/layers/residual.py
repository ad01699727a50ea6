"""Residual: a sublayer adds to what comes in, with the norm before it or after the sum.

    pre_norm:     x + dropout(f(LN(x)))
    post_norm:    LN(x + dropout(f(x)))
    no_norm:      x + dropout(f(x))
    no_residual:  LN(dropout(f(x)))

Paper: Vaswani et al. 2017, section 3.1 (post); Xiong et al. 2020 (pre, needs no warm-up).
Cost: time O(n · m).
"""

from collections.abc import Callable, Mapping
from typing import Protocol, final, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.dims import Dims
from regard.layers.norm import Norm


@runtime_checkable
class Residual(Protocol):
    """Wraps a sublayer."""

    def __call__(
        self, x: Float[Tensor, "*b m"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*b m"]:
        """What comes in, plus what the sublayer makes of it."""


@final
class PreNorm(nn.Module):
    """The norm stands before the sublayer; a stack of these needs one more norm at its end."""

    def __init__(self, dims: Dims, *, dropout: float = 0.0, norm: Norm | None = None) -> None:
        super().__init__()
        self.norm, self.dropout = norm or Norm(dims), Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "*b m"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*b m"]:
        """X + dropout(f(LN(x)))."""
        return x + self.dropout(sublayer(self.norm(x)))


@final
class PostNorm(nn.Module):
    """The norm stands after the sum, as the Transformer paper prints it."""

    def __init__(self, dims: Dims, *, dropout: float = 0.0, norm: Norm | None = None) -> None:
        super().__init__()
        self.norm, self.dropout = norm or Norm(dims), Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "*b m"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*b m"]:
        """LN(x + dropout(f(x)))."""
        return self.norm(x + self.dropout(sublayer(x)))


@final
class NoNorm(nn.Module):
    """Nothing brings the sum back to one level; to see what the norm is for."""

    def __init__(self, dims: Dims, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "*b m"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*b m"]:
        """X + dropout(f(x))."""
        return x + self.dropout(sublayer(x))


@final
class NoResidual(nn.Module):
    """The sublayer replaces what comes in; to see what the residual is for."""

    def __init__(self, dims: Dims, *, dropout: float = 0.0, norm: Norm | None = None) -> None:
        super().__init__()
        self.norm, self.dropout = norm or Norm(dims), Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "*b m"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*b m"]:
        """LN(dropout(f(x)))."""
        return self.norm(self.dropout(sublayer(x)))


RESIDUALS: Mapping[str, Callable[..., Residual]] = {
    "pre_norm": PreNorm,
    "post_norm": PostNorm,
    "no_norm": NoNorm,
    "no_residual": NoResidual,
}
