"""Layouts: what a tensor of ours is called elsewhere, and what is done to it on the way.

    "attention.W_Q.weight": "attention.self.query.weight"        the same numbers
    "attention.W_Q.weight": third(0, "attn.c_attn.weight")       the first third of them, turned

A family's file is such a table. Rows of a table of pieces are put into the order of our numbers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import CheckpointError

NEVER = -1e9
"""The bias of a piece that a published model does not have: it is never said."""
SHOWN = 5
"""How many names a message shows."""
OTHER_MODEL = "Take config.json and all weights from one model."
OTHER_TASK = (
    "What is left over (a head, an adapter, more layers) has no place here, and the model would be "
    "another without it. If that one is wanted, save it so (transformers: AutoModel) and import it."
)


class Row(NamedTuple):
    """Where a piece of ours stands in a published table."""

    number: int | None
    """None if it stands nowhere."""
    is_said: bool = True
    """Whether the model may say it; a row that two pieces share is said by one of them."""


Rows = Sequence[Row]
Form = Callable[[Sequence[Tensor], Rows], Tensor]


@final
@dataclass(frozen=True)
class Theirs:
    """Where a tensor of ours comes from."""

    names: tuple[str, ...]
    form: Form
    side: str = "target"
    """Whose pieces a table has rows for: "source" or "target"."""
    has_rows: bool = False
    """Whether its first tensor has a row for each piece."""

    def under(self, prefix: str) -> "Theirs":
        """The same, of one layer of a stack."""
        return replace(self, names=tuple(prefix + name for name in self.names))


Table = Mapping[str, str | Theirs]


def _same(found: Sequence[Tensor], rows: Rows) -> Tensor:
    return found[0]


def _turned(found: Sequence[Tensor], rows: Rows) -> Tensor:
    return found[0].t()


def _by_piece(found: Sequence[Tensor], rows: Rows) -> Float[Tensor, "v m"]:
    table = found[0]
    # a piece that only we have is all zeros
    wide = torch.cat([table, table.new_zeros(1, table.shape[1])])
    return wide[[len(table) if row.number is None else row.number for row in rows]]


def _with_bias(found: Sequence[Tensor], rows: Rows) -> Float[Tensor, "v mb"]:
    bias = found[1].flatten()
    wide = torch.cat([bias, bias.new_full((1,), NEVER)])
    own = wide[[len(bias) if row.number is None or not row.is_said else row.number for row in rows]]
    return torch.cat([_by_piece(found, rows), own.unsqueeze(1)], 1)


def _with_no_bias(found: Sequence[Tensor], rows: Rows) -> Float[Tensor, "v mb"]:
    return _with_bias([found[0], found[0].new_zeros(len(found[0]))], rows)


def same(name: str) -> Theirs:
    """The same numbers."""
    return Theirs((name,), _same)


def turned(name: str) -> Theirs:
    """Rows and columns exchanged: some multiply from the other side."""
    return Theirs((name,), _turned)


def third(number: int, name: str) -> Theirs:
    """One of three tensors that lie side by side, and rows and columns exchanged."""
    return Theirs((name,), lambda found, rows: found[0].tensor_split(3, -1)[number].t())


def even_rows(name: str) -> Theirs:
    """All rows, but the last of an odd number."""
    return Theirs((name,), lambda found, rows: found[0][: len(found[0]) // 2 * 2])


def by_piece(name: str, side: str = "target") -> Theirs:
    """A table with a row for each piece, in our order."""
    return Theirs((name,), _by_piece, side, has_rows=True)


def by_piece_with_bias(name: str, bias: str) -> Theirs:
    """The same, with a bias for each piece in one more column."""
    return Theirs((name, bias), _with_bias, has_rows=True)


def by_piece_with_no_bias(name: str) -> Theirs:
    """The same where there is none: 0 for their pieces, and very low for those only we have."""
    return Theirs((name,), _with_no_bias, has_rows=True)


@final
@dataclass(frozen=True)
class Layout:
    """All tensors of a model: ours by name, and what else may be in a file."""

    ours: Mapping[str, Theirs]
    left_out: tuple[str, ...] = ()
    """Regular expressions for what a file may hold and we have no use for."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """What may stand in a file a second time, and what it must be equal to."""


def stacked(ours: str, theirs: str, table: Table, count: int) -> dict[str, Theirs]:
    """A table of one layer for a stack of them; {i} is the number of the layer.

    >>> stacked("layers.{i}.", "h.{i}.", {"norm.gain": "ln.weight"}, 2)["layers.1.norm.gain"].names
    ('h.1.ln.weight',)
    """
    return {
        ours.format(i=i) + name: found(entry).under(theirs.format(i=i))
        for i in range(count)
        for name, entry in table.items()
    }


def found(entry: str | Theirs) -> Theirs:
    """An entry of a table; a name alone means the same numbers."""
    return same(entry) if isinstance(entry, str) else entry


def converted(
    layout: Layout,
    tensors: Mapping[str, Tensor],
    rows: Mapping[str, Rows],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, Tensor]:
    """Their tensors as ours; one that is missing, left over, broken or misshapen is an error.

    Args:
        layout: which is which.
        tensors: theirs, by their names.
        rows: the row of each of our pieces, by side.
        shapes: of our tensors, by our names.
    """
    used = {name for theirs in layout.ours.values() for name in theirs.names}
    _check_names(layout, used, set(tensors))
    for name in sorted(used):
        _check_numbers(name, tensors[name])
    for name, original in layout.copies.items():
        if name in tensors and not torch.equal(
            tensors[name].flatten(), tensors[original].flatten()
        ):
            raise CheckpointError(
                f"import: '{name}' must be equal to '{original}', with which it is tied, but it is "
                "not: such models are not read."
            )
    out = {}
    for name, theirs in layout.ours.items():
        held = [tensors[each].float() for each in theirs.names]
        _check_dimensions(theirs.names[0], held[0], len(shapes[name]))
        if theirs.has_rows:
            _check_rows(theirs.names, held, rows[theirs.side])
        made = theirs.form(held, rows[theirs.side]).contiguous()
        if tuple(made.shape) != shapes[name]:
            said = ", ".join(f"'{each}' {tuple(tensors[each].shape)}" for each in theirs.names)
            raise CheckpointError(
                f"import: {said} does not fit config.json: {tuple(made.shape)} of it would be "
                f"read, but {shapes[name]} is expected."
            )
        out[name] = made
    return out


def left_rows(
    layout: Layout, tensors: Mapping[str, Tensor], rows: Mapping[str, Rows]
) -> tuple[str, ...]:
    """A sentence for each published table with rows that no piece of its vocabulary has."""
    sides = {theirs.names[0]: theirs.side for theirs in layout.ours.values() if theirs.has_rows}
    left = {
        name: len(tensors[name]) - len({row.number for row in rows[side]} - {None})
        for name, side in sides.items()
    }
    return tuple(
        f"{count:,} of the {len(tensors[name]):,} rows of '{name}' belong to no piece of the "
        "vocabulary, and are left out."
        for name, count in left.items()
        if count
    )


def _check_numbers(name: str, tensor: Tensor) -> None:
    """Weights are numbers that one can compute with."""
    if not tensor.is_floating_point():
        kind = str(tensor.dtype).removeprefix("torch.")
        raise CheckpointError(
            f"import: '{name}' must hold floating-point numbers, got {kind}: quantised weights are "
            "not read. Import the model as it was before it was quantised."
        )
    # what float32 cannot hold becomes infinite
    spoilt = int((~tensor.float().isfinite()).sum())
    if spoilt:
        raise CheckpointError(
            f"import: '{name}': {spoilt:,} of {tensor.numel():,} numbers are NaN or infinite. "
            "Fetch the file again, or take a checkpoint from before training diverged."
        )


def _check_dimensions(name: str, tensor: Tensor, expected: int) -> None:
    if tensor.dim() != expected:
        raise CheckpointError(
            f"import: '{name}' must have {expected} dimensions, got {tensor.dim()}: "
            f"{tuple(tensor.shape)}."
        )


def _check_rows(names: Sequence[str], held: Sequence[Tensor], rows: Rows) -> None:
    """Every piece has a row, and every row a bias if there are such."""
    count = len(held[0])
    last = max(row.number for row in rows if row.number is not None)
    if last >= count:
        raise CheckpointError(
            f"import: the vocabulary has a piece with number {last}, but '{names[0]}' has {count} "
            "rows. The two are not of one model."
        )
    for name, bias in zip(names[1:], held[1:], strict=True):
        if bias.numel() != count:
            raise CheckpointError(
                f"import: '{name}' must have a number for each of the {count} rows of "
                f"'{names[0]}', got {bias.numel()}."
            )


def _check_names(layout: Layout, used: set[str], held: set[str]) -> None:
    missing = sorted(used - held)
    strange = sorted(
        name
        for name in held - used - layout.copies.keys()
        if not any(re.fullmatch(pattern, name) for pattern in layout.left_out)
    )
    if missing or strange:
        said = [
            f"{what} {_listed(names)}"
            for what, names in (("lacks", missing), ("has besides", strange))
            if names
        ]
        # with layers missing, nobody knows what the others belong to
        remedy = OTHER_MODEL if missing else OTHER_TASK
        raise CheckpointError(
            f"import: the weights are not those of config.json: the file {' and '.join(said)}. "
            f"{remedy}"
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN:,} more"
