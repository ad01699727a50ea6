"""Mask checks: a new model reads a few tokens, to check that its masks hide what they should."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.data.subword_kinds import PAD, SPECIALS
from regard.errors import SettingError
from regard.models.shapes import Tokens

N_CHECKED, N_PADDED = 3, 2
"""Tokens of a test row, and how much padding is put behind them."""
TOLERANCE = 1e-4
"""The tolerance between two readings, as a share of a position's largest number."""

Reads = Callable[[Tokens], Float[Tensor, "b k m"]]
"""Tokens → states or logits."""


def check_masks(model: nn.Module, n_tokens: int) -> None:
    """Check that an encoder-decoder hides the future and the padding; raises if it does not."""
    source = some_tokens(model, n_tokens)
    check_future(model, lambda target: model(source, target), n_tokens)
    check_padding(model, lambda tokens: model(tokens, tokens), n_tokens)


def check_future(model: nn.Module, hidden: Reads, n_tokens: int) -> None:
    """Check that a later token changes nothing before it; raises if it does."""
    tokens = some_tokens(model, n_tokens)
    other = tokens.clone()
    other[:, -1] = torch.where(other[:, -1] == n_tokens - 1, n_tokens - 2, n_tokens - 1)
    check_hidden(
        model,
        lambda: (hidden(tokens)[:, :-1], hidden(other)[:, :-1]),
        leak="a later token changes earlier states",
    )


def check_padding(model: nn.Module, hidden: Reads, n_tokens: int) -> None:
    """Check that padding changes nothing before it; raises if it does."""
    tokens = some_tokens(model, n_tokens)
    longer = pad(tokens, (0, N_PADDED), value=PAD)

    def read() -> tuple[Tensor, Tensor]:
        here = hidden(tokens)
        return here, hidden(longer)[:, : here.shape[1]]

    check_hidden(model, read, leak="padding changes states")


def check_hidden(model: nn.Module, read: Callable[[], tuple[Tensor, Tensor]], *, leak: str) -> None:
    """Check that hidden tokens change nothing, at any scale of a model's numbers.

    `read` gives states or logits without and with the tokens that should be hidden; `leak` names
    a difference in the error. A model whose numbers grow from layer to layer amplifies rounding
    errors; in double precision these vanish, and a leak remains. A model without numbers (on the
    meta device) is not checked.
    """
    dtype = (weight := next(model.parameters())).dtype
    if weight.is_meta:
        return
    here, there = _evaluated(model, read)
    n_lost = int((~(here.isfinite() & there.isfinite())).sum())
    if n_lost:
        raise SettingError(
            f"model: with its first weights it should give finite numbers, got {n_lost:,} of "
            f"{here.numel():,} that are infinite or not a number: they grow from layer to layer. "
            "Choose norm = 'pre_norm' or 'post_norm' in [model], or fewer layers."
        )
    if _change(here, there) >= TOLERANCE:
        # the way to double precision and back changes no number
        change = _change(*_evaluated(model.double(), read))
        model.to(dtype)
        assert change < TOLERANCE, f"{leak} by {change:.1e} of their size"


def some_tokens(model: nn.Module, n_tokens: int) -> Tokens:
    """A few fixed tokens, made without torch's global generator."""
    generator = torch.Generator().manual_seed(0)
    highest = max(n_tokens, len(SPECIALS) + 1)
    drawn = torch.randint(len(SPECIALS), highest, (2, N_CHECKED), generator=generator)
    return drawn.clamp(max=n_tokens - 1).to(next(model.parameters()).device)


def _change(here: Tensor, there: Tensor) -> float:
    """The largest difference, as a share of the largest number of its position."""
    size = torch.maximum(here.abs().amax(-1), there.abs().amax(-1))
    least = torch.finfo(size.dtype).tiny
    return float(((here - there).abs().amax(-1) / size.clamp(min=least)).max())


@torch.no_grad()
def _evaluated(
    model: nn.Module, read: Callable[[], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Both readings, with dropout off and the model left as it was."""
    was_training = model.training
    model.eval()
    readings = read()
    model.train(was_training)
    return readings
