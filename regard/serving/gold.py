"""Gold alignments: links that people drew, beside those read off the weights of each head.

    argmax         each target word to the source word that it weighs most
    intersection   those of these that are also the heaviest target word of their source word
    threshold      every pair of words whose weight is at least τ

Weights come from a teacher-forced pass over the given translation, as in `evaluate --alignment`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.errors import DataError, LengthError, SettingError
from regard.evaluating import AlignmentCounts, Gold, HeadView
from regard.evaluating.alignment import Link
from regard.evaluating.attention_links import (
    DecoderRow,
    argmax_links,
    merge_pieces,
    weights_by_view,
)
from regard.inspecting.record import rounded
from regard.runs.alignment import AlignmentErrors, piece_weights, read_gold
from regard.runs.evaluation_texts import texts_of_files
from regard.serving.lru_cache import name_of_answer
from regard.serving.registry import GoldPairs, GoldWeights, Registry, Served, WordWeights
from regard.serving.request_limits import held

ROWS = {row.name.lower(): row for row in DecoderRow}
MAX_PAIRS = 300
"""How many pairs are scored, from the first on; usual gold files have fewer."""
Links = frozenset[Link]
Weights = Float[Tensor, "t s"]


def _heaviest(weights: Weights) -> Links:
    return argmax_links(weights, range(len(weights)))


DRAWINGS: Mapping[str, Callable[[Weights, float], Links]] = {
    "argmax": lambda weights, _: _heaviest(weights),
    "intersection": lambda weights, _: _heaviest(weights) & _swapped(_heaviest(weights.mT)),
    "threshold": lambda weights, least: _swapped((weights >= least).nonzero().tolist()),
}
PUNCTUATION: Mapping[str, Callable[[str], bool]] = {
    "counted": lambda word: True,
    "left_out": lambda word: any(character.isalnum() for character in word),
}
"""Which words may have links that count, by the name of the choice."""


def _swapped(links: Iterable[Sequence[int]]) -> Links:
    return frozenset((source, target) for target, source in links)


@final
@dataclass(frozen=True)
class Drawing:
    """How links are drawn, and between which words they count."""

    drawing: str = "argmax"
    threshold: float = 0.2
    """The least weight of a link, where `drawing` is "threshold"."""
    punctuation: str = "counted"
    """Whether links from or to words without a letter or digit are "counted" or "left_out"."""

    def __post_init__(self) -> None:
        find(self.drawing, DRAWINGS, key="drawing")
        find(self.punctuation, PUNCTUATION, key="punctuation")
        if not 0 < self.threshold <= 1:
            raise SettingError(
                f"gold: the threshold lies above 0 and up to 1, got {self.threshold}."
            )

    def links(self, weights: Weights, source: Sequence[str], target: Sequence[str]) -> Links:
        """The links of one pair, from its weights, its words and those of its translation."""
        drawn = DRAWINGS[self.drawing](weights, self.threshold)
        return self._counted(drawn, source, target)

    def gold(self, gold: Gold, source: Sequence[str], target: Sequence[str]) -> Gold:
        """The gold links that count."""
        sure, also = (self._counted(links, source, target) for links in (gold.sure, gold.also))
        return Gold(sure, also)

    def counts(
        self, weights: Weights, gold: Gold, source: Sequence[str], target: Sequence[str]
    ) -> AlignmentCounts:
        """The counts for the error rate of one pair's links."""
        links = self.links(weights, source, target)
        return AlignmentCounts.of(links, self.gold(gold, source, target))

    def _counted(self, links: Links, source: Sequence[str], target: Sequence[str]) -> Links:
        counts = PUNCTUATION[self.punctuation]
        return frozenset((s, t) for s, t in links if counts(source[s]) and counts(target[t]))


ARGMAX = Drawing()
"""The drawing that `regard evaluate` uses."""


def read_pairs(
    source: Path,
    reference: Path,
    links: Path,
    *,
    kind: str | None = None,
    first: int | None = None,
    is_swapped: bool = False,
) -> GoldPairs:
    """Read texts, their translations and their links (see `read_gold`) from parallel files."""
    pairs = texts_of_files(source, [reference])
    golds = read_gold(links, sentences=len(pairs), kind=kind, first=first, is_swapped=is_swapped)
    try:
        return GoldPairs(tuple(pairs), tuple(golds))
    except DataError as error:
        raise DataError(f"serve: '{links}': {error}") from error


def sentences(registry: Registry) -> dict[str, object]:
    """All pairs that can be shown."""
    gold = _gold(registry)
    return {"sentences": [[pair.source, pair.targets[0]] for pair in gold.pairs[:MAX_PAIRS]]}


def errors_of_heads(registry: Registry, run: str, drawing: Drawing = ARGMAX) -> dict[str, object]:
    """The alignment error rate of every head over all pairs; the weights are computed once."""
    return registry.errors_of_heads.computed(
        name_of_answer(run, drawing), lambda: _errors(registry, run, drawing)
    )


def _errors(registry: Registry, run: str, drawing: Drawing) -> dict[str, object]:
    gold = _gold(registry)
    halves = dict[HeadView, AlignmentCounts](), dict[HeadView, AlignmentCounts]()
    weighed = registry.word_weights.computed(run, lambda: _all_word_weights(registry, run))
    for place, by_row in weighed.items():
        source, target = gold.words(place)
        table = halves[place % 2]
        for row, words in by_row.items():
            for view, weights in weights_by_view(words, row).items():
                counts = drawing.counts(weights, gold.links[place], source, target)
                table[view] = table.get(view, AlignmentCounts()) + counts
    return AlignmentErrors.of_halves(
        halves,
        sentences=len(weighed),
        left_out=min(MAX_PAIRS, len(gold.pairs)) - len(weighed),
        without_gold=sum(not gold.links[place].possible for place in weighed),
    ).as_json()


def sentence(
    registry: Registry, run: str, place: int, row: str, drawing: Drawing = ARGMAX
) -> dict[str, object]:
    """One pair: its words, the gold links, every head's weights, and the links they draw.

    Pairs are counted from 0; `row`, "predicting" or "next", chooses the decoder row of a word.
    """
    served, gold, reading = registry.run(run), _gold(registry), find(row, ROWS)
    if not 0 <= place < len(gold.pairs):
        raise SettingError(f"gold: there are {len(gold.pairs)} pairs, counted from 0; got {place}.")
    found = _word_weights(served, gold, place)
    if found is None:
        raise LengthError(
            f"gold: pair {place + 1} has more tokens than the {served.trained.longest} that the "
            "model reads. Take another."
        )
    source, target = gold.words(place)
    counting = drawing.gold(gold.links[place], source, target)
    views = weights_by_view(found[reading], reading)
    drawn = {view: drawing.links(weights, source, target) for view, weights in views.items()}
    return {
        "source": source,
        "target": target,
        "sure": [list(link) for link in sorted(counting.sure)],
        "possible": [list(link) for link in sorted(counting.possible - counting.sure)],
        "weights": [[rounded(head) for head in layer] for layer in found[reading]],
        "drawn": [
            {
                "layer": None if view.layer is None else view.layer + 1,
                "head": None if view.head is None else view.head + 1,
                "links": sorted(map(list, links)),
                "error_rate": AlignmentCounts.of(links, counting).error_rate,
            }
            for view, links in drawn.items()
        ],
        "row": row,
    }


def _all_word_weights(registry: Registry, run: str) -> GoldWeights:
    """Weights between words of every pair that the model can read, by place and decoder row."""
    served, gold = registry.run(run), _gold(registry)
    places = range(min(MAX_PAIRS, len(gold.pairs)))
    found = {place: one for place in places if (one := _word_weights(served, gold, place))}
    if not found:
        raise DataError(
            f"gold: all {len(places)} pairs have more tokens than the {served.trained.longest} "
            "that the model reads. Train with a larger model.max_len."
        )
    return found


def _word_weights(
    served: Served, gold: GoldPairs, place: int
) -> dict[DecoderRow, WordWeights] | None:
    """The weights between the words of one pair; None where it is too long for the model."""
    served.trained.check_reads_texts("gold")
    with held(served.busy):
        found = piece_weights(served.trained, gold.pairs[place])
    if found is None:
        return None
    weights, pieces = found
    return {row: merge_pieces(weights, pieces, row) for row in DecoderRow}


def _gold(registry: Registry) -> GoldPairs:
    if registry.gold is None:
        raise SettingError(
            "gold: no gold links were given. Start with regard serve RUN --source FILE "
            "--reference FILE --alignment FILE."
        )
    return registry.gold
