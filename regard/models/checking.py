"""Checking: a model sees for itself, when it is built, that its masks hide what they should."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.data.kinds import PAD, SPECIALS

N_CHECKED, N_PADDED = 3, 2
TOLERANCE = 1e-4


def check_future(
    model: nn.Module,
    hidden: Callable[[Int[Tensor, "b n"]], Float[Tensor, "b k m"]],
    n_tokens: int,
) -> None:
    """See that a later token changes nothing before it; raises if it does."""
    tokens = _tokens(model, n_tokens)
    other = tokens.clone()
    other[:, -1] = torch.where(other[:, -1] == n_tokens - 1, n_tokens - 2, n_tokens - 1)
    here, there = _quietly(model, hidden, tokens, other)
    change = (here[:, :-1] - there[:, :-1]).abs().max()
    assert change < TOLERANCE, f"a later token changes earlier states by {change:.1e}"


def check_padding(
    model: nn.Module,
    hidden: Callable[[Int[Tensor, "b n"]], Float[Tensor, "b k m"]],
    n_tokens: int,
) -> None:
    """See that padding changes nothing before it; raises if it does."""
    tokens = _tokens(model, n_tokens)
    here, there = _quietly(model, hidden, tokens, pad(tokens, (0, N_PADDED), value=PAD))
    change = (here - there[:, : here.shape[1]]).abs().max()
    assert change < TOLERANCE, f"padding changes states by {change:.1e}"


def _tokens(model: nn.Module, n_tokens: int) -> Tensor:
    """The same few tokens every time, without touching anybody's chance."""
    generator = torch.Generator().manual_seed(0)
    highest = max(n_tokens, len(SPECIALS) + 1)
    drawn = torch.randint(len(SPECIALS), highest, (2, N_CHECKED), generator=generator)
    return drawn.clamp(max=n_tokens - 1).to(next(model.parameters()).device)


@torch.no_grad()
def _quietly(
    model: nn.Module, hidden: Callable[[Tensor], Tensor], *batches: Tensor
) -> list[Tensor]:
    """What the model says of each batch, with dropout off and the model left as it was."""
    was_training = model.training
    model.eval()
    states = [hidden(tokens) for tokens in batches]
    model.train(was_training)
    return states
