"""Sample answers: what a run answers to an example now, and what the words of its answer looked at.

Hund ← dog 0.62, black 0.11      the mean over all layers and heads, word by word
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, final

from regard.inspecting.panels import Panel, View, usual_kind
from regard.inspecting.record import Record

MAX_LINKS = 2
"""How many links of a word are kept, the strongest."""
DIGITS = 4


@final
@dataclass(frozen=True)
class LookedAt:
    """A word that the model looked at, and the weight."""

    word: str
    weight: float


@final
@dataclass(frozen=True)
class WordLooks:
    """A word of the answer, or of the text where the answer has none, and its strongest links."""

    word: str
    at: tuple[LookedAt, ...]

    def __str__(self) -> str:
        return f"{self.word} ← {', '.join(f'{one.word} {one.weight:.2f}' for one in self.at)}"


@final
@dataclass(frozen=True)
class Sample:
    """An example, the answer of the moment, and its links."""

    source: str
    reference: str
    answer: str
    looked: tuple[WordLooks, ...] = ()

    def record(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)


def strongest_links(
    record: Record, kinds: Sequence[str] = (), rows: Sequence[int] | None = None
) -> tuple[WordLooks, ...]:
    """The strongest links of each word of an answer, special tokens left out.

    `kinds` are the attentions whose weights count, with the same queries: that to the source, or
    the first of a model without it. `rows` are the queries that are told, all words unless given.
    """
    panels = [record.panel(View(kind)) for kind in kinds or (usual_kind(record.attention),)]
    first = panels[0]
    places = rows
    if places is None:
        places = [i for i in range(len(first.queries)) if i not in first.specials]
    return tuple(WordLooks(first.queries[i], _strongest(panels, i)) for i in places)


def _strongest(panels: Sequence[Panel], row: int) -> tuple[LookedAt, ...]:
    links = [
        LookedAt(key, round(weight, DIGITS))
        for panel in panels
        for j, (key, weight) in enumerate(zip(panel.keys, panel.weights[row].tolist(), strict=True))
        if j not in panel.key_specials and weight > 0
    ]
    return tuple(sorted(links, key=lambda link: -link.weight)[:MAX_LINKS])
