"""A view, which chooses part of a record, and its panel: one named matrix to be shown."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, final

from jaxtyping import Float
from torch import Tensor

from regard.errors import SettingError, counted


@final
@dataclass(frozen=True)
class View:
    """Kind, layer, head and unit to show; None is the mean over layers or heads. Counted from 0."""

    kind: str = "cross"
    layer: int | None = None
    head: int | None = None
    unit: str = "words"
    """ "words" or "pieces"."""

    def chosen(self, n_layers: int, n_heads: int) -> tuple[list[int], list[int]]:
        """The chosen layers and heads of an attention with these numbers of layers and heads."""
        return (
            _chosen(self.kind, "layer", self.layer, n_layers),
            _chosen(self.kind, "head", self.head, n_heads),
        )


def _chosen(kind: str, what: str, number: int | None, count: int) -> list[int]:
    if number is None:
        return list(range(count))
    if not isinstance(number, int):
        raise SettingError(f"look: {what} must be a whole number, got {number!r:.40}.")
    if not 0 <= number < count:
        raise SettingError(
            f"look: there is no {what} {number + 1}: {kind} attention has {counted(count, what)}, "
            f"counted from 1{'' if count == 1 else f' to {count}'}. In Python they are counted "
            "from 0."
        )
    return [number]


def check_is_view(given: object) -> None:
    """Refuse what is no view, such as the kind alone."""
    if not isinstance(given, View):
        raise SettingError(
            f"look: expected a view, got {given!r:.40}. Write View('cross', layer, head) of "
            "regard.inspecting.panels."
        )


def usual_kind(kinds: Iterable[str]) -> str:
    """The kind that is shown where none was chosen: a whole row, answer to source, or the first."""
    found = list(kinds)
    return next(
        (kind for kind in ("sequence", "cross") if kind in found), next(iter(found), "cross")
    )


OVERVIEW = View()
"""The default view: the mean of all cross-attention heads, word by word."""


class Link(NamedTuple):
    """A query, the key it weighs most, and how much; places, not names."""

    query: int
    key: int
    weight: float


class Hidden(NamedTuple):
    """Keys that are not shown, and their share of the weight."""

    names: tuple[str, ...]
    share: float
    """Of the weight of the queries that are shown."""

    def __str__(self) -> str:
        return f"{100 * self.share:.0f} % of the weight, on {', '.join(self.names)}, is hidden"


@final
@dataclass(frozen=True)
class Panel:
    """One matrix with names, ready to be shown."""

    title: str
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    weights: Float[Tensor, "q k"]
    query_title: str
    key_title: str
    specials: frozenset[int] = frozenset()
    """Queries that are special tokens: begin and end."""
    key_specials: frozenset[int] = frozenset()
    """Keys that are special tokens."""
    hidden: "Hidden | None" = None
    """The keys that were left out, if any."""

    @property
    def top(self) -> float:
        """The largest weight, which the strongest colour stands for; 1 where there is none."""
        return float(self.weights.max()) or 1.0

    def without_specials(self, *, is_renormalised: bool = False) -> "Panel":
        """The panel without special tokens; `hidden` states what was left out.

        Where `is_renormalised`, each row keeps its sum: the rest is scaled up.
        """
        rows = [i for i in range(len(self.queries)) if i not in self.specials]
        columns = [j for j in range(len(self.keys)) if j not in self.key_specials]
        every = self.weights[rows]
        kept = every[:, columns]
        total, left = every.sum(-1, keepdim=True), kept.sum(-1, keepdim=True)
        share = 1 - float(left.sum() / total.sum().clamp(min=1e-30)) if rows else 0.0
        names = tuple(self.keys[j] for j in sorted(self.key_specials))
        return replace(
            self,
            queries=tuple(self.queries[i] for i in rows),
            keys=tuple(self.keys[j] for j in columns),
            weights=kept * total / left.clamp(min=1e-30) if is_renormalised else kept,
            specials=frozenset(),
            key_specials=frozenset(),
            hidden=Hidden(names, max(share, 0.0)),
        )

    def strongest(self, count: int) -> list[Link]:
        """The `count` heaviest links in order, one for each query that is not a special token."""
        most, where = self.weights.max(dim=-1)
        links = [
            Link(query, int(where[query]), float(most[query]))
            for query in range(len(self.queries))
            if query not in self.specials
        ]
        return sorted(links, key=lambda link: -link.weight)[:count]
