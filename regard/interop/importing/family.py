"""A family of published models: the names of its tensors, and how each is converted to ours.

    modules({"attention.W_Q": "attention.self.query"})           the same numbers
    modules({"attention.W_Q": "attn.c_attn"}, third(0))          the first third of them, turned

A family's file is such a table. Rows of a table of pieces are put into the order of our numbers.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, TypeVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import CheckpointError
from regard.interop.importing.folder import Folder

S = TypeVar("S")

READS, WRITES, GOES_ON = "an encoder", "an encoder-decoder", "a language model"
"""What a model may be."""
UNWRITABLE_BIAS = -1e9
"""The bias of a piece that a model cannot write, as its published table has no row for it."""
MAX_NAMED_TENSORS = 5
MAX_SHARE = 4
"""How many times larger than ours a tensor may be that holds several."""
MAX_SPARE_ROWS = 1 << 17
"""How many rows more than pieces a table may have."""
OTHER_MODEL = "Take config.json and all weights from one model."
OTHER_TASK = (
    "What is left over (a head, an adapter, more layers) has no place here, and the model would be "
    "another without it. If that one is wanted, save it so (transformers: AutoModel) and import it."
)


class Roles(NamedTuple):
    """Special pieces by role. None: the vocabulary has no such piece, and ours is never written."""

    padding: str | None
    begin: str | None
    end: str
    unknown: str | None
    mask: str | None = None
    """The mask, which stands for a hidden word."""


class Side(NamedTuple):
    """How a family reads the texts of one side."""

    roles: Roles
    before: tuple[str, ...] = ()
    """Pieces that stand before every text, such as that of its language."""
    after: tuple[str, ...] = ()
    """Pieces that stand after every text, before its end."""


class TwoSides(NamedTuple):
    """The side that is read, and the side that is written."""

    source: Side
    target: Side


class Languages(NamedTuple):
    """The languages that a model of many is to translate from and to; None if not said."""

    source: str | None = None
    target: str | None = None


NO_LANGUAGES = Languages()


class PieceRow(NamedTuple):
    """Where a piece of ours stands in a published table."""

    number: int | None
    """None if it is not in the table."""
    is_writable: bool = True
    """Whether the model may write it; of two pieces with one row only one is written."""


PieceRows = Sequence[PieceRow]
Form = Callable[[Sequence[Tensor], PieceRows], Tensor]
"""Their tensors, and the row of each of our pieces → ours."""


@final
@dataclass(frozen=True)
class PublishedTensor:
    """Where a tensor of ours comes from."""

    names: tuple[str, ...]
    form: Form
    side: str = "target"
    """Whose pieces a table has rows for: "source" or "target"."""
    has_rows: bool = False
    """Whether its first tensor has a row for each piece."""


Table = Mapping[str, PublishedTensor]


@final
@dataclass(frozen=True)
class Layout:
    """All tensors of a model: ours by name, and what else may be in a file."""

    ours: Table
    left_out: tuple[str, ...] = ()
    """Regular expressions for tensors that a file may hold and that are not used here."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Tensors that a file may hold twice, and the names of those that they must equal."""


@final
@dataclass(frozen=True)
class Family(Generic[S]):
    """How models of one family are read; S is the spec that describes them here."""

    model_type: str
    """Its name in config.json."""
    prefix: str
    """The prefix that some files add to the names of all tensors but a head's."""
    sides: Callable[[Folder, Mapping[str, int], Languages], TwoSides]
    """The special pieces of either side, by the numbers of all pieces."""
    spec: Callable[[Folder], S]
    """config.json → the [model] section of a recipe."""
    layout: Callable[[Folder, S], Layout]
    """Which tensor is which."""
    form: str
    """What its models are: `READS`, `WRITES` or `GOES_ON`."""
    notes: Callable[[Folder], tuple[str, ...]] = lambda folder: ()
    """Notes for the reader of the card."""


def always(
    roles: Roles, *, before: tuple[str, ...] = ()
) -> Callable[[Folder, Mapping[str, int], Languages], TwoSides]:
    """The same special pieces on both sides, whatever the folder; there are no languages."""
    side = Side(roles, before)

    def sides(folder: Folder, numbers: Mapping[str, int], languages: Languages) -> TwoSides:
        refuse_languages(folder, languages)
        return TwoSides(side, side)

    return sides


def refuse_languages(folder: Folder, languages: Languages) -> None:
    """Refuse languages where a model has no pieces for them."""
    if languages != NO_LANGUAGES:
        raise folder.refusal(
            " has no pieces for languages, so that --source-language and --target-language would "
            "change nothing. Leave them out."
        )


def same(found: Sequence[Tensor], rows: PieceRows) -> Tensor:
    """The tensor unchanged."""
    return found[0]


def turned(found: Sequence[Tensor], rows: PieceRows) -> Tensor:
    """The transpose, for families that store weights transposed."""
    return found[0].t()


def turning(n_heads: int) -> Form:
    """Channels of each head that turn together made neighbours; there they are half a head apart.

    >>> turning(1)([torch.tensor([0, 2, 4, 1, 3, 5])], ())
    tensor([0, 1, 2, 3, 4, 5])
    """
    return lambda found, rows: found[0].unflatten(0, (n_heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def third(number: int) -> Form:
    """One of three tensors stored side by side, transposed."""
    return lambda found, rows: found[0].tensor_split(3, -1)[number].t()


def _by_piece(found: Sequence[Tensor], rows: PieceRows) -> Float[Tensor, "v m"]:
    table = found[0]
    # a piece without a published row gets zeros
    wide = torch.cat([table, table.new_zeros(1, table.shape[1])])
    return wide[[len(table) if row.number is None else row.number for row in rows]]


def _with_bias(found: Sequence[Tensor], rows: PieceRows) -> Float[Tensor, "v mb"]:
    bias = found[1].flatten() if len(found) > 1 else found[0].new_zeros(len(found[0]))
    wide = torch.cat([bias, bias.new_full((1,), UNWRITABLE_BIAS)])
    own = wide[
        [len(bias) if row.number is None or not row.is_writable else row.number for row in rows]
    ]
    return torch.cat([_by_piece(found, rows), own.unsqueeze(1)], 1)


def by_piece(name: str, side: str = "target") -> PublishedTensor:
    """A table with a row for each piece, in our order."""
    return PublishedTensor((name,), _by_piece, side, has_rows=True)


def by_piece_with_bias(name: str, *bias: str) -> PublishedTensor:
    """The same, with a bias for each piece in one more column.

    It is 0 where the model has no biases, and very low for pieces that only we have.
    """
    return PublishedTensor((name, *bias), _with_bias, has_rows=True)


def modules(names: Mapping[str, str], form: Form = same) -> dict[str, PublishedTensor]:
    """The weight and the bias of each module; a weight is called gain in our norms.

    >>> list(modules({"norm": "ln"}))
    ['norm.gain', 'norm.bias']
    """
    table = {}
    for ours, theirs in names.items():
        weight = "gain" if "norm" in ours.split(".") else "weight"
        table[f"{ours}.{weight}"] = PublishedTensor((f"{theirs}.weight",), form)
        table[f"{ours}.bias"] = PublishedTensor((f"{theirs}.bias",), form)
    return table


def weights(names: Mapping[str, str], form: Form = same) -> dict[str, PublishedTensor]:
    """The weight of each module alone; it is called gain in our norms.

    >>> list(weights({"norm": "ln"}))
    ['norm.gain']
    """
    both = modules(names, form)
    return {name: entry for name, entry in both.items() if not name.endswith(".bias")}


def stacked(ours: str, theirs: str, table: Table, count: int) -> dict[str, PublishedTensor]:
    """A table of one layer for a stack of them; {i} is the number of the layer.

    >>> stacked("layers.{i}.", "h.{i}.", modules({"norm": "ln"}), 2)["layers.1.norm.gain"].names
    ('h.1.ln.weight',)
    """
    return {
        ours.format(i=i) + name: replace(
            entry, names=tuple(theirs.format(i=i) + each for each in entry.names)
        )
        for i in range(count)
        for name, entry in table.items()
    }


def check_forms(
    layout: Layout,
    found: Mapping[str, tuple[int, ...]],
    shapes: Mapping[str, tuple[int, ...]],
) -> set[str]:
    """The tensors that are to be read; a missing, extra or much too large one is an error.

    `found` are the shapes in the file, `shapes` those of our tensors, by name.
    """
    used = {name for theirs in layout.ours.values() for name in theirs.names}
    _check_names(layout, used, set(found))
    for ours, theirs in layout.ours.items():
        expected = math.prod(shapes[ours])
        # there may be many rows that no piece has
        most = MAX_SHARE * expected + MAX_SPARE_ROWS * theirs.has_rows * shapes[ours][-1]
        for name in theirs.names:
            if math.prod(found[name]) > most:
                raise CheckpointError(
                    f"import: '{name}' {found[name]} does not fit config.json: {shapes[ours]} is "
                    "expected."
                )
    return used | (layout.copies.keys() & found.keys())


def converted(
    layout: Layout,
    tensors: Mapping[str, Tensor],
    rows: Mapping[str, PieceRows],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, Tensor]:
    """Their tensors as ours; a non-finite or misshapen one is an error.

    `rows` are those of our pieces, by side; `shapes` are those of our tensors, by our names.
    """
    for name in sorted({name for theirs in layout.ours.values() for name in theirs.names}):
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
        if held[0].dim() != len(shapes[name]):
            raise CheckpointError(
                f"import: '{theirs.names[0]}' must have {len(shapes[name])} dimensions, got "
                f"{held[0].dim()}: {tuple(held[0].shape)}."
            )
        if theirs.has_rows:
            _check_rows(theirs.names, held, rows[theirs.side])
        said = ", ".join(f"'{each}' {tuple(tensors[each].shape)}" for each in theirs.names)
        try:
            made = theirs.form(held, rows[theirs.side]).contiguous()
        except RuntimeError as error:
            raise CheckpointError(
                f"import: {said} does not fit config.json: {shapes[name]} is expected."
            ) from error
        if tuple(made.shape) != shapes[name]:
            raise CheckpointError(
                f"import: {said} does not fit config.json: {tuple(made.shape)} of it would be "
                f"read, but {shapes[name]} is expected."
            )
        out[name] = made
    return out


def left_rows(
    layout: Layout, tensors: Mapping[str, Tensor], rows: Mapping[str, PieceRows]
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


def _check_rows(names: Sequence[str], held: Sequence[Tensor], rows: PieceRows) -> None:
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
        # if layers are missing, the origin of extra tensors is unknown
        remedy = OTHER_MODEL if missing else OTHER_TASK
        raise CheckpointError(
            f"import: the weights are not those of config.json: the file {' and '.join(said)}. "
            f"{remedy}"
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:MAX_NAMED_TENSORS])
    more = len(names) - MAX_NAMED_TENSORS
    return shown if more <= 0 else f"{shown} and {more:,} more"
