"""Links between words, read off the weights of a head in several ways.

argmax         each target word to the source word that it weighs most
intersection   those of these that are also the heaviest target word of their source word
threshold      every pair of words whose weight is at least τ
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.errors import SettingError
from regard.evaluating import AlignmentCounts, Gold
from regard.evaluating.heads import argmax_links
from regard.evaluating.links import Link

Links = frozenset[Link]
Weights = Float[Tensor, "t s"]


def _argmax(weights: Weights, threshold: float) -> Links:
    return argmax_links(weights, range(len(weights)))


def _intersection(weights: Weights, threshold: float) -> Links:
    back = argmax_links(weights.mT, range(weights.shape[-1]))
    return _argmax(weights, threshold) & {(source, target) for target, source in back}


def _threshold(weights: Weights, threshold: float) -> Links:
    return frozenset(
        (source, target) for target, source in (weights >= threshold).nonzero().tolist()
    )


DRAWINGS: Mapping[str, Callable[[Weights, float], Links]] = {
    "argmax": _argmax,
    "intersection": _intersection,
    "threshold": _threshold,
}


@final
@dataclass(frozen=True)
class Drawing:
    """How links are drawn, and between which words they count."""

    name: str = "argmax"
    threshold: float | int = 0.2
    """The least weight of a link, where a threshold draws them."""
    punctuation: str = "counted"
    """Whether links from or to words without a letter or digit are "counted" or "left_out"."""

    def __post_init__(self) -> None:
        find(self.name, DRAWINGS, key="drawing")
        find(self.punctuation, PUNCTUATION, key="punctuation")
        if not 0 < self.threshold <= 1:
            raise SettingError(
                f"gold: the threshold lies above 0 and up to 1, got {self.threshold}."
            )

    def links(self, weights: Weights, source: Sequence[str], target: Sequence[str]) -> Links:
        """The links of one pair.

        Args:
            weights: between its words.
            source: its words.
            target: those of its translation.
        """
        drawn = DRAWINGS[self.name](weights, float(self.threshold))
        return self._counted(drawn, source, target)

    def gold(self, gold: Gold, source: Sequence[str], target: Sequence[str]) -> Gold:
        """The links of people that count."""
        sure, also = (self._counted(links, source, target) for links in (gold.sure, gold.also))
        return Gold(sure, also)

    def counts(
        self, weights: Weights, gold: Gold, source: Sequence[str], target: Sequence[str]
    ) -> AlignmentCounts:
        """How far the links of one pair are from people's."""
        drawn = self.links(weights, source, target)
        return AlignmentCounts.of(drawn, self.gold(gold, source, target))

    def _counted(self, links: Links, source: Sequence[str], target: Sequence[str]) -> Links:
        counts = PUNCTUATION[self.punctuation]
        return frozenset((s, t) for s, t in links if counts(source[s]) and counts(target[t]))


def is_word(text: str) -> bool:
    """Whether there is a letter or digit in it.

    >>> is_word("don't"), is_word("...")
    (True, False)
    """
    return any(character.isalnum() for character in text)


PUNCTUATION: Mapping[str, Callable[[str], bool]] = {
    "counted": lambda word: True,
    "left_out": is_word,
}
"""Which words may have links that count."""
