"""Several systems on the same sentences: scores, differences with p-values, and their places.

The first system is the baseline; every other is tested against it. No threshold is applied here,
and p-values are not corrected for the number of systems: of many, one may differ by chance.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from regard.errors import ShapeError
from regard.evaluating.metrics import OF_TEXTS, Measures
from regard.evaluating.sacrebleu_metrics import words
from regard.evaluating.score import MeasuredScore, MetricScore, check_texts
from regard.evaluating.significance import (
    DEFAULT,
    Difference,
    Interval,
    Resampling,
    compare_pair,
    score_interval,
)
from regard.evaluating.tokenizers import chosen_tokenizer, tokenizer_for

FREQUENCIES = (0, 1, 2, 5, 10, 100, 1000)
"""Where each class of words begins, by how often training saw them."""


@dataclass(frozen=True)
class Bucket:
    """One class of sentences or words, and the value of each system on it."""

    label: str
    count: int
    """How many sentences, or words of the references, it holds."""
    values: tuple[float, ...]


@dataclass(frozen=True)
class SystemScores:
    """One system's scores; the intervals are in the order of the first scores."""

    name: str
    scores: tuple[MetricScore, ...]
    intervals: tuple[Interval, ...]


@dataclass(frozen=True)
class Versus:
    """One system against the baseline, by every measure."""

    name: str
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class ComparedSentence:
    """One sentence as every system has it, with the score of each."""

    line: int
    """Counted from 1."""
    source: str
    references: tuple[str, ...]
    texts: tuple[str, ...]
    values: tuple[float, ...]

    @property
    def spread(self) -> float:
        """The range of the systems' scores."""
        return max(self.values) - min(self.values)


@dataclass(frozen=True)
class Comparison:
    """The content of a table or page, in plain values that `asdict` turns into JSON."""

    baseline: str
    sentences: int
    resampling: Resampling
    systems: tuple[SystemScores, ...]
    versus: tuple[Versus, ...]
    by_source_length: tuple[Bucket, ...]
    """Scores by words of the source; empty where no source was given."""
    by_reference_length: tuple[Bucket, ...]
    """Scores by words of the first reference."""
    by_frequency: tuple[Bucket, ...]
    """F1 of words by frequency in training; empty where no training text was given."""
    most_different: tuple[ComparedSentence, ...]
    """Sentences by how much the systems' scores differ, the largest first."""
    length_measure: str
    """The measure of the scores by length."""
    sentence_measure: str
    """The measure of single sentences."""

    @property
    def names(self) -> tuple[str, ...]:
        """The systems in order, the baseline first."""
        return tuple(system.name for system in self.systems)


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    sources: Sequence[str] | None = None,
    training: Iterable[str] | None = None,
    tokenizer: str | None = None,
    resampling: Resampling = DEFAULT,
    shown: int = 10,
    measures: Measures = OF_TEXTS,
) -> Comparison:
    """Compare systems' outputs for the same sentences; the first system is the baseline.

    `sources` are shown, and grouped by length. `training` holds the target texts that the systems
    learned from, to find rare words. Of the sentences that differ most `shown` are kept. Labels are
    compared by other `measures` than written texts are.
    """
    if len(systems) < 2:
        raise ShapeError(f"compare: expected at least two systems, got {len(systems)}.")
    for name, texts in systems.items():
        check_texts(f"compare: {name}", texts, references)
    if sources is not None and len(sources) != len(references):
        raise ShapeError(
            f"compare: expected a source for each of {len(references)} sentences, got "
            f"{len(sources)}."
        )
    chosen = chosen_tokenizer(tokenizer, references).name
    table = {
        measure: [measured(texts, references, tokenizer) for texts in systems.values()]
        for measure, measured in measures.by_name.items()
    }
    first, *others = systems
    leading = table[measures.by_length]
    by_source, by_rarity = tuple[Bucket, ...](), tuple[Bucket, ...]()
    if sources is not None:
        by_script = tokenizer_for([[source] for source in sources]).name
        by_source = by_length(leading, _lengths(sources, by_script))
    if training is not None:
        by_rarity = by_frequency(
            [words(texts, chosen) for texts in systems.values()],
            [words(answers, chosen) for answers in references],
            Counter(word for text in words(list(training), chosen) for word in text),
        )
    values = zip(*(one.by_sentence() for one in table[measures.by_sentence]), strict=True)
    texts_of = zip(*systems.values(), strict=True)
    told = zip(sources or [""] * len(references), references, texts_of, values, strict=True)
    sentences = [
        ComparedSentence(line, source, tuple(answers), texts, scores)
        for line, (source, answers, texts, scores) in enumerate(told, 1)
    ]
    apart = [sentence for sentence in sentences if sentence.spread > 0]
    return Comparison(
        baseline=first,
        sentences=len(references),
        resampling=resampling,
        systems=tuple(
            SystemScores(
                name,
                (
                    *(row[number].score for row in table.values()),
                    *measures.unresampled(leading[number]),
                ),
                tuple(score_interval(row[number], resampling) for row in table.values()),
            )
            for number, name in enumerate(systems)
        ),
        versus=tuple(
            Versus(
                name,
                tuple(compare_pair(row[0], row[number], resampling) for row in table.values()),
            )
            for number, name in enumerate(others, 1)
        ),
        by_source_length=by_source,
        by_reference_length=by_length(leading, _lengths([r[0] for r in references], chosen)),
        by_frequency=by_rarity,
        most_different=tuple(sorted(apart, key=lambda sentence: -sentence.spread)[:shown]),
        length_measure=measures.by_length,
        sentence_measure=measures.by_sentence,
    )


def _lengths(texts: Sequence[str], tokenizer: str) -> list[int]:
    return [len(text) for text in words(texts, tokenizer)]


def by_length(
    systems: Sequence[MeasuredScore], lengths: Sequence[int], *, buckets: int = 5
) -> tuple[Bucket, ...]:
    """Score each system on sentences of like length, in classes of about equal size.

    There are at most `buckets` classes; fewer where many sentences are equally long.
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
    references, a sentence is held against the one with which it shares most words. Texts are
    lists of words.
    """
    tallies = [_tally(texts, references, frequencies) for texts in systems]
    found = []
    for low, above in zip(FREQUENCIES, [*FREQUENCIES[1:], None], strict=True):
        counts = [(own[low], wanted[low], right[low]) for own, wanted, right in tallies]
        if not any(own + wanted for own, wanted, _ in counts):
            continue
        label = f"{low}+" if above is None else _label(low, above - 1)
        values = (200 * right / (own + wanted or 1) for own, wanted, right in counts)
        found.append(Bucket(label, max(wanted for _, wanted, _ in counts), tuple(values)))
    return tuple(found)


def _tally(
    texts: Sequence[Sequence[str]],
    references: Sequence[Sequence[Sequence[str]]],
    frequencies: Mapping[str, int],
) -> list[Counter[int]]:
    """Counts of words by class of frequency: of the system, of the reference, and in both."""
    own, wanted, right = Counter[str](), Counter[str](), Counter[str]()
    for text, answers in zip(texts, references, strict=True):
        here = Counter(text)
        closest = max(map(Counter, answers), key=lambda answer: (here & answer).total())
        own.update(here)
        wanted.update(closest)
        right.update(here & closest)
    return [_by_class(words, frequencies) for words in (own, wanted, right)]


def _by_class(words: Counter[str], frequencies: Mapping[str, int]) -> Counter[int]:
    classes = Counter[int]()
    for word, count in words.items():
        seen = frequencies.get(word, 0)
        classes[max(low for low in FREQUENCIES if low <= seen)] += count
    return classes


def _ranges(lengths: Sequence[int], buckets: int) -> list[tuple[int, int]]:
    """Cut sorted lengths into classes of about equal size; equal lengths stay together."""
    ordered = sorted(lengths)
    ends = [len(ordered) * number // buckets for number in range(1, buckets + 1)]
    highs = sorted({ordered[end - 1] for end in ends if end})
    lows = [ordered[0], *(min(x for x in ordered if x > high) for high in highs[:-1])]
    return list(zip(lows, highs, strict=True))


def _label(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}–{high}"
