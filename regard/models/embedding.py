"""Embedding: tokens become vectors, and the vectors learn where they stand.

    x = dropout(sqrt(m) E[token] + PE[position]),   E ~ N(0, 1/m)

Paper: Vaswani et al. 2017, sections 3.4 and 3.5.
"""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.dims import Dims
from regard.places import Tree


@final
class Embedding(nn.Module):
    """Token vectors of unit variance, plus positions.

    Args:
        dims: the model width.
        n_tokens: size of the vocabulary.
        positions: a module that gives a vector for each position; None if nothing is added.
        dropout: on the sum.
    """

    def __init__(
        self, dims: Dims, *, n_tokens: int, positions: nn.Module | None, dropout: float
    ) -> None:
        super().__init__()
        self.E = nn.Embedding(n_tokens, dims.d_model)
        nn.init.normal_(self.E.weight, std=dims.d_model**-0.5)
        self.positions, self.dropout = positions, nn.Dropout(dropout)
        self.scale = dims.d_model**0.5

    def forward(
        self, tokens: Int[Tensor, "b n"], *, past: int = 0, tree: Tree | None = None
    ) -> Float[Tensor, "b n m"]:
        """Look the tokens up, scale, and add the positions counted from `past` on."""
        x = self.E(tokens) * self.scale
        if self.positions is not None:
            at = torch.arange(past, past + tokens.shape[1], device=tokens.device)
            x = x + self.positions(at[None], tree).to(x.dtype)
        return self.dropout(x)
