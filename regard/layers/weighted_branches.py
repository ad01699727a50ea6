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
from regard.attention.dropout import Dropout
from regard.attention.links import AnyMask
from regard.attention.selections.sparsemax import simplex_threshold
from regard.attention.shapes import Vectors
from regard.choices import find
from regard.dims import Dims
from regard.errors import DimsError, SettingError
from regard.layers.decoder_layer import DecoderCache, WritingLayer
from regard.layers.encoder_layer import Attend, ReadingLayer
from regard.layers.feed_forward import ACTIVATIONS
from regard.layers.residual import Residual
from regard.places import Places


@final
class WeightedBranches(nn.Module):
    """Replaces attention and the feed-forward after it.

    Args:
        dims: the model width; its heads are the branches.
        attention: the heads; its output projection is cut into one piece for each branch.
        d_hidden: inner width of all feed-forwards together; each branch gets an equal part.
        activation: "relu" as in the paper, or "gelu".
        dropout: on the inner activations; 0 in the paper.
    """

    def __init__(
        self,
        dims: Dims,
        *,
        attention: GroupedQueryHeads,
        d_hidden: int | None = None,
        activation: str = "relu",
        dropout: float = 0.0,
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
        self.attention, self.dropout = attention, Dropout(dropout)
        self.activation = find(activation, ACTIVATIONS)
        # random points of the simplex away from its edges, where a branch gets no gradient
        self.kappa, self.alpha = (nn.Parameter(p / p.sum()) for p in 1 + torch.rand(2, n_branches))
        self.W1 = nn.Parameter(torch.empty(n_branches, dims.d_model, d_hidden // n_branches))
        self.b1 = nn.Parameter(torch.zeros(n_branches, 1, d_hidden // n_branches))
        self.W2 = nn.Parameter(torch.empty(n_branches, d_hidden // n_branches, dims.d_model))
        self.b2 = nn.Parameter(torch.zeros(dims.d_model))
        # outputs as large as a plain network's, though kappa and alpha begin near 1 / branches
        bound = n_branches * (6 / (dims.d_model + d_hidden)) ** 0.5
        nn.init.uniform_(self.W1, -bound, bound)
        nn.init.uniform_(self.W2, -bound, bound)

    def forward(
        self,
        x: Vectors,
        key: Float[Tensor, "b k mk"] | None = None,
        mask: AnyMask = FULL,
        places: Places | None = None,
    ) -> Vectors:
        """Every branch attends and feeds forward; alpha weighs the branches."""
        key = x if key is None else key
        memory = self.attention.remember(key, key)
        return self.join(self.attention.attend_to_memory(x, memory, mask, places).context)

    def join(self, heads: Float[Tensor, "b h n d"]) -> Vectors:
        """The branches' weighted sum, from the heads' contexts."""
        W_O = self.attention.W_O.weight.T.unflatten(0, (heads.shape[1], -1))
        branches = self.kappa.view(-1, 1, 1) * (heads @ W_O)
        thoughts = self.dropout(self.activation(branches @ self.W1 + self.b1)) @ self.W2
        return torch.einsum("h,bhnm->bnm", self.alpha, thoughts) + self.b2

    @torch.no_grad()
    def project(self) -> None:
        """Bring kappa and alpha back to the simplex; call it after each optimiser step."""
        self.kappa.copy_(project_to_simplex(self.kappa))
        self.alpha.copy_(project_to_simplex(self.alpha))


@final
class BranchedEncoderLayer(ReadingLayer):
    """An encoder layer in which branches take the place of attention and feed-forward."""

    def __init__(self, *, branches: WeightedBranches, around_branches: Residual) -> None:
        super().__init__()
        self.branches, self.around_branches = branches, around_branches

    def around(self, x: Tensor, attend: Attend) -> Tensor:
        """One residual around the branches: there is no sum between attention and network."""
        return self.around_branches(
            x, lambda z: self.branches.join(attend(self.branches.attention, z).context)
        )


@final
class BranchedDecoderLayer(WritingLayer):
    """A decoder layer whose branches replace the cross-attention and the feed-forward behind it."""

    def __init__(
        self,
        *,
        attention: GroupedQueryHeads,
        branches: WeightedBranches,
        around_attention: Residual,
        around_branches: Residual,
    ) -> None:
        super().__init__()
        self.attention, self.branches = attention, branches
        self.around_attention, self.around_branches = around_attention, around_branches

    def start(self, source: Float[Tensor, "b k ms"]) -> DecoderCache:
        """Project the source once, before the first step."""
        return DecoderCache(None, self.branches.attention.remember(source, source))

    def read(self, y: Tensor, attend: Attend) -> Tensor:
        """Every branch attends to the source and feeds forward."""
        return self.around_branches(
            y, lambda z: self.branches.join(attend(self.branches.attention, z).context)
        )


def project_all(model: nn.Module) -> None:
    """Bring branches' weights that are not frozen back to the simplex after an optimiser's step."""
    for part in model.modules():
        if isinstance(part, WeightedBranches) and part.kappa.requires_grad:
            part.project()


def branch_weights(model: nn.Module) -> list[nn.Parameter]:
    """Kappa and alpha of every layer."""
    branches = [part for part in model.modules() if isinstance(part, WeightedBranches)]
    return [weights for part in branches for weights in (part.kappa, part.alpha)]


def project_to_simplex(point: Float[Tensor, "*b k"]) -> Float[Tensor, "*b k"]:
    """The nearest vector of non-negative numbers that sum to one."""
    return (point - simplex_threshold(point)).relu()
