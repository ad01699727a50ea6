"""Doctor: what is wrong with the data, with line numbers, before a model learns it.

files → rows, broken ones too → tallies → findings

A broken file is a finding and never a crash. Each finding says the rule by which it was made.
"""

import re
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from regard.data.examples import Example
from regard.data.readers import FileReader
from regard.data.rows import Row
from regard.data.subwords import Subwords

SHOWN = 10
"""How many places of a finding are kept; its count has them all."""
DEVIATIONS = 6
"""How many robust deviations from the median make an outlier."""
FEW = 20
"""Below so many pairs nothing is called an outlier; below so many characters no ratio is."""
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffd\ud800-\udfff]")

ADVICE: Mapping[str, str] = {
    "unreadable": "a file cannot be read to its end.",
    "line_counts": "the files do not have as many lines as each other.",
    "encoding": "lines that are not UTF-8.",
    "format": "lines that are not of the expected form.",
    "empty": "lines with nothing on one side; a model learns to say nothing.",
    "control": "lines with control characters, a byte order mark or U+FFFD, the trace of an "
    "earlier bad conversion.",
    "duplicate": "pairs that stand in an earlier line too.",
    "conflict": "sources that stand in an earlier line with another target.",
    "copy": "targets that repeat their source; perhaps they were never translated.",
}
"""The checks that look at one line after another, and what they say; in the order of reports."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, how often, and where first."""

    check: str
    message: str
    count: int
    places: tuple[tuple[Path, int], ...]
    """File and line of the first ten."""


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
        if len(self.places) < SHOWN:
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
        test: data that must not stand in the training data too.
        max_tokens: the length beyond which a training would cut or leave out.
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
        return Diagnosis(looked.examples, None, tuple(findings))
    tested = _Examination(max_tokens, subwords)
    leaks, whole, unseen = _Tally(), 0, _Unseen()
    for row in test.rows():
        tested.take(row)
        if isinstance(row.found, Example):
            if _plainly(row.found.source) in looked.sources:
                leaks.add(row.path, row.number)
                whole += _pair(row.found) in looked.pairs
            unseen.take(row, row.found, looked.characters)
    findings += tested.line_findings("test: ")
    findings += leaks.finding(
        "leak",
        f"{leaks.count} of {tested.examples} test sources stand in the training data too (letter "
        f"case and spaces aside), {whole} with the same target; scores on them say little.",
    )
    findings += [*unseen.finding(), *tested.limits("test: ")]
    return Diagnosis(looked.examples, tested.examples, tuple(findings))


class _Examination:
    """What is remembered of the rows of one reader: hashes, lengths, characters; no text."""

    def __init__(self, max_tokens: int | None, subwords: tuple[Subwords, Subwords] | None) -> None:
        self.examples = 0
        self.sources: set[int] = set()
        self.pairs: set[int] = set()
        self.characters: tuple[set[str], set[str]] = (set(), set())
        self._tallies = {check: _Tally() for check in ADVICE}
        self._details: dict[str, str] = {}

        self._answers: dict[int, int] = {}
        self._sides = (
            _Side("source", max_tokens, subwords[0] if subwords else None),
            _Side("target", max_tokens, subwords[1] if subwords else None),
        )
        self._files: list[Path] = []
        self._places = (array("L"), array("L"))

    def take(self, row: Row) -> None:
        if isinstance(row.found, Example):
            self._take_example(row, row.found)
            return
        for broken in row.found:
            self._details.setdefault(broken.check, broken.message)
            self._tallies[broken.check].add(broken.path, broken.number)

    def _take_example(self, row: Row, example: Example) -> None:
        self.examples += 1
        self.sources.add(_plainly(example.source))
        if not self._files or self._files[-1] != row.path:
            self._files.append(row.path)
        for check, is_met in self._checks(example).items():
            if is_met:
                self._tallies[check].add(row.path, row.number)
        for target in example.targets:
            self._places[0].append(len(self._files) - 1)
            self._places[1].append(row.number)
            for side, known, text in zip(
                self._sides, self.characters, (example.source, target), strict=True
            ):
                known.update(text)
                side.take(text, row)

    def _checks(self, example: Example) -> dict[str, bool]:
        texts = (example.source, *example.targets)
        pair, source, answer = _pair(example), hash(example.source), hash(example.targets)
        is_known = pair in self.pairs
        self.pairs.add(pair)
        return {
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
        for side in self._sides:
            yield from side.truncated(prefix)
            yield from side.without_piece(prefix)

    def outliers(self) -> Iterable[Finding]:
        if len(self._places[0]) < FEW:
            return
        source, target = (np.array(side.lengths, dtype=float) for side in self._sides)
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
        is_far = (np.abs(ratios - usual) > reach) & (np.abs(target - source * np.exp(usual)) > FEW)
        # an empty side is a finding of its own
        is_far &= (source > 0) & (target > 0)
        yield from self._at(is_far).finding(
            "ratio",
            f"pairs whose target is not {np.exp(usual - reach):.2f} to {np.exp(usual + reach):.2f} "
            f"times as long as its source, and {FEW} characters off (rule: {DEVIATIONS} robust "
            "deviations of the log ratio); perhaps the lines do not belong together.",
        )

    def _at(self, is_met: np.ndarray) -> _Tally:
        files, numbers = self._places
        tally = _Tally()
        for pair in np.flatnonzero(is_met).tolist():
            tally.add(self._files[files[pair]], numbers[pair])
        return tally


class _Side:
    """Lengths of one side, and what would be too long on it."""

    def __init__(self, name: str, max_tokens: int | None, subwords: Subwords | None) -> None:
        self.name = name
        self.lengths = array("L")
        self._limit = max_tokens
        self._subwords = subwords
        self._words = 0
        self._unknown = 0.0
        self._over = {"words": _Tally(), "characters": _Tally(), "sub-words": _Tally()}
        self._strange = _Tally()

    def take(self, text: str, row: Row) -> None:
        words = len(text.split())
        counts = {"words": words, "characters": len(text)}
        self.lengths.append(len(text))
        self._words += words
        if self._subwords is not None:
            # a lone surrogate, which only JSON can bring, has no sub-words
            whole = text.encode("utf-8", errors="replace").decode("utf-8")
            counts["sub-words"] = len(self._subwords.encode(whole))
            rate = self._subwords.unknown_rate([whole])
            self._unknown += rate * len(whole)
            if rate > 0:
                self._strange.add(row.path, row.number)
        for unit, count in counts.items():
            if self._limit is not None and count > self._limit:
                self._over[unit].add(row.path, row.number)

    def truncated(self, prefix: str) -> Iterable[Finding]:
        characters, rows = sum(self.lengths), len(self.lengths)
        # a script without spaces has about one word a line, and a long one
        has_spaces = self._words > rows and self._words * FEW > characters
        by_length = "words" if has_spaces else "characters"
        unit = by_length if self._subwords is None else "sub-words"
        tally = self._over[unit]
        yield from tally.finding(
            "truncated",
            f"{prefix}{tally.count} of {rows} {self.name} lines ({_share(tally.count, rows)}) are "
            f"longer than {self._limit} {unit}.",
        )

    def without_piece(self, prefix: str) -> Iterable[Finding]:
        characters = sum(self.lengths)
        yield from self._strange.finding(
            "unknown",
            f"{prefix}{self.name} lines with characters the tokenizer has no piece for: "
            f"{_share(self._unknown, characters)} of all characters.",
        )


class _Unseen:
    """Characters of the test data that the training data does not have."""

    def __init__(self) -> None:
        self._tally = _Tally()
        self._strange: dict[str, int] = {}
        self._characters = 0

    def take(self, row: Row, example: Example, known: tuple[set[str], set[str]]) -> None:
        texts = ((example.source, known[0]), *((target, known[1]) for target in example.targets))
        strange = [c for text, seen in texts for c in text if c not in seen]
        self._characters += sum(len(text) for text, _ in texts)
        for character in strange:
            self._strange[character] = self._strange.get(character, 0) + 1
        if strange:
            self._tally.add(row.path, row.number)

    def finding(self) -> list[Finding]:
        times = sum(self._strange.values())
        shown = " ".join(ascii(c)[1:-1] if not c.isprintable() else c for c in self._strange)
        return self._tally.finding(
            "unseen",
            f"test: lines with characters the training data never has on that side: "
            f"{_share(times, self._characters)} of all characters ({shown[:40]}).",
        )


def _pair(example: Example) -> int:
    return hash((example.source, example.targets))


def _plainly(text: str) -> int:
    return hash(" ".join(text.split()).casefold())


def _spread(numbers: np.ndarray) -> float:
    """The robust deviation: 1.4826 times the median distance from the median, and at least 0.1."""
    return max(0.1, 1.4826 * float(np.median(np.abs(numbers - np.median(numbers)))))


def _share(part: float | int, whole: int) -> str:
    share = 100 * part / max(whole, 1)
    return f"{share:.0f} %" if share >= 10 else f"{share:.2g} %"
