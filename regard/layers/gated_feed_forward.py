"""Gated feed-forward: one half of the inner layer decides how much of the other half passes.

    FFN(x) = (act(x W1) ⊙ x W3) W2

Paper: Shazeer 2020 (GLU variants), equations 5 and 6: SwiGLU's act is silu, GEGLU's is GELU.
Cost: time O(n · m · f), 3 m f parameters, no biases.
"""

from typing import final

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.choices import find
from regard.dims import Dims
from regard.layers.feed_forward import ACTIVATIONS


@final
class GatedFeedForward(nn.Module):
    """Two wider linear maps, one the gate of the other, and one back to the model's width.

    Args:
        dims: the model width.
        d_hidden: the inner width; 8/3 of the model's unless given, which keeps the plain
            feed-forward's number of parameters.
        activation: the gate's, by a name of the plain feed-forward's.
        dropout: on the gated activations.
    """

    def __init__(
        self,
        dims: Dims,
        *,
        d_hidden: int | None = None,
        activation: str = "swish",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        d_hidden = d_hidden or 8 * dims.d_model // 3
        self.W1 = nn.Linear(dims.d_model, d_hidden, bias=False)
        self.W3 = nn.Linear(dims.d_model, d_hidden, bias=False)
        self.W2 = nn.Linear(d_hidden, dims.d_model, bias=False)
        self.activation = find(activation, ACTIVATIONS)
        self.dropout = Dropout(dropout)
        for layer in (self.W1, self.W3, self.W2):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m"]:
        """Each position on its own."""
        return self.W2(self.dropout(self.activation(self.W1(x)) * self.W3(x)))
