"""Learned positions: a table with one vector for each position, and no position after the last.

    PE[p] = P[p],   P: max_len × m

Paper: Gehring et al. 2017; Vaswani et al. 2017, table 3 row E; Devlin et al. 2019 (init 0.02).
Cost: time O(n · m), max_len · m parameters; a longer sequence is an error.
"""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.dims import Dims
from regard.errors import LengthError
from regard.places import Tree


@final
class LearnedPositions(nn.Module):
    """One row of a table for each position."""

    def __init__(self, dims: Dims) -> None:
        super().__init__()
        self.P = nn.Embedding(dims.max_len, dims.d_model)
        nn.init.normal_(self.P.weight, std=0.02)

    def forward(
        self, positions: Int[Tensor, "*b n"], tree: Tree | None = None
    ) -> Float[Tensor, "*b n m"]:
        """Look the positions up."""
        # a CUDA graph cannot read a number on the host, where an earlier batch of this shape was
        # checked; nor can an exported program
        is_capturing = torch.compiler.is_exporting() or (
            positions.is_cuda and torch.cuda.is_current_stream_capturing()
        )
        if not is_capturing and positions.numel() and int(positions.max()) >= self.P.num_embeddings:
            raise LengthError(
                f"learned: position {int(positions.max())} was asked for, but the table has "
                f"{self.P.num_embeddings} (0 to {self.P.num_embeddings - 1}). Raise max_len and "
                "train again, or take sinusoidal or rotary, which have no end."
            )
        return self.P(positions)
