"""What to look at, and what there is to see: a view of a record, and its panel."""

from dataclasses import dataclass
from typing import NamedTuple, final

from jaxtyping import Float
from torch import Tensor


@final
@dataclass(frozen=True)
class View:
    """What to look at; where layer or head is None, the mean over them. Counted from 0."""

    kind: str = "cross"
    layer: int | None = None
    head: int | None = None
    unit: str = "words"
    """ "words" or "pieces"."""


OVERVIEW = View()
"""The mean of all cross-attention heads, word by word: what is shown unless one asks."""


class Link(NamedTuple):
    """A query, the key it weighs most, and how much; places, not names."""

    query: int
    key: int
    weight: float


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
    """Queries that are no words: begin and end."""

    def strongest(self, count: int) -> list[Link]:
        """The best key of each query, special tokens aside; the surest `count`, surest first."""
        most, where = self.weights.max(dim=-1)
        links = [
            Link(query, int(where[query]), float(most[query]))
            for query in range(len(self.queries))
            if query not in self.specials
        ]
        return sorted(links, key=lambda link: -link.weight)[:count]
