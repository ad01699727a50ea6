"""Residual: a sublayer adds to what comes in, with the norm before it or after the sum.

    pre_norm:     x + dropout(f(LN(x)))
    post_norm:    LN(x + dropout(f(x)))
    no_norm:      x + dropout(f(x))
    no_residual:  LN(dropout(f(x)))

Paper: Vaswani et al. 2017, section 3.1 (post); Xiong et al. 2020 (pre, needs no warm-up).
Cost: time O(n · m).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.dims import Dims
from regard.layers.norm import Norm

Stream = Float[Tensor, "*b m"]
Sublayer = Callable[[Tensor], Tensor]


class Residual(nn.Module, ABC):
    """Wraps a sublayer, with a norm of its own unless one is given."""

    def __init__(self, dims: Dims, *, dropout: float = 0.0, norm: Norm | None = None) -> None:
        super().__init__()
        self.norm, self.dropout = norm or Norm(dims), Dropout(dropout)

    @abstractmethod
    def forward(self, x: Stream, sublayer: Sublayer) -> Stream:
        """The input plus the sublayer's output."""


@final
class PreNorm(Residual):
    """The norm stands before the sublayer; a stack of these needs one more norm at its end."""

    def forward(self, x: Stream, sublayer: Sublayer) -> Stream:
        """X + dropout(f(LN(x)))."""
        return x + self.dropout(sublayer(self.norm(x)))


@final
class PostNorm(Residual):
    """The norm stands after the sum, as the Transformer paper prints it."""

    def forward(self, x: Stream, sublayer: Sublayer) -> Stream:
        """LN(x + dropout(f(x)))."""
        return self.norm(x + self.dropout(sublayer(x)))


@final
class NoNorm(Residual):
    """No norm, not even one that is given; for the ablation of the norm."""

    def __init__(self, dims: Dims, *, dropout: float = 0.0, norm: Norm | None = None) -> None:
        super().__init__(dims, dropout=dropout, norm=norm)
        del self.norm

    def forward(self, x: Stream, sublayer: Sublayer) -> Stream:
        """X + dropout(f(x))."""
        return x + self.dropout(sublayer(x))


@final
class NoResidual(Residual):
    """The sublayer's output replaces its input; for the ablation of the residual."""

    def forward(self, x: Stream, sublayer: Sublayer) -> Stream:
        """LN(dropout(f(x)))."""
        return self.norm(self.dropout(sublayer(x)))


RESIDUALS: Mapping[str, Callable[..., Residual]] = {
    "pre_norm": PreNorm,
    "post_norm": PostNorm,
    "no_norm": NoNorm,
    "no_residual": NoResidual,
}
