"""Several systems on the same sentences: scores, what differs beyond chance, and where.

The first system is the baseline; every other is tested against it. With many systems some pair
will differ by luck: the p-values are not corrected for how many were tried.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from regard.errors import ShapeError
from regard.evaluating.bleu import words
from regard.evaluating.buckets import Bucket, by_frequency, by_length, word_frequencies
from regard.evaluating.length_ratio import ratio_of
from regard.evaluating.score import Measured, Score, check_texts
from regard.evaluating.significance import (
    DEFAULT,
    Difference,
    Interval,
    Resampling,
    compare_pair,
    score_interval,
)
from regard.evaluating.system_scores import MEASURES
from regard.evaluating.tokenizers import chosen_tokenizer, tokenizer_for

LEADING, SENTENCES = "BLEU", "chrF2"
"""The measure that is shown by length, and the one that compares single sentences."""


@dataclass(frozen=True)
class SystemScores:
    """One system's scores; the intervals are in the order of the first scores."""

    name: str
    scores: tuple[Score, ...]
    intervals: tuple[Interval, ...]


@dataclass(frozen=True)
class Versus:
    """One system against the baseline, by every measure."""

    name: str
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class Sentence:
    """One sentence as every system has it, with the score of each."""

    line: int
    """Counted from 1."""
    source: str
    references: tuple[str, ...]
    texts: tuple[str, ...]
    values: tuple[float, ...]

    @property
    def spread(self) -> float:
        """How far the systems are apart."""
        return max(self.values) - min(self.values)


@dataclass(frozen=True)
class Comparison:
    """All that a table or a page shows; plain values, so that `asdict` makes JSON of it."""

    baseline: str
    sentences: int
    resampling: Resampling
    systems: tuple[SystemScores, ...]
    versus: tuple[Versus, ...]
    by_source_length: tuple[Bucket, ...]
    """BLEU by words of the source; empty where no source was given."""
    by_reference_length: tuple[Bucket, ...]
    """BLEU by words of the first reference."""
    by_frequency: tuple[Bucket, ...]
    """F1 of words by frequency in training; empty where no training text was given."""
    most_different: tuple[Sentence, ...]
    """Sentences by how much the systems' chrF2 differs, the largest first."""

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
) -> Comparison:
    """Compare systems' outputs for the same sentences.

    Args:
        systems: each system's texts under its name; the first is the baseline.
        references: all references of each sentence.
        sources: the sentences that were translated, to show and to group by length.
        training: the target texts that the systems learned from, to tell rare words.
        tokenizer: as for `bleu`; by default the one the references' script needs.
        resampling: how the tests draw.
        shown: how many of the sentences that differ most to keep.
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
        for measure, measured in MEASURES.items()
    }
    first, *others = systems
    return Comparison(
        baseline=first,
        sentences=len(references),
        resampling=resampling,
        systems=tuple(
            SystemScores(
                name,
                (
                    *(row[number].score for row in table.values()),
                    ratio_of(table[LEADING][number]),
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
        by_source_length=_by_source_length(table[LEADING], sources),
        by_reference_length=by_length(
            table[LEADING], [len(text) for text in words([r[0] for r in references], chosen)]
        ),
        by_frequency=_by_frequency(systems, references, training, chosen),
        most_different=_most_different(table[SENTENCES], systems, references, sources, shown),
    )


def _by_source_length(
    measured: Sequence[Measured], sources: Sequence[str] | None
) -> tuple[Bucket, ...]:
    if sources is None:
        return ()
    tokenizer = tokenizer_for([[source] for source in sources]).name
    return by_length(measured, [len(text) for text in words(sources, tokenizer)])


def _by_frequency(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    training: Iterable[str] | None,
    tokenizer: str,
) -> tuple[Bucket, ...]:
    if training is None:
        return ()
    return by_frequency(
        [words(texts, tokenizer) for texts in systems.values()],
        [words(answers, tokenizer) for answers in references],
        word_frequencies(words(list(training), tokenizer)),
    )


def _most_different(
    measured: Sequence[Measured],
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    sources: Sequence[str] | None,
    shown: int,
) -> tuple[Sentence, ...]:
    values = zip(*(one.by_sentence() for one in measured), strict=True)
    texts = zip(*systems.values(), strict=True)
    sentences = [
        Sentence(line + 1, sources[line] if sources else "", tuple(references[line]), said, scores)
        for line, (said, scores) in enumerate(zip(texts, values, strict=True))
    ]
    apart = [sentence for sentence in sentences if sentence.spread > 0]
    return tuple(sorted(apart, key=lambda sentence: -sentence.spread)[:shown])
