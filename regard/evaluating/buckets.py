"""Where a system is good: scores by length of sentence, and by how rare a word is."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from regard.errors import ShapeError
from regard.evaluating.score import Measured

FREQUENCIES = (0, 1, 2, 5, 10, 100, 1000)
"""Where each class of words begins, by how often training saw them."""


@dataclass(frozen=True)
class Bucket:
    """One class of sentences or words, and the value of each system on it."""

    label: str
    count: int
    """How many sentences, or words of the references, it holds."""
    values: tuple[float, ...]


def by_length(
    systems: Sequence[Measured], lengths: Sequence[int], *, buckets: int = 5
) -> tuple[Bucket, ...]:
    """Score each system on sentences of like length, in classes of about equal size.

    Args:
        systems: one measure of each system.
        lengths: words of each sentence, source or reference.
        buckets: how many classes at most; fewer where many sentences are equally long.
    """
    if any(len(system.rows) != len(lengths) for system in systems):
        raise ShapeError(
            f"by_length: expected a length for each sentence, got {len(lengths)} lengths for "
            f"{[len(system.rows) for system in systems]} sentences."
        )
    found = []
    for low, high in _ranges(lengths, buckets):
        members = [line for line, length in enumerate(lengths) if low <= length <= high]
        values = tuple(system.of(members) for system in systems)
        found.append(Bucket(_label(low, high), len(members), values))
    return tuple(found)


def by_frequency(
    systems: Sequence[Sequence[Sequence[str]]],
    references: Sequence[Sequence[Sequence[str]]],
    frequencies: Mapping[str, int],
) -> tuple[Bucket, ...]:
    """F1 of words, in per cent, by how often training saw them.

    A word is right when the reference has it too, as often as the reference has it. Of several
    references, a sentence is held against the one with which it shares most words.

    Args:
        systems: the words of each sentence of each system.
        references: the words of each reference of each sentence.
        frequencies: how often each word occurs in the training text.
    """
    tallies = [_tally(texts, references, frequencies) for texts in systems]
    found = []
    for low, above in zip(FREQUENCIES, [*FREQUENCIES[1:], None], strict=True):
        if not any(tally.said[low] + tally.wanted[low] for tally in tallies):
            continue
        label = f"{low}+" if above is None else _label(low, above - 1)
        values = tuple(tally.f1(low) for tally in tallies)
        found.append(Bucket(label, max(tally.wanted[low] for tally in tallies), values))
    return tuple(found)


def word_frequencies(texts: Iterable[Sequence[str]]) -> Counter[str]:
    """How often each word occurs in tokenised texts."""
    return Counter(word for text in texts for word in text)


@dataclass(frozen=True)
class _Tally:
    """Words by class of frequency: those the system said, those wanted, and those in both."""

    said: Counter[int]
    wanted: Counter[int]
    right: Counter[int]

    def f1(self, low: int) -> float:
        """The harmonic mean of precision and recall in one class, in per cent."""
        words = self.said[low] + self.wanted[low]
        return 200 * self.right[low] / words if words else 0.0


def _tally(
    texts: Sequence[Sequence[str]],
    references: Sequence[Sequence[Sequence[str]]],
    frequencies: Mapping[str, int],
) -> _Tally:
    said, wanted, right = Counter[str](), Counter[str](), Counter[str]()
    for text, answers in zip(texts, references, strict=True):
        own = Counter(text)
        closest = max(map(Counter, answers), key=lambda answer: (own & answer).total())
        said.update(own)
        wanted.update(closest)
        right.update(own & closest)
    return _Tally(*(_by_class(words, frequencies) for words in (said, wanted, right)))


def _by_class(words: Counter[str], frequencies: Mapping[str, int]) -> Counter[int]:
    classes = Counter[int]()
    for word, count in words.items():
        seen = frequencies.get(word, 0)
        classes[max(low for low in FREQUENCIES if low <= seen)] += count
    return classes


def _ranges(lengths: Sequence[int], buckets: int) -> list[tuple[int, int]]:
    """Cut sorted lengths into classes of about equal size that never part equal lengths."""
    ordered = sorted(lengths)
    ends = [len(ordered) * number // buckets for number in range(1, buckets + 1)]
    highs = sorted({ordered[end - 1] for end in ends if end})
    lows = [ordered[0], *(min(x for x in ordered if x > high) for high in highs[:-1])]
    return list(zip(lows, highs, strict=True))


def _label(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"
