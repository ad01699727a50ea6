"""A record: what a model read and wrote, and every weight with which it did so.

    weights   a[i,j] of one head, or the mean of several
    words     b[t,s] = mean over the pieces i of word t, of the sum over the pieces j of word s

Pages, figures, JSON and the terminal all show a `Panel` of a record, so they show the same numbers.
Nothing of size queries × keys is kept: rows are rebuilt when somebody looks at them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.errors import LengthError, SettingError
from regard.inspecting.panels import OVERVIEW, Panel, View
from regard.inspecting.token_labels import Tokens

BLOCK = 1 << 20
"""About how many weights are rebuilt at a time."""
LARGEST = 1 << 26
"""The most weights that are given as one matrix."""
MOST_NUMBERS = 4_000_000
"""The most weights that are written as JSON: about 40 megabytes."""
DIGITS = 7
"""Decimal places in JSON."""


@runtime_checkable
class Weights(Protocol):
    """What a record needs of an attention map, of shape `1 h q k`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole matrix."""

    def tile(self, rows: slice, columns: slice) -> Float[Tensor, "*b r c"]:
        """The weights of one rectangle."""


@runtime_checkable
class Valued(Protocol):
    """Weights that know what they weigh."""

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
    """Who may see whom, by name."""

    @property
    def n_heads(self) -> int:
        """Heads of a layer."""
        return self.layers[0].shape[-3]

    @property
    def told(self) -> str:
        """Mechanism and mask in words, as far as they are known."""
        sees = self.mask and f"Who may see whom: {self.mask}"
        return ". ".join(part for part in (self.mechanism, sees) if part)

    @property
    def is_self(self) -> bool:
        """Whether a sequence looks at itself, so that row i and column i are one place."""
        is_shortened = "slots" in self.key_title
        return self.side(self.query_title) == self.side(self.key_title) and not is_shortened

    @staticmethod
    def side(title: str) -> str:
        """What a title says in brackets: source, target, cell."""
        return title.partition("(")[2].rstrip(")")


SHOWN: dict[str, "Callable[[Record], str | bytes]"] = {}
"""How a notebook shows a record, by the form that it asks for; `regard.plots` puts these in."""


class _Unit(NamedTuple):
    """How the axes of a map are cut: the place of each piece, and the names of the places."""

    query_places: Sequence[int]
    key_places: Sequence[int]
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    specials: frozenset[int]
    key_specials: frozenset[int] = frozenset()


def _by_words(one: Attention) -> _Unit:
    queries, keys = one.queries, one.keys
    return _Unit(
        queries.words, keys.words, queries.names, keys.names, queries.specials, keys.specials
    )


def _by_pieces(one: Attention) -> _Unit:
    queries, keys = one.queries, one.keys
    places = range(len(queries)), range(len(keys))
    specials = (_special_pieces(side) for side in (queries, keys))
    return _Unit(*places, queries.pieces, keys.pieces, *specials)


def _special_pieces(side: Tokens) -> frozenset[int]:
    return frozenset(i for i, word in enumerate(side.words) if word in side.specials)


UNITS = {"words": _by_words, "pieces": _by_pieces}


@final
@dataclass(frozen=True)
class Record:
    """One prediction: its texts, its tokens, and its attention by kind and layer."""

    source: str
    target: str
    attention: Mapping[str, Attention]
    """By kind: "encoder", "decoder", "cross"."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """What made it."""
    note: str | None = None
    """What a reader should know: that the answer was cut, or that no word was hidden."""

    def __post_init__(self) -> None:
        for name in ("attention", "versions"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

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

        Args:
            kind: "encoder", "decoder" or "cross".
            layer: counted from 0; None for the mean of all.
            head: counted from 0; None for the mean of all.
            rows: only these queries.
            columns: only these keys.
        """
        one = find(kind, self.attention)
        size = len(range(len(one.queries))[rows]) * len(range(len(one.keys))[columns])
        _check_size(size, "matrix")
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
        one = find(kind, self.attention).layers[layer]
        if not isinstance(one, Valued):
            raise SettingError(
                f"record: the values of {kind} attention, layer {layer + 1} were not kept. Take a "
                "record from look or capture."
            )
        return one.value_norms()[0, head].float().cpu()

    def arriving(self, kind: str, layer: int, head: int) -> Float[Tensor, "q k"]:
        """Weights times the length of what they weigh: what arrives, not only what is looked at.

        Paper: Kobayashi et al. 2020, equation 4.
        """
        return self.weights(kind, layer, head) * self.value_norms(kind, layer, head)

    def shape(self, view: View = OVERVIEW) -> tuple[int, int]:
        """How many queries and keys a view has."""
        unit = find(view.unit, UNITS)(find(view.kind, self.attention))
        return len(unit.queries), len(unit.keys)

    def panel(self, view: View = OVERVIEW) -> Panel:
        """The matrix of a view, with names and a title."""
        one = find(view.kind, self.attention)
        unit = find(view.unit, UNITS)(one)
        _check_size(len(unit.queries) * len(unit.keys), "matrix")
        weights = self._merged(view, unit)
        return Panel(
            self.title(view), unit.queries, unit.keys, weights, one.query_title, one.key_title,
            unit.specials, unit.key_specials,
        )  # fmt: skip

    def pooled(self, view: View, size: int) -> Float[Tensor, "g c"]:
        """The pieces of a view in at most size × size bins: rows averaged, columns summed."""
        one = find(view.kind, self.attention)
        rows, columns = (_bins(len(tokens), size) for tokens in (one.queries, one.keys))
        names = ("",) * min(size, len(one.queries)), ("",) * min(size, len(one.keys))
        return self._merged(view, _Unit(rows, columns, *names, frozenset()))

    def title(self, view: View) -> str:
        """What a view shows, in words; layers and heads are counted from 1."""
        one = find(view.kind, self.attention)
        layers, heads = len(one.layers), one.n_heads
        # where there is one, it is its own mean
        layer = 0 if layers == 1 else view.layer
        head = 0 if heads == 1 else view.head
        if layer is not None and head is not None:
            where = f"layer {layer + 1}, head {head + 1}"
        elif layer is not None:
            where = f"layer {layer + 1}, mean of {heads} heads"
        elif head is not None:
            where = f"head {head + 1}, mean of {layers} layers"
        else:
            where = f"mean of {layers} layers × {heads} heads"
        return f"{view.kind} attention, {where}"

    def as_json(self) -> dict[str, object]:
        """Texts, tokens and all weights as plain data, `weights[layer][head][query][key]`."""
        total = self.n_weights
        if total > MOST_NUMBERS:
            raise LengthError(
                f"record: {total:,} weights are too many to write out; at most {MOST_NUMBERS:,}. "
                "Write a page (--out x.html) or a picture (--out x.png), keep the whole record "
                "(--out x.safetensors), or take one view in Python: record.weights(kind, layer, "
                "head, rows=, columns=)."
            )
        return {
            "source": self.source,
            "target": self.target,
            "note": self.note,
            "attention": {kind: self._as_json(kind) for kind in self.attention},
        }

    @property
    def n_weights(self) -> int:
        """How many weights there are, of all kinds, layers and heads."""
        return sum(
            len(one.layers) * one.n_heads * len(one.queries) * len(one.keys)
            for one in self.attention.values()
        )

    def _repr_html_(self) -> str | None:
        shown = SHOWN["text/html"](self) if "text/html" in SHOWN else None
        return None if shown is None else str(shown)

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str | bytes]:
        wanted = set(SHOWN if include is None else include) - set(exclude or ())
        shown = {form: show(self) for form, show in SHOWN.items() if form in wanted}
        return {form: content for form, content in shown.items() if content}

    def _as_json(self, kind: str) -> dict[str, object]:
        one = self.attention[kind]
        return {
            "mechanism": one.mechanism,
            "mask": one.mask,
            "query_title": one.query_title,
            "key_title": one.key_title,
            "queries": tokens_as_json(one.queries),
            "keys": tokens_as_json(one.keys),
            "weights": [
                [rounded(self.weights(kind, layer, head)) for head in range(one.n_heads)]
                for layer in range(len(one.layers))
            ],
        }

    def _merged(self, view: View, unit: _Unit) -> Float[Tensor, "q k"]:
        to_query = torch.tensor(unit.query_places, dtype=torch.int64)
        # pieces of a word stand side by side, so a word is a segment of a row
        sizes = torch.tensor(unit.key_places, dtype=torch.int64).bincount(minlength=len(unit.keys))
        out = torch.zeros(len(unit.queries), len(unit.keys))
        for rows, tile in self._blocks(view):
            by_key = torch.segment_reduce(tile.T.contiguous(), "sum", lengths=sizes, axis=0)
            out.index_add_(0, to_query[rows], by_key.T)
        return out / to_query.bincount(minlength=len(unit.queries)).clamp(min=1).unsqueeze(1)

    def _blocks(
        self, view: View, rows: slice = slice(None), columns: slice = slice(None)
    ) -> Iterator[tuple[slice, Float[Tensor, "q k"]]]:
        """Some rows at a time, so that no more than a few of a long text's are held at once."""
        one = find(view.kind, self.attention)
        layers, heads = view.chosen(len(one.layers), one.n_heads)
        for i in layers:
            _check_keys(one, i, view.kind)
        every = range(len(one.queries))[rows]
        height = max(1, BLOCK // max(1, one.n_heads * len(one.keys)))
        for first in range(0, len(every), height):
            part = every[first : first + height]
            some = slice(part.start, part.stop, part.step)
            tiles = [one.layers[i].tile(some, columns)[0, heads].mean(dim=0) for i in layers]
            yield some, torch.stack(tiles).mean(dim=0).float().cpu()


def rounded(matrix: Float[Tensor, "q k"]) -> list[list[float]]:
    """A matrix as plain numbers with `DIGITS` decimal places."""
    return [[round(number, DIGITS) for number in row] for row in matrix.tolist()]


def tokens_as_json(tokens: Tokens) -> dict[str, object]:
    """One side of a map as plain data."""
    return {
        "pieces": list(tokens.pieces),
        "words": list(tokens.words),
        "names": list(tokens.names),
        "specials": sorted(tokens.specials),
    }


def _bins(count: int, size: int) -> list[int]:
    bins = min(size, count)
    return [place * bins // count for place in range(count)]


def _check_keys(one: Attention, layer: int, kind: str) -> None:
    """Layers may differ: some look at words, and some at the slots of a shortened memory."""
    found, keys = one.layers[layer].shape[-1], len(one.keys)
    if found != keys:
        raise SettingError(
            f"record: layer {layer + 1} of {kind} attention looks at {found:,} keys and layer 1 at "
            f"{keys:,}, so that no page and no mean shows both. Look at layer 1 alone, or at "
            "another kind."
        )


def _check_size(size: int, what: str) -> None:
    if size > LARGEST:
        raise LengthError(
            f"record: a {what} of {size:,} weights is too large; at most {LARGEST:,}. Take a part "
            "(weights(…, rows=, columns=)), or fewer bins (pooled(view, size))."
        )
