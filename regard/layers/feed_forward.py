"""Feed-forward: the same two-layer network at every position.

    FFN(x) = act(x W1 + b1) W2 + b2

Paper: Vaswani et al. 2017, equation 2 (act = ReLU); Hendrycks & Gimpel 2016 (GELU).
Cost: time O(n · m · f), 2 m f + f + m parameters.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import gelu, silu

from regard.attention.dropout import Dropout
from regard.choices import find
from regard.dims import Dims

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": gelu,
    "gelu_tanh": partial(gelu, approximate="tanh"),
    "swish": silu,
}
"""gelu_tanh is GELU's approximation, which BERT's authors used; swish is Marian's."""


@final
class FeedForward(nn.Module):
    """Two linear maps with an activation between: wider, then back to the model's width.

    Args:
        dims: the model width.
        d_hidden: the inner width; four times the model's unless given.
        activation: "relu", "gelu", "gelu_tanh" or "swish".
        has_bias: whether the two maps add one; T5's do not.
        dropout: on the inner activations; 0 in the paper.
    """

    def __init__(
        self,
        dims: Dims,
        *,
        d_hidden: int | None = None,
        activation: str = "relu",
        has_bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        d_hidden = d_hidden or 4 * dims.d_model
        self.inner = nn.Linear(dims.d_model, d_hidden, bias=has_bias)
        self.outer = nn.Linear(d_hidden, dims.d_model, bias=has_bias)
        self.activation = find(activation, ACTIVATIONS)
        self.dropout = Dropout(dropout)
        for layer in (self.inner, self.outer):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m"]:
        """Each position on its own."""
        return self.outer(self.dropout(self.activation(self.inner(x))))


@final
class NoFeedForward(nn.Module):
    """Gives zeros, for the ablation of the feed-forward."""

    def __init__(self, dims: Dims, *, d_hidden: int | None = None, dropout: float = 0.0) -> None:
        super().__init__()

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m"]:
        """Zero everywhere."""
        return torch.zeros_like(x)
