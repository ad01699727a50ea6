"""Embedding: vectors of tokens, plus vectors of their positions and segments.

    x = dropout(norm(sqrt(m) E[token] + PE[position] + S[segment])),   E ~ N(0, 1/m)

Segments and the norm are BERT's; a Transformer has neither.

Paper: Vaswani et al. 2017, sections 3.4 and 3.5; Devlin et al. 2019, section 3.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.dims import Dims
from regard.errors import SettingError
from regard.models.shapes import Indices, Tokens
from regard.places import Tree


@final
class Embedding(nn.Module):
    """Token vectors of unit variance, plus positions.

    `positions` give a vector for each position, and `n_segments` parts of a row have one each. A
    norm and dropout follow the sum. `scale` is the root of the width unless given. With
    `has_output_bias` the table has one more column, unused here: a bias for each token, for an
    output layer that shares the table.
    """

    def __init__(
        self,
        dims: Dims,
        *,
        n_tokens: int,
        positions: nn.Module | None,
        dropout: float,
        n_segments: int = 0,
        norm: nn.Module | None = None,
        scale: float | int | None = None,
        has_output_bias: bool = False,
    ) -> None:
        super().__init__()
        self.width, self.has_output_bias = dims.d_model, has_output_bias
        self.E = nn.Embedding(n_tokens, dims.d_model + has_output_bias)
        nn.init.normal_(self.E.weight, std=dims.d_model**-0.5)
        if has_output_bias:
            nn.init.zeros_(self.E.weight[:, -1].detach())
        self.positions, self.dropout = positions, Dropout(dropout)
        self.S = nn.Embedding(n_segments, dims.d_model) if n_segments else None
        if self.S is not None:
            nn.init.normal_(self.S.weight, std=0.02)
        self.norm = norm or nn.Identity()
        self.scale = dims.d_model**0.5 if scale is None else scale

    @property
    def n_segments(self) -> int:
        """How many segments have a vector."""
        return 0 if self.S is None else self.S.num_embeddings

    def forward(
        self,
        tokens: Tokens,
        *,
        past: int = 0,
        at: Indices | None = None,
        tree: Tree | None = None,
        segments: Indices | None = None,
    ) -> Float[Tensor, "b n m"]:
        """Look the tokens up, scale, and add positions: those of `at`, or counted from `past`."""
        x = self.E(tokens)
        if self.has_output_bias:
            x = x[..., : self.width]
        x = x * self.scale
        if self.positions is not None:
            if at is None:
                at = torch.arange(past, past + tokens.shape[1], device=tokens.device)[None]
            x = x + self.positions(at, tree).to(x.dtype)
        if segments is not None:
            if self.S is None:
                raise SettingError(
                    "embedding: segments were given, but this model has no vectors for them. Build "
                    "it with n_segments=2, or leave them out."
                )
            x = x + self.S(segments)
        return self.dropout(self.norm(x))
