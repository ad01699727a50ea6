"""Word alignments: links between source and target words, and the two formats people keep them in.

Positions count from 0 here, source first. Files count from 0 or from 1, and nothing in them says
which: the reader is told (`first`), and refuses a position that cannot be right.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from regard.errors import DataError

Link = tuple[int, int]
"""Source position and target position, counted from 0."""

SURE, POSSIBLE = "S", "P"
# no text has more words or sentences than nine digits can count
PHARAOH = re.compile(r"(\d{1,9})([-p?])(\d{1,9})")
NAACL = re.compile(r"(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})(?:\s+([SPsp]))?(?:\s+[\d.eE+-]+)?")
QUOTED = 40
"""Characters of a wrong link that an error shows."""


@dataclass(frozen=True)
class Gold:
    """What people said of one sentence pair: links that must be there, and links that may be."""

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

    A system's output is read so too; its links are all sure.

    >>> read_pharaoh(["0-0 1p2"])[0].possible == {(0, 0), (1, 2)}
    True

    Args:
        lines: the lines of a file; an empty one is a sentence without links.
        first: the number of the first word in this file, 0 or 1.
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
    left out.

    >>> read_naacl(["0001 1 1 S", "0001 2 3 P"])[0].sure
    frozenset({(0, 0)})

    Args:
        lines: the lines of a file.
        first: the number of the first word in this file, 0 or 1.
        sentences: how many sentences there are; by default, up to the last one that has a link.
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

    Args:
        alignments: what was read.
        sources: the number of source words of each sentence.
        targets: the number of target words of each sentence.
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


def _quoted(text: str) -> str:
    return repr(text if len(text) <= QUOTED else f"{text[:QUOTED]}…")


def _link(source: str, target: str, first: int, line: int) -> Link:
    link = int(source) - first, int(target) - first
    if min(link) < 0:
        raise DataError(
            f"links: line {line}: position 0 in a file said to count from {first}. If it counts "
            "from 0, read it with first=0 (--alignment-first 0); if 0 means no word, take these "
            "links out."
        )
    return link
