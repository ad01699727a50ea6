"""Doctor: finds what is wrong with the data, with line numbers, before a model learns from it.

files → rows, broken ones too → tallies → findings

A broken file is a finding and never a crash. Each finding names the rule that found it.
"""

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np

from regard.data.examples import Example, FileReader, FileRow, names_columns
from regard.data.subwords import Subwords
from regard.data.unknown_words import unknown_rate

MAX_PLACES = 10
"""How many places of a finding are listed; its count includes all."""
MAX_QUOTES, QUOTED_CHARACTERS = 3, 50
"""How many examples of a finding are quoted, and how much of each side."""
DEVIATIONS = 6
"""How many robust deviations from the median make an outlier."""
MIN_COMPARED = 20
"""The fewest pairs in which outliers are reported, and the fewest characters for a ratio."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffd\ud800-\udfff]")

ADVICE: Mapping[str, str] = {
    "unreadable": "a file cannot be read to its end.",
    "line_counts": "the files do not have as many lines as each other.",
    "encoding": "lines that are not UTF-8.",
    "format": "lines that are not of the expected form.",
    "header": "a first line that looks like the names of columns, and is no example.",
    "empty": "lines with nothing on one side; a model learns to say nothing.",
    "control": "lines with control characters, a byte order mark or U+FFFD, the trace of an "
    "earlier bad conversion.",
    "duplicate": "pairs that stand in an earlier line too.",
    "conflict": "sources that stand in an earlier line with another target.",
    "copy": "targets that repeat their source; perhaps they were never translated.",
}
"""The checks of single lines, and the sentence of each; in the order of reports."""
UNREAD = ("unreadable", "line_counts", "encoding", "format")
"""The checks of lines that are no examples."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, how often, and where first."""

    check: str
    message: str
    count: int
    places: tuple[tuple[Path, int], ...]
    """File and line of the first ten."""
    quotes: tuple[str, ...] = ()
    """Line, source and target of the first three, shortened; none of lines that were not read."""


@dataclass(frozen=True)
class Diagnosis:
    """Everything that was found."""

    examples: int
    """How many examples could be read."""
    test_examples: int | None
    """The same for the test files, where some were given."""
    findings: tuple[Finding, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


@dataclass
class _Tally:
    count: int = 0
    places: list[tuple[Path, int]] = field(default_factory=list)

    def add(self, path: Path, number: int) -> None:
        self.count += 1
        if len(self.places) < MAX_PLACES:
            self.places.append((path, number))

    def finding(self, check: str, message: str) -> list[Finding]:
        return [Finding(check, message, self.count, tuple(self.places))] if self.count else []


def diagnose(
    train: FileReader,
    *,
    test: FileReader | None = None,
    max_tokens: int | None = None,
    subwords: tuple[Subwords, Subwords] | None = None,
) -> Diagnosis:
    """Look at every line of the training data and, where given, of the test data.

    Args:
        train: the data to train on.
        test: data that must not also be in the training data.
        max_tokens: the length beyond which a training would refuse or skip an example.
        subwords: those of the source and those of the target; without them lengths are counted
            in words, or in characters where a side is written without spaces.
    """
    looked = _Examination(max_tokens, subwords)
    for row in train.rows():
        looked.take(row)
    findings = [*looked.line_findings(""), *looked.outliers(), *looked.limits("")]
    if not looked.examples:
        findings.append(Finding("nothing", "there is no example to learn from.", 0, ()))
    if test is None:
        return Diagnosis(looked.examples, None, _quoted(findings, train))
    tested = _Examination(max_tokens, subwords)
    leaks, whole, unseen = _Tally(), 0, _Tally()
    strange: Counter[str] = Counter()
    for row in test.rows():
        tested.take(row)
        if not isinstance(row.found, Example):
            continue
        if _plainly(row.found.source) in looked.sources:
            leaks.add(row.path, row.number)
            whole += _pair(row.found) in looked.pairs
        if new := [c for side, c in _characters(row.found) if c not in looked.sides[side].known]:
            strange.update(new)
            unseen.add(row.path, row.number)
    shown = " ".join(ascii(c)[1:-1] if not c.isprintable() else c for c in strange)
    share = _share(strange.total(), tested.n_characters)
    findings += [
        *tested.line_findings("test: "),
        *leaks.finding(
            "leak",
            f"{leaks.count} of {tested.examples} test sources stand in the training data too "
            f"(letter case and spaces aside), {whole} with the same target; scores on them say "
            "little.",
        ),
        *unseen.finding(
            "unseen",
            "test: lines with characters the training data never has on that side: "
            f"{share} of all characters ({shown[:40]}).",
        ),
        *tested.limits("test: "),
    ]
    return Diagnosis(looked.examples, tested.examples, _quoted(findings, train, test))


class _Side:
    """Characters, lengths and unknown pieces of one side, a number for each of its texts."""

    def __init__(self, name: str, subwords: Subwords | None) -> None:
        self.name = name
        self.known: set[str] = set()
        self.characters, self.words, self.pieces = array("L"), array("L"), array("L")
        self.unknown = array("d")
        self._subwords = subwords

    def take(self, text: str) -> None:
        self.known.update(text)
        self.characters.append(len(text))
        self.words.append(len(text.split()))
        if self._subwords is not None:
            # a lone surrogate, which only JSON can bring, has no sub-words
            whole = text.encode("utf-8", errors="replace").decode("utf-8")
            self.pieces.append(len(self._subwords.encode(whole)))
            self.unknown.append(unknown_rate(self._subwords, [whole]) * len(whole))

    def lengths(self) -> tuple[str, np.ndarray]:
        """The unit in which the side is measured, and the length of each text."""
        # a script without spaces has about one word a line, and a long one
        n_words, n_characters = sum(self.words), sum(self.characters)
        has_spaces = n_words > len(self.words) and n_words * MIN_COMPARED > n_characters
        by_length = ("words", self.words) if has_spaces else ("characters", self.characters)
        unit, found = by_length if self._subwords is None else ("sub-words", self.pieces)
        return unit, np.array(found)


class _Examination:
    """What is kept of the rows of one reader: hashes, lengths, characters; no text."""

    def __init__(self, max_tokens: int | None, subwords: tuple[Subwords, Subwords] | None) -> None:
        self.examples = 0
        self.n_characters = 0
        self.sources: set[int] = set()
        self.pairs: set[int] = set()
        source, target = subwords or (None, None)
        self.sides = (_Side("source", source), _Side("target", target))
        self._limit = max_tokens
        self._tallies = {check: _Tally() for check in ADVICE}
        self._details: dict[str, str] = {}
        self._answers: dict[int, int] = {}
        self._files: list[Path] = []
        self._places = (array("L"), array("L"))

    def take(self, row: FileRow) -> None:
        if isinstance(row.found, Example):
            self._take_example(row, row.found)
            return
        for broken in row.found:
            self._details.setdefault(broken.check, broken.message)
            self._tallies[broken.check].add(broken.path, broken.number)

    def _take_example(self, row: FileRow, example: Example) -> None:
        self.examples += 1
        self.n_characters += sum(map(len, (example.source, *example.targets)))
        self.sources.add(_plainly(example.source))
        if not self._files or self._files[-1] != row.path:
            self._files.append(row.path)
        for check, is_met in self._checks(example).items():
            if is_met:
                self._tallies[check].add(row.path, row.number)
        for target in example.targets:
            self._places[0].append(len(self._files) - 1)
            self._places[1].append(row.number)
            for side, text in zip(self.sides, (example.source, target), strict=True):
                side.take(text)

    def _checks(self, example: Example) -> dict[str, bool]:
        texts = (example.source, *example.targets)
        pair, source, answer = _pair(example), hash(example.source), hash(example.targets)
        is_known = pair in self.pairs
        self.pairs.add(pair)
        return {
            "header": self.examples == 1 and names_columns(example.source, example.targets[0]),
            "empty": not all(text.strip() for text in texts),
            "control": any(CONTROL.search(text) for text in texts),
            "duplicate": is_known,
            "conflict": not is_known and self._answers.setdefault(source, answer) != answer,
            "copy": bool(example.source.strip()) and example.source in example.targets,
        }

    def line_findings(self, prefix: str) -> Iterable[Finding]:
        for check, tally in self._tallies.items():
            detail = self._details.get(check)
            first = f" First: {detail}" if detail else ""
            yield from tally.finding(check, f"{prefix}{ADVICE[check]}{first}")

    def limits(self, prefix: str) -> Iterable[Finding]:
        for side in self.sides:
            unit, lengths = side.lengths()
            if self._limit is not None:
                tally = self._at(lengths > self._limit)
                yield from tally.finding(
                    "truncated",
                    f"{prefix}{tally.count} of {len(lengths)} {side.name} lines "
                    f"({_share(tally.count, len(lengths))}) are longer than {self._limit} {unit}.",
                )
            yield from self._at(np.array(side.unknown) > 0).finding(
                "unknown",
                f"{prefix}{side.name} lines with characters the tokenizer has no piece for: "
                f"{_share(sum(side.unknown), sum(side.characters))} of all characters.",
            )

    def outliers(self) -> Iterable[Finding]:
        if len(self._places[0]) < MIN_COMPARED:
            return
        source, target = (np.array(side.characters, dtype=float) for side in self.sides)
        for name, lengths in (("source", source), ("target", target)):
            logs = np.log(np.maximum(lengths, 1))
            limit = float(np.exp(np.median(logs) + DEVIATIONS * _spread(logs)))
            yield from self._at(lengths > limit).finding(
                "length",
                f"{name} lines of more than {limit:.0f} characters, where {np.median(lengths):.0f} "
                f"are usual (rule: {DEVIATIONS} robust deviations of the log length).",
            )
        ratios = np.log((target + 1) / (source + 1))
        usual, reach = float(np.median(ratios)), DEVIATIONS * _spread(ratios)
        is_far = (np.abs(ratios - usual) > reach) & (
            np.abs(target - source * np.exp(usual)) > MIN_COMPARED
        )
        # an empty side is a finding of its own
        is_far &= (source > 0) & (target > 0)
        yield from self._at(is_far).finding(
            "ratio",
            f"pairs whose target is not {np.exp(usual - reach):.2f} to {np.exp(usual + reach):.2f} "
            f"times as long as its source, and {MIN_COMPARED} characters off (rule: {DEVIATIONS} "
            "robust deviations of the log ratio); perhaps the lines do not belong together.",
        )

    def _at(self, is_met: np.ndarray) -> _Tally:
        files, numbers = self._places
        tally = _Tally()
        for pair in np.flatnonzero(is_met).tolist():
            tally.add(self._files[files[pair]], numbers[pair])
        return tally


def _quoted(findings: Iterable[Finding], *readers: FileReader) -> tuple[Finding, ...]:
    """The findings with their first examples, for which the files are read again as far as needed.

    The message of lines that could not be read has the first of them.
    """
    read = [one for one in findings if one.check not in UNREAD]
    missing = {place for one in read for place in one.places[:MAX_QUOTES]}
    quotes: dict[tuple[Path, int], str] = {}
    for row in chain.from_iterable(reader.rows() for reader in readers):
        if not missing:
            break
        place = (row.path, row.number)
        if place in missing and isinstance(row.found, Example):
            missing.remove(place)
            quotes[place] = f"{row.number}: {_shortened(row.found)}"
    return tuple(
        replace(one, quotes=tuple(quotes[at] for at in one.places[:MAX_QUOTES] if at in quotes))
        for one in findings
    )


def _shortened(example: Example) -> str:
    """Both sides in quotation marks, with invisible characters as escapes."""
    sides = (example.source, " | ".join(example.targets))
    cut = (
        side if len(side) <= QUOTED_CHARACTERS else side[: QUOTED_CHARACTERS - 1] + "…"
        for side in sides
    )
    return " → ".join(map(repr, cut))


def _pair(example: Example) -> int:
    return hash((example.source, example.targets))


def _characters(example: Example) -> Iterator[tuple[int, str]]:
    """Every character with its side, 0 of the source and 1 of the targets."""
    for side, texts in enumerate(((example.source,), example.targets)):
        yield from ((side, character) for text in texts for character in text)


def _plainly(text: str) -> int:
    return hash(" ".join(text.split()).casefold())


def _spread(numbers: np.ndarray) -> float:
    """The robust deviation: 1.4826 times the median distance from the median, and at least 0.1."""
    return max(0.1, 1.4826 * float(np.median(np.abs(numbers - np.median(numbers)))))


def _share(part: float | int, whole: int) -> str:
    share = 100 * part / max(whole, 1)
    return f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"
