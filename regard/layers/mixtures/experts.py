"""Experts: several feed-forwards, of which a gate chooses a few for each token.

    g = softmax(W x),   out = sum over the k largest g[e] of g[e] / (their sum) · FFN[e](x)
    k = 1:              out = g[e] · FFN[e](x)     (divided by itself it would teach nothing)
    imbalance = E · sum_e f[e] p[e]     f: share of choices, p: mean of g; 1 where all are alike

Paper: Shazeer et al. 2017 (mixtures); Fedus, Zoph & Shazeer 2022, equations 2 and 4 to 6.
Cost: time O(n · k · m · f), E times the parameters of one; no token is ever dropped.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.dropout import Dropout
from regard.choices import find
from regard.dims import Dims
from regard.errors import SettingError
from regard.layers.feed_forward import ACTIVATIONS


class Routing(NamedTuple):
    """Where the gate of one mixture sent each token."""

    shares: Float[Tensor, "n e"]
    """The gate's weight of each expert; its gradient reaches the gate alone."""
    chosen: Tensor
    """The experts that each token was sent to."""


@final
class Experts(nn.Module):
    """A mixture instead of one feed-forward; `used` of its experts compute each token.

    Args:
        dims: the model width.
        d_hidden: the inner width of each; four times the model's unless given.
        count: how many there are.
        used: how many work on a token.
        activation: "relu" or "gelu".
        dropout: on the inner activations.
    """

    def __init__(
        self,
        dims: Dims,
        *,
        d_hidden: int | None = None,
        count: int = 16,
        used: int = 2,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if not 1 <= used <= count:
            raise SettingError(f"experts: used must lie between 1 and count ({count}), got {used}.")
        width = d_hidden or 4 * dims.d_model
        self.used = used
        self.gate = nn.Linear(dims.d_model, count, bias=False)
        self.W1 = nn.Parameter(torch.empty(count, dims.d_model, width))
        self.b1 = nn.Parameter(torch.zeros(count, width))
        self.W2 = nn.Parameter(torch.empty(count, width, dims.d_model))
        self.b2 = nn.Parameter(torch.zeros(count, dims.d_model))
        self.activation, self.dropout = find(activation, ACTIVATIONS), Dropout(dropout)
        bound = (6 / (dims.d_model + width)) ** 0.5
        nn.init.uniform_(self.W1, -bound, bound)
        nn.init.uniform_(self.W2, -bound, bound)
        # before training all experts are about equally likely
        nn.init.normal_(self.gate.weight, std=0.1 * dims.d_model**-0.5)
        self.heard: list[Routing] | None = None
        """The list that collects the routing of each pass inside `listening`."""

    def forward(self, x: Float[Tensor, "*b m"]) -> Float[Tensor, "*b m"]:
        """Send each token to its experts and weigh their outputs."""
        if _is_capturing(x):
            raise SettingError(
                "experts: how many tokens each of them gets is another number in every batch, "
                "which a CUDA graph of the work cannot know. Train with --no-compile."
            )
        tokens = x.reshape(-1, x.shape[-1])
        shares = self.gate(tokens).float().softmax(-1)
        best = shares.topk(self.used, -1)
        weights = best.values / best.values.sum(-1, keepdim=True) if self.used > 1 else best.values
        if self.heard is not None:
            self.heard.append(Routing(shares, best.indices))
        out = torch.zeros_like(tokens)
        for number in range(len(self.W1)):
            row, place = (best.indices == number).nonzero(as_tuple=True)
            made = self._expert(number, tokens[row]) * weights[row, place, None]
            out = out.index_add(0, row, made.to(out.dtype))
        return out.view_as(x)

    def _expert(self, number: int, tokens: Float[Tensor, "n m"]) -> Float[Tensor, "n m"]:
        inner = self.activation(tokens @ self.W1[number] + self.b1[number])
        return self.dropout(inner) @ self.W2[number] + self.b2[number]


@contextmanager
def listening(model: nn.Module) -> Iterator[list[Routing]]:
    """A context that collects the routing of every mixture of a model."""
    heard: list[Routing] = []
    mixtures = [part for part in model.modules() if isinstance(part, Experts)]
    for mixture in mixtures:
        mixture.heard = heard
    try:
        yield heard
    finally:
        for mixture in mixtures:
            mixture.heard = None


def imbalance(shares: Float[Tensor, "n e"], chosen: Tensor) -> Float[Tensor, ""]:
    """How unequally experts are used: 1 if all equally, up to their number if only one is.

    >>> even = torch.full((4, 2), 0.5)
    >>> float(imbalance(even, torch.tensor([[0], [1], [0], [1]])))
    1.0
    """
    count = shares.shape[-1]
    asked = torch.zeros(count, device=shares.device).index_add(
        0, chosen.flatten(), torch.ones(chosen.numel(), device=shares.device)
    )
    return count * (asked / chosen.numel() * shares.mean(0)).sum()


def _is_capturing(x: Tensor) -> bool:
    return x.is_cuda and torch.cuda.is_current_stream_capturing()
