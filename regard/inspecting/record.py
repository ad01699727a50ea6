"""A record: the texts and tokens that a model read and wrote, and all its attention weights.

    weights   a[i,j] of one head, or the mean of several
    words     b[t,s] = mean over the pieces i of word t, of the sum over the pieces j of word s

Pages, figures, JSON and the terminal all show a `Panel` of a record, so they show the same numbers.
No matrix of queries × keys is kept: rows are rebuilt when they are read.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from reprlib import repr as shortened
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.errors import LengthError, SettingError, counted
from regard.inspecting.panels import OVERVIEW, Panel, View, check_is_view
from regard.inspecting.token_labels import Tokens

BLOCK_WEIGHTS = 1 << 20
"""About how many weights are rebuilt at a time."""
MAX_MATRIX_WEIGHTS = 1 << 26
"""The most weights that are given as one matrix."""
MAX_JSON_WEIGHTS = 4_000_000
"""The most weights that are written as JSON: about 40 megabytes."""
ONE_ROW = "Row 3 alone is slice(3, 4)."
DIGITS = 7
"""Decimal places in JSON."""


@runtime_checkable
class Weights(Protocol):
    """The interface of an attention map in a record, of shape `1 h q k`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole matrix."""

    def tile(self, rows: slice, columns: slice) -> Float[Tensor, "*b r c"]:
        """The weights of one rectangle."""


@runtime_checkable
class Valued(Protocol):
    """Weights that can give the lengths of the values that they weigh."""

    def value_norms(self) -> Float[Tensor, "*b k"]:
        """How long each value is once the layer's output projection has turned it."""


@final
@dataclass(frozen=True)
class Attention:
    """One kind of attention in all layers."""

    queries: Tokens
    keys: Tokens
    layers: tuple[Weights, ...]
    query_title: str = "query (target)"
    key_title: str = "key (source)"
    mechanism: str = ""
    """Its links by name, such as scaled_dot, soft."""
    mask: str = ""
    """The names of the masks, such as causal."""

    def __repr__(self) -> str:
        links = f", {self.mechanism}" if self.mechanism else ""
        sizes = f"{counted(len(self.layers), 'layer')} × {counted(self.n_heads, 'head')}"
        return f"Attention({sizes} × {len(self.queries)} queries × {len(self.keys)} keys{links})"

    @property
    def n_heads(self) -> int:
        """Heads of a layer."""
        return self.layers[0].shape[-3]

    @property
    def n_weights(self) -> int:
        """How many weights there are, of all layers and heads."""
        return len(self.layers) * self.n_heads * len(self.queries) * len(self.keys)

    @property
    def description(self) -> str:
        """Mechanism and mask as sentences, as far as they are known."""
        sees = self.mask and f"Who may see whom: {self.mask}"
        return ". ".join(part for part in (self.mechanism, sees) if part)

    @property
    def is_self(self) -> bool:
        """Whether a sequence looks at itself, so that row i and column i are one place."""
        is_shortened = "slots" in self.key_title
        return self.side(self.query_title) == self.side(self.key_title) and not is_shortened

    def as_json(self) -> dict[str, object]:
        """All but the weights as plain data."""
        return {
            "mechanism": self.mechanism,
            "mask": self.mask,
            "query_title": self.query_title,
            "key_title": self.key_title,
            "queries": self.queries.as_json(),
            "keys": self.keys.as_json(),
        }

    @staticmethod
    def side(title: str) -> str:
        """The word in brackets in a title: source, target, cell."""
        return title.partition("(")[2].rstrip(")")


Forms = dict[str, Callable[[Any], str | bytes]]
"""How an object is shown, by form such as text/html; forms without content are left out."""


class ShownInNotebooks:
    """What a notebook shows of a record, in each form that notebooks can request."""

    forms: ClassVar[Forms]
    """`regard.plots.notebook` fills this table."""

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str | bytes]:
        wanted = set(self.forms if include is None else include) - set(exclude or ())
        shown = {form: show(self) for form, show in self.forms.items() if form in wanted}
        return {form: content for form, content in shown.items() if content}

    def _repr_html_(self) -> str | None:
        shown = self._repr_mimebundle_(include=["text/html"]).get("text/html")
        return None if shown is None else str(shown)


class _Cut(NamedTuple):
    """How one side of a map is cut: the place of each piece, and the names of the places."""

    places: Sequence[int]
    names: tuple[str, ...]
    specials: frozenset[int] = frozenset()


UNITS: Mapping[str, Callable[[Tokens], _Cut]] = {
    "words": lambda side: _Cut(side.words, side.names, side.specials),
    "pieces": lambda side: _Cut(range(len(side)), side.pieces, side.special_pieces),
}


@final
@dataclass(frozen=True)
class Record(ShownInNotebooks):
    """One prediction: its texts, its tokens, and its attention by kind and layer."""

    forms: ClassVar[Forms] = {}

    source: str
    target: str
    attention: Mapping[str, Attention]
    """By kind: "encoder", "decoder", "cross"."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The versions of the packages that made it."""
    note: str | None = None
    """A note for the reader, such as that the answer was cut, or that no word was hidden."""

    def __post_init__(self) -> None:
        for name in ("attention", "versions"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __repr__(self) -> str:
        kinds = ", ".join(self.attention) or "nothing"
        return f"Record({shortened(self.source)} → {shortened(self.target)}, attention: {kinds})"

    def weights(
        self,
        kind: str,
        layer: int | None = None,
        head: int | None = None,
        *,
        rows: slice = slice(None),
        columns: slice = slice(None),
    ) -> Float[Tensor, "q k"]:
        """The weights of one head, or their mean over heads, or over layers too.

        Layers and heads are counted from 0; where they are None, the mean of all.
        """
        one = self._of(kind)
        for name, part in (("rows", rows), ("columns", columns)):
            if not isinstance(part, slice):
                raise SettingError(f"record: {name} must be a slice, got {part!r:.40}. {ONE_ROW}")
        size = len(range(len(one.queries))[rows]) * len(range(len(one.keys))[columns])
        _check_size(size)
        blocks = [tile for _, tile in self._blocks(View(kind, layer, head), rows, columns)]
        return torch.cat(blocks) if blocks else torch.zeros(0, len(one.keys))[:, columns]

    def mean(self, kind: str) -> Float[Tensor, "q k"]:
        """The mean over all layers and heads."""
        return self.weights(kind)

    def words(
        self, kind: str, layer: int | None = None, head: int | None = None
    ) -> Float[Tensor, "q k"]:
        """The weights between words: summed over a key's pieces, averaged over a query's."""
        return self.panel(View(kind, layer, head)).weights

    def value_norms(self, kind: str, layer: int, head: int) -> Float[Tensor, " k"]:
        """How long each key's value is once the layer's output projection has turned it."""
        one = self._of(kind).layers[layer]
        if not isinstance(one, Valued):
            raise SettingError(
                f"record: the values of {kind} attention, layer {layer + 1} were not kept. Take a "
                "record from look or capture."
            )
        return one.value_norms()[0, head].float().cpu()

    def arriving(self, kind: str, layer: int, head: int) -> Float[Tensor, "q k"]:
        """Weights times the lengths of the values: how much each key adds, not only its weight.

        Paper: Kobayashi et al. 2020, equation 4.
        """
        return self.weights(kind, layer, head) * self.value_norms(kind, layer, head)

    def shape(self, view: View = OVERVIEW) -> tuple[int, int]:
        """How many queries and keys a view has."""
        check_is_view(view)
        queries, keys = self._cut(view)
        return len(queries.names), len(keys.names)

    def panel(self, view: View = OVERVIEW) -> Panel:
        """The matrix of a view, with names and a title."""
        check_is_view(view)
        one, (queries, keys) = self._of(view.kind), self._cut(view)
        _check_size(len(queries.names) * len(keys.names))
        return Panel(
            self.title(view), queries.names, keys.names, self._merged(view, queries, keys),
            one.query_title, one.key_title, queries.specials, keys.specials,
        )  # fmt: skip

    def pooled(self, view: View, size: int) -> Float[Tensor, "g c"]:
        """The pieces of a view in at most size × size bins: rows averaged, columns summed."""
        one = self._of(view.kind)
        return self._merged(view, *(_bins(len(side), size) for side in (one.queries, one.keys)))

    def title(self, view: View) -> str:
        """The title of a view, in words; layers and heads are counted from 1."""
        one = self._of(view.kind)
        counts = {"layer": (view.layer, len(one.layers)), "head": (view.head, one.n_heads)}
        # a single layer or head equals its mean
        chosen = {what: 0 if count == 1 else number for what, (number, count) in counts.items()}
        said = [f"{what} {number + 1}" for what, number in chosen.items() if number is not None]
        means = [f"{counts[what][1]} {what}s" for what, number in chosen.items() if number is None]
        where = [*said, f"mean of {' × '.join(means)}"] if means else said
        return f"{view.kind} attention, {', '.join(where)}"

    def as_json(self) -> dict[str, object]:
        """Texts, tokens and all weights as plain data, `weights[layer][head][query][key]`."""
        total = self.n_weights
        if total > MAX_JSON_WEIGHTS:
            raise LengthError(
                f"record: {total:,} weights are too many to write out; at most "
                f"{MAX_JSON_WEIGHTS:,}. Write a page (--out x.html) or a picture (--out x.png), "
                "keep the whole record (--out x.safetensors), or take one view in Python: "
                "record.weights(kind, layer, head, rows=, columns=)."
            )
        return {
            "source": self.source,
            "target": self.target,
            "note": self.note,
            "attention": {
                kind: {**one.as_json(), "weights": self._rounded(kind, one)}
                for kind, one in self.attention.items()
            },
        }

    @property
    def n_weights(self) -> int:
        """How many weights there are, of all kinds, layers and heads."""
        return sum(one.n_weights for one in self.attention.values())

    def _of(self, kind: str) -> Attention:
        if not self.attention:
            raise SettingError(
                "record: it is empty until the block of regard.capture ends. Read it behind the "
                "block."
            )
        return find(kind, self.attention)

    def _rounded(self, kind: str, one: Attention) -> list[list[list[list[float]]]]:
        return [
            [rounded(self.weights(kind, layer, head)) for head in range(one.n_heads)]
            for layer in range(len(one.layers))
        ]

    def _cut(self, view: View) -> tuple[_Cut, _Cut]:
        one, cut = self._of(view.kind), find(view.unit, UNITS)
        return cut(one.queries), cut(one.keys)

    def _merged(self, view: View, queries: _Cut, keys: _Cut) -> Float[Tensor, "q k"]:
        to_query = torch.tensor(queries.places, dtype=torch.int64)
        # pieces of a word stand side by side, so a word is a segment of a row
        to_key, n_queries = torch.tensor(keys.places, dtype=torch.int64), len(queries.names)
        sizes = to_key.bincount(minlength=len(keys.names))
        out = torch.zeros(n_queries, len(keys.names))
        for rows, tile in self._blocks(view):
            by_key = torch.segment_reduce(tile.T.contiguous(), "sum", lengths=sizes, axis=0)
            out.index_add_(0, to_query[rows], by_key.T)
        return out / to_query.bincount(minlength=n_queries).clamp(min=1).unsqueeze(1)

    def _blocks(
        self, view: View, rows: slice = slice(None), columns: slice = slice(None)
    ) -> Iterator[tuple[slice, Float[Tensor, "q k"]]]:
        """Some rows at a time, so that no more than a few of a long text's are held at once."""
        one = self._of(view.kind)
        layers, heads = view.chosen(len(one.layers), one.n_heads)
        for i in layers:
            _check_keys(one, i, view.kind)
        height = BLOCK_WEIGHTS // max(1, one.n_heads * len(one.keys))
        for part in row_blocks(range(len(one.queries))[rows], height):
            some = as_slice(part)
            tiles = [one.layers[i].tile(some, columns)[0, heads].mean(dim=0) for i in layers]
            yield some, torch.stack(tiles).mean(dim=0).float().cpu()


def row_blocks(rows: range, height: int) -> Iterator[range]:
    """At most `height` rows at a time, and at least one."""
    for first in range(0, len(rows), max(1, height)):
        yield rows[first : first + max(1, height)]


def as_slice(cells: range) -> slice:
    """A range as a slice, to index with."""
    return slice(cells.start, cells.stop, cells.step)


def rounded(matrix: Float[Tensor, "q k"]) -> list[list[float]]:
    """A matrix as plain numbers with `DIGITS` decimal places."""
    return [[round(number, DIGITS) for number in row] for row in matrix.tolist()]


def _bins(count: int, size: int) -> _Cut:
    bins = min(size, count)
    return _Cut([place * bins // count for place in range(count)], ("",) * bins)


def _check_keys(one: Attention, layer: int, kind: str) -> None:
    """Refuse a layer with other keys than layer 1, such as slots of a shortened memory."""
    found, keys = one.layers[layer].shape[-1], len(one.keys)
    if found != keys:
        raise SettingError(
            f"record: layer {layer + 1} of {kind} attention looks at {found:,} keys and layer 1 at "
            f"{keys:,}, so that no page and no mean shows both. Look at layer 1 alone, or at "
            "another kind."
        )


def check_is_record(who: str, given: object) -> None:
    """Refuse what is no record, such as a run or a path."""
    if not isinstance(given, Record):
        raise SettingError(
            f"{who}: expected a record, got an object of {type(given).__name__}. A run's "
            "look(text) gives one, and so do regard.capture(model) and load_record(path)."
        )


def _check_size(size: int) -> None:
    if size > MAX_MATRIX_WEIGHTS:
        raise LengthError(
            f"record: a matrix of {size:,} weights is too large; at most {MAX_MATRIX_WEIGHTS:,}. "
            "Take a part (weights(…, rows=, columns=)), or fewer bins (pooled(view, size))."
        )
