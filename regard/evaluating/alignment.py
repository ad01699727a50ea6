"""Word alignments: links between words, the formats of alignment files, and the error rate.

    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)
    precision = |A ∩ P| / |A|,   recall = |A ∩ S| / |S|

with A the system's links, S the sure links and P the possible ones, S among them. Counts are summed
over the corpus before dividing.

Positions count from 0 here, source first. Files count from 0 or from 1 without
stating which: the caller gives `first`, and impossible positions are refused.

attention_links.py reads links from attention maps; regard/runs/alignment.py scores a run's.

Paper: Och & Ney 2003.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence, Set
from dataclasses import astuple, dataclass, field

from regard.errors import DataError, ShapeError
from regard.evaluating.accuracy import Share

Link = tuple[int, int]
"""Source position and target position, counted from 0."""

SURE, POSSIBLE = "S", "P"
# at most nine digits, which no number of words or sentences exceeds
PHARAOH = re.compile(r"(\d{1,9})([-p?])(\d{1,9})")
NAACL = re.compile(r"(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SPsp]))?(?:\s+[\d.eE+-]+)?")
MAX_QUOTED = 40


@dataclass(frozen=True)
class Gold:
    """The human alignment of one sentence pair: sure links, and possible ones."""

    sure: frozenset[Link]
    also: frozenset[Link] = field(default_factory=frozenset)
    """Links that are possible without being sure."""

    @property
    def possible(self) -> frozenset[Link]:
        """All links that are not wrong: the sure ones are among them."""
        return self.sure | self.also

    def swapped(self) -> "Gold":
        """The same alignment read from target to source."""
        return Gold(*(frozenset((t, s) for s, t in links) for links in (self.sure, self.also)))


def read_pharaoh(lines: Iterable[str], *, first: int = 0) -> list[Gold]:
    """Read a line for each sentence: `0-0 1-2` are sure links; `1p2` or `1?2` a possible one.

    A system's output is read so too; its links are all sure. An empty line is a sentence without
    links; `first` is the number of the first word in this file, 0 or 1.

    >>> read_pharaoh(["0-0 1p2"])[0].possible == {(0, 0), (1, 2)}
    True
    """
    golds = []
    for number, line in enumerate(lines, 1):
        found: dict[str, set[Link]] = {SURE: set(), POSSIBLE: set()}
        for word in line.split():
            match = PHARAOH.fullmatch(word)
            if match is None:
                raise DataError(
                    f"links: line {number}: {_quoted(word)} is no link in Pharaoh format. "
                    "Expected source-target such as 3-4, or 3p4 for a possible link."
                )
            kind = SURE if match[2] == "-" else POSSIBLE
            found[kind].add(_link(match[1], match[3], first, number))
        golds.append(Gold(frozenset(found[SURE]), frozenset(found[POSSIBLE])))
    return golds


def read_naacl(lines: Iterable[str], *, first: int = 1, sentences: int | None = None) -> list[Gold]:
    """Read a line for each link: sentence number (from 1), source, target, and S or P.

    Letters may be small; a link without one is sure. A confidence at the end of the line is
    left out. Without `sentences` the last one that has a link is the last.

    >>> read_naacl(["0001 1 1 S", "0001 2 3 P"])[0].sure
    frozenset({(0, 0)})
    """
    found: dict[tuple[int, str], set[Link]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = NAACL.fullmatch(line.strip())
        if match is None or int(match[1]) < 1:
            raise DataError(
                f"links: line {number}: {_quoted(line.strip())} is no link in naacl format. "
                "Expected sentence (from 1), source, target and S or P, such as 0001 3 4 S."
            )
        link = _link(match[2], match[3], first, number)
        found.setdefault((int(match[1]), (match[4] or SURE).upper()), set()).add(link)
    last = max((sentence for sentence, _ in found), default=0)
    if sentences is not None and last > sentences:
        raise DataError(
            f"links: sentence {last} has a link, but only {sentences} sentences were expected. "
            "Give the alignment file of this text."
        )
    return [
        Gold(*(frozenset(found.get((sentence, kind), ())) for kind in (SURE, POSSIBLE)))
        for sentence in range(1, (last if sentences is None else sentences) + 1)
    ]


def write_pharaoh(alignments: Iterable[Iterable[Link]]) -> list[str]:
    """One line a sentence, links in order, counted from 0.

    >>> write_pharaoh([{(1, 0), (0, 1)}, set()])
    ['0-1 1-0', '']
    """
    return [" ".join(f"{s}-{t}" for s, t in sorted(links)) for links in alignments]


def check_links(alignments: Sequence[Gold], sources: Sequence[int], targets: Sequence[int]) -> None:
    """Refuse links beyond the words of their sentence: a wrong file, side or first number.

    `sources` and `targets` hold the number of words of each sentence.
    """
    if not len(alignments) == len(sources) == len(targets):
        raise DataError(
            f"links: expected one line of links a sentence, got {len(alignments)} for "
            f"{len(sources)} sources and {len(targets)} targets."
        )
    for number, (gold, m, n) in enumerate(zip(alignments, sources, targets, strict=True), 1):
        for s, t in sorted(gold.possible):
            if s >= m or t >= n:
                raise DataError(
                    f"links: sentence {number}: link {s}-{t} (counted from 0), but line {number} "
                    f"of the texts has {m} source and {n} target words. Is the file of this text, "
                    "source first (else --alignment-swapped), and does it count from 1 (first=1, "
                    "--alignment-first 1)?"
                )


@dataclass(frozen=True)
class AlignmentCounts:
    """The five counts from which rates are computed; those of two corpora can be added."""

    links: int = 0
    sure: int = 0
    possible: int = 0
    in_sure: int = 0
    """Links of the system that are sure."""
    in_possible: int = 0
    """Links of the system that are possible."""

    @classmethod
    def of(cls, links: Set[Link], gold: Gold) -> "AlignmentCounts":
        """Count one sentence."""
        possible = gold.possible
        return cls(
            len(links), len(gold.sure), len(possible), len(links & gold.sure), len(links & possible)
        )

    def __add__(self, other: "AlignmentCounts") -> "AlignmentCounts":
        both = zip(astuple(self), astuple(other), strict=True)
        return AlignmentCounts(*(one + another for one, another in both))

    @property
    def error_rate(self) -> float:
        """0 if every link is possible and no sure one is missing; 0 without links, too."""
        return 1 - Share(self.in_sure + self.in_possible, self.links + self.sure).value

    @property
    def precision(self) -> float:
        """The share of the system's links that are possible; 1 where it made none."""
        return Share(self.in_possible, self.links).value

    @property
    def recall(self) -> float:
        """The share of the sure links that the system made; 1 where there are none."""
        return Share(self.in_sure, self.sure).value

    def __str__(self) -> str:
        return (
            f"AER {100 * self.error_rate:.1f} % (precision {100 * self.precision:.1f} %, "
            f"recall {100 * self.recall:.1f} %, {self.links} links, {self.sure} sure, "
            f"{self.possible} possible)"
        )


def alignment_error(alignments: Sequence[Set[Link]], golds: Sequence[Gold]) -> AlignmentCounts:
    """Score the alignments of a corpus.

    >>> print(alignment_error([{(0, 0), (1, 1)}], [Gold(frozenset({(0, 0)}))]))
    AER 33.3 % (precision 50.0 %, recall 100.0 %, 2 links, 1 sure, 1 possible)
    """
    if len(alignments) != len(golds):
        raise ShapeError(
            f"alignment_error: expected one gold alignment a sentence, got {len(golds)} for "
            f"{len(alignments)} sentences."
        )
    counts = (
        AlignmentCounts.of(links, gold) for links, gold in zip(alignments, golds, strict=True)
    )
    return sum(counts, AlignmentCounts())


def digit_gold(source: str, target: str, links: Iterable[Link]) -> Gold:
    """The gold links between a written date and its digits, from what the generator knows.

    The generator gives the source characters from which each target digit follows: those links
    are possible. Where the source writes the number in figures of any script, figure and digit of
    the same place are one sure pair, counted from the right: the 5 of "5 May" belongs to the 5 of
    05, and its 0 to no character.

    >>> sorted(digit_gold("9 May", "05-09", [(0, 3), (0, 4), *((s, t) for s in (2, 3, 4)
    ...     for t in (0, 1))]).sure)
    [(0, 4)]
    """
    possible = frozenset(links)
    sure: set[Link] = set()
    for digits in _fields(possible):
        told = {s for s, t in possible if t in digits}
        pairs = zip(sorted(told, reverse=True), sorted(digits, reverse=True), strict=False)
        sure |= {(s, t) for s, t in pairs if unicodedata.digit(source[s], None) == int(target[t])}
    return Gold(frozenset(sure), possible)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…")


def _link(source: str, target: str, first: int, line: int) -> Link:
    link = int(source) - first, int(target) - first
    if min(link) < 0:
        raise DataError(
            f"links: line {line}: position 0 in a file said to count from {first}. If it counts "
            "from 0, read it with first=0 (--alignment-first 0); if 0 means no word, take these "
            "links out."
        )
    return link


def _fields(links: frozenset[Link]) -> set[frozenset[int]]:
    """Target digits that follow from the same source characters."""
    by_source: dict[int, set[int]] = {}
    for s, t in links:
        by_source.setdefault(s, set()).add(t)
    return {frozenset(told) for told in by_source.values()}
