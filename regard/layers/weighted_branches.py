"""Weighted branches: each head gets a feed-forward of its own, and a learned say in the sum.

    out = sum_i alpha[i] FFN[i](kappa[i] · head[i] W_O[i]),   kappa, alpha on the simplex

Paper: Ahmed, Keskar & Socher 2017 (Weighted Transformer), equations 3 to 5.
Cost: the attention's, plus O(n · m · f); the plain layer's parameters plus 2 for each branch.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import FULL, GroupedQueryHeads
from regard.attention.links import Pattern
from regard.attention.selections.sparsemax import simplex_threshold
from regard.dims import Dims
from regard.errors import DimsError, SettingError
from regard.places import Places


@final
class WeightedBranches(nn.Module):
    """Takes the place of attention and the feed-forward after it.

    Args:
        dims: the model width; its heads are the branches.
        attention: the heads; its output projection is cut into one piece for each branch.
        d_hidden: inner width of all feed-forwards together; each branch gets an equal part.
    """

    def __init__(
        self, dims: Dims, *, attention: GroupedQueryHeads, d_hidden: int | None = None
    ) -> None:
        super().__init__()
        d_hidden, n_branches = d_hidden or 4 * dims.d_model, dims.n_heads
        if d_hidden % n_branches:
            raise DimsError(
                f"weighted_branches: {n_branches} branches must divide d_hidden ({d_hidden}): each "
                "branch owns an equal part of the feed-forward."
            )
        if attention.has_bias:
            raise SettingError(
                "weighted_branches: the attention's output projection is cut into one piece for "
                "each branch, and its bias would belong to none. Take has_bias=False."
            )
        self.attention = attention
        self.kappa = nn.Parameter(_nearly_alike(n_branches))
        self.alpha = nn.Parameter(_nearly_alike(n_branches))
        self.W1 = nn.Parameter(torch.empty(n_branches, dims.d_model, d_hidden // n_branches))
        self.b1 = nn.Parameter(torch.zeros(n_branches, 1, d_hidden // n_branches))
        self.W2 = nn.Parameter(torch.empty(n_branches, d_hidden // n_branches, dims.d_model))
        self.b2 = nn.Parameter(torch.zeros(dims.d_model))
        bound = (6 / (dims.d_model + d_hidden)) ** 0.5
        nn.init.uniform_(self.W1, -bound, bound)
        nn.init.uniform_(self.W2, -bound, bound)

    def forward(
        self,
        x: Float[Tensor, "b n m"],
        key: Float[Tensor, "b k mk"] | None = None,
        mask: Pattern | Tensor = FULL,
        places: Places | None = None,
    ) -> Float[Tensor, "b n m"]:
        """Every branch attends and thinks; alpha says how much each counts."""
        key = x if key is None else key
        heads = self.attention.look(x, self.attention.remember(key, key), mask, places).context
        W_O = self.attention.W_O.weight.T.unflatten(0, (heads.shape[1], -1))
        branches = self.kappa.view(-1, 1, 1) * (heads @ W_O)
        thoughts = (branches @ self.W1 + self.b1).relu() @ self.W2
        return torch.einsum("h,bhnm->bnm", self.alpha, thoughts) + self.b2

    @torch.no_grad()
    def project(self) -> None:
        """Bring kappa and alpha back to the simplex; call it after each optimiser step."""
        self.kappa.copy_(project_to_simplex(self.kappa))
        self.alpha.copy_(project_to_simplex(self.alpha))


def _nearly_alike(n_branches: int) -> Float[Tensor, " h"]:
    """A random point of the simplex far from its edges, where a branch would be dead."""
    draw = 1 + torch.rand(n_branches)
    return draw / draw.sum()


def project_to_simplex(point: Float[Tensor, "*b k"]) -> Float[Tensor, "*b k"]:
    """The nearest vector of non-negative numbers that sum to one."""
    return (point - simplex_threshold(point)).relu()
