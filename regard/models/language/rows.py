"""How a source and a target become one row, what is asked of it, and how a search begins.

    separated   s1 … sn end begin y1 … ym end       T-D; the begin token is its separator
    running     begin s1 … sn y1 … ym               a text, cut anywhere, that goes on
    continued   s1 … sn y1 … ym end                 GPT-2; begin is read where there is no source

Corpora put an end token behind either side. Where the target goes on with the source, the source
has no such end, and in a running text there is none at all: it is taken away, and nothing is asked
there.

Paper: Liu et al. 2018, section 4.2.1; Radford et al. 2019.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, final, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from regard.data.kinds import BOS, EOS, PAD

NOWHERE = -1
"""The place of a token that is not read."""


class Taught(NamedTuple):
    """A row as it is read, and the right token after each of its tokens."""

    read: Int[Tensor, "b n"]
    gold: Int[Tensor, "b n"]
    """Padding where nothing is asked."""


class Opened(NamedTuple):
    """What is read of a source before the first step, and what the first step reads."""

    prefix: Int[Tensor, "b s"]
    first: Int[Tensor, " b"] | None
    """In place of the begin token; None if the begin token is read."""


class Laid(NamedTuple):
    """A source and a target in one row, and where each token stands; some stand `NOWHERE`."""

    row: Int[Tensor, "b n"]
    says: Int[Tensor, "b t"]
    """The position after which each target token's successor is said."""
    source: Int[Tensor, "b s"]
    """The position of each source token."""
    target: Int[Tensor, "b t"]
    """The position of each target token."""


@runtime_checkable
class Rows(Protocol):
    """How sources and targets stand in one row."""

    @property
    def continues_source(self) -> bool:
        """Whether a target goes on with its source, which may then be empty."""

    def joined(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"], *, asks_all: bool
    ) -> Taught:
        """The rows of a lesson; padding stands last."""

    def laid(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Laid:
        """A source with its end token and a target with its begin token, as a search reads them."""

    def opened(self, source: Int[Tensor, "b s"]) -> Opened:
        """The beginning of a search."""


@final
class Separated:
    """Source, begin token, target."""

    continues_source = False

    def joined(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"], *, asks_all: bool
    ) -> Taught:
        """The source is read as it is; its own tokens are asked for only if all are."""
        begin = torch.full_like(target[:, :1], BOS)
        rows = torch.cat([source, begin, target], 1)
        unasked = source if asks_all else torch.zeros_like(source)
        return _shifted(rows, torch.cat([unasked, begin * asks_all, target], 1))

    def laid(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Laid:
        """The target behind the source."""
        whole = torch.cat([source, target], 1)
        row, _ = _gapless(whole, whole)
        at = (source != PAD).sum(1, keepdim=True) + _counted(target)
        own = _counted(source).masked_fill(source == PAD, NOWHERE)
        return Laid(row, at, own, at.masked_fill(target == PAD, NOWHERE))

    def opened(self, source: Int[Tensor, "b s"]) -> Opened:
        """All of the source; the begin token comes next."""
        return Opened(source, None)


@final
class Running:
    """A text that goes on: the begin token stands first, and no end token anywhere."""

    continues_source = True

    def joined(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"], *, asks_all: bool
    ) -> Taught:
        """The target goes on where the source stops."""
        begin = torch.full_like(target[:, :1], BOS)
        before, after = (side.masked_fill(side == EOS, PAD) for side in (source, target))
        asked = before if asks_all else torch.zeros_like(before)
        rows = torch.cat([begin, before, after], 1)
        return _shifted(rows, torch.cat([torch.zeros_like(begin), asked, after], 1))

    def laid(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Laid:
        """The begin token first, whosever it was; the end token has no place."""
        kept = source.masked_fill(source == EOS, PAD)
        whole = torch.cat([target[:, :1], kept, target[:, 1:]], 1)
        row, _ = _gapless(whole, whole)
        says = (kept != PAD).sum(1, keepdim=True) + _counted(target)
        own = (kept != PAD).cumsum(1).masked_fill(kept == PAD, NOWHERE)
        at = torch.cat([torch.zeros_like(says[:, :1]), says[:, 1:]], 1)
        return Laid(row, says, own, at.masked_fill(target == PAD, NOWHERE))

    def opened(self, source: Int[Tensor, "b s"]) -> Opened:
        """The source but for its last token, which the first step reads."""
        begin = torch.full_like(source[:, :1], BOS)
        return _opened(torch.cat([begin, source.masked_fill(source == EOS, PAD)], 1))


@final
class Continued:
    """A text that goes on and ends: what was begun is read as it is, with nothing before it."""

    continues_source = True

    def joined(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"], *, asks_all: bool
    ) -> Taught:
        """The target goes on where the source stops, and ends."""
        before = source.masked_fill(source == EOS, PAD)
        begin = _begin_of(before)
        asked = before if asks_all else torch.zeros_like(before)
        rows = torch.cat([begin, before, target], 1)
        return _shifted(rows, torch.cat([torch.zeros_like(begin), asked, target], 1))

    def laid(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Laid:
        """Where there is a source, the begin token has no place, and no end token but the last."""
        kept = source.masked_fill(source == EOS, PAD)
        is_begun = (kept != PAD).any(1, keepdim=True)
        whole = torch.cat([target[:, :1].masked_fill(is_begun, PAD), kept, target[:, 1:]], 1)
        row, _ = _gapless(whole, whole)
        says = ((kept != PAD).sum(1, keepdim=True) - is_begun.long()) + _counted(target)
        own = ((kept != PAD).cumsum(1) - 1).masked_fill(kept == PAD, NOWHERE)
        at = torch.cat([says[:, :1].masked_fill(is_begun, NOWHERE), says[:, 1:]], 1)
        return Laid(row, says, own, at.masked_fill(target == PAD, NOWHERE))

    def opened(self, source: Int[Tensor, "b s"]) -> Opened:
        """The source but for its last token, which the first step reads."""
        kept = source.masked_fill(source == EOS, PAD)
        return _opened(torch.cat([_begin_of(kept), kept], 1))


ROWS: Mapping[str, Rows] = {
    "separated": Separated(),
    "running": Running(),
    "continued": Continued(),
}
"""What `model.rows` may say."""


def _begin_of(source: Int[Tensor, "b s"]) -> Int[Tensor, "b 1"]:
    """The begin token in front of what is empty, and padding elsewhere."""
    return BOS * (source == PAD).all(1, keepdim=True).to(source.dtype)


def _opened(row: Int[Tensor, "b n"]) -> Opened:
    """A row without its last token, and that token."""
    row, _ = _gapless(row, row)
    last = (row != PAD).sum(1, keepdim=True) - 1
    return Opened(row.scatter(1, last, PAD)[:, :-1], row.gather(1, last).squeeze(1))


def _shifted(rows: Int[Tensor, "b n"], asked: Int[Tensor, "b n"]) -> Taught:
    """Each token asks for the next one of its row."""
    rows, asked = _gapless(rows, asked)
    # a row's last token stands before its padding, and is nothing to read on from
    return Taught(rows[:, :-1].masked_fill(rows[:, 1:] == PAD, PAD), asked[:, 1:])


def _gapless(
    rows: Int[Tensor, "b n"], asked: Int[Tensor, "b n"]
) -> tuple[Int[Tensor, "b n"], Int[Tensor, "b n"]]:
    """Both with the padding of the rows behind their tokens; nothing is sorted for it."""
    there = rows != PAD
    place = torch.where(there, there.cumsum(1), there.sum(1, keepdim=True) + (~there).cumsum(1)) - 1
    return torch.zeros_like(rows).scatter(1, place, rows), torch.zeros_like(asked).scatter(
        1, place, asked
    )


def joined(source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Taught:
    """What is read and what is asked for: one row of source, begin and target, padding last.

    >>> read, gold = joined(torch.tensor([[7, 2, 0], [8, 9, 2]]), torch.tensor([[5, 2], [6, 2]]))
    >>> read
    tensor([[7, 2, 1, 5, 0],
            [8, 9, 2, 1, 6]])
    >>> gold
    tensor([[0, 0, 5, 2, 0],
            [0, 0, 0, 6, 2]])
    """
    return ROWS["separated"].joined(source, target, asks_all=False)


def _counted(tokens: Int[Tensor, "b n"]) -> Int[Tensor, "b n"]:
    return torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
