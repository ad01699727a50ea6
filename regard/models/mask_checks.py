"""Checking: a model sees for itself, when it is built, that its masks hide what they should."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.data.kinds import PAD, SPECIALS
from regard.errors import SettingError

N_CHECKED, N_PADDED = 3, 2
TOLERANCE = 1e-4
"""What two readings may differ by, as a share of a position's largest number."""


def check_future(
    model: nn.Module,
    hidden: Callable[[Int[Tensor, "b n"]], Float[Tensor, "b k m"]],
    n_tokens: int,
) -> None:
    """See that a later token changes nothing before it; raises if it does."""
    tokens = _tokens(model, n_tokens)
    other = tokens.clone()
    other[:, -1] = torch.where(other[:, -1] == n_tokens - 1, n_tokens - 2, n_tokens - 1)
    check_hidden(
        model,
        lambda: (hidden(tokens)[:, :-1], hidden(other)[:, :-1]),
        leak="a later token changes earlier states",
    )


def check_padding(
    model: nn.Module,
    hidden: Callable[[Int[Tensor, "b n"]], Float[Tensor, "b k m"]],
    n_tokens: int,
) -> None:
    """See that padding changes nothing before it; raises if it does."""
    tokens = _tokens(model, n_tokens)
    longer = pad(tokens, (0, N_PADDED), value=PAD)

    def read() -> tuple[Tensor, Tensor]:
        here = hidden(tokens)
        return here, hidden(longer)[:, : here.shape[1]]

    check_hidden(model, read, leak="padding changes states")


def check_hidden(
    model: nn.Module,
    read: Callable[[], tuple[Float[Tensor, "b n m"], Float[Tensor, "b n m"]]],
    *,
    leak: str,
) -> None:
    """See that what should be hidden changes nothing, whatever the size of a model's numbers.

    A model whose numbers grow from layer to layer makes much of a rounding error. In double
    precision such a change is gone, and a leak is still there.

    Args:
        model: read with dropout off, and left as it was.
        read: its states or logits without what should be hidden, and with it.
        leak: what a difference means, for the message.
    """
    here, there = _quietly(model, read)
    n_lost = int((~(here.isfinite() & there.isfinite())).sum())
    if n_lost:
        raise SettingError(
            f"model: with its first weights it should give finite numbers, got {n_lost:,} of "
            f"{here.numel():,} that are infinite or not a number: they grow from layer to layer. "
            "Choose norm = 'pre_norm' or 'post_norm' in [model], or fewer layers."
        )
    if _change(here, there) < TOLERANCE:
        return
    change = _change(*_doubly(model, read))
    assert change < TOLERANCE, f"{leak} by {change:.1e} of their size"


def _change(here: Tensor, there: Tensor) -> float:
    """The largest difference, as a share of the largest number of its position."""
    size = torch.maximum(here.abs().amax(-1), there.abs().amax(-1))
    least = torch.finfo(size.dtype).tiny
    return float(((here - there).abs().amax(-1) / size.clamp(min=least)).max())


def _tokens(model: nn.Module, n_tokens: int) -> Tensor:
    """The same few tokens every time, without touching anybody's chance."""
    generator = torch.Generator().manual_seed(0)
    highest = max(n_tokens, len(SPECIALS) + 1)
    drawn = torch.randint(len(SPECIALS), highest, (2, N_CHECKED), generator=generator)
    return drawn.clamp(max=n_tokens - 1).to(next(model.parameters()).device)


@torch.no_grad()
def _quietly(model: nn.Module, read: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Both readings, with dropout off and the model left as it was."""
    was_training = model.training
    model.eval()
    readings = read()
    model.train(was_training)
    return readings


def _doubly(model: nn.Module, read: Callable[[], tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Both readings in double precision; the way there and back changes no number."""
    dtype = next(model.parameters()).dtype
    model.double()
    readings = _quietly(model, read)
    model.to(dtype)
    return readings
