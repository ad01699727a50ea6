"""Normalising: texts of two makes are brought to one form, word by word.

    hansards   L'hon. député du Québec n'est-il pas là?   →
               le hon. depute de le quebec ne est - il pas la ?
    captions   A man's dog, running .   →   a man's dog running

A normaliser never joins words that a space parts, so that every word it gives came from exactly one
word of the text; it keeps which. Applied to its own output it changes nothing.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from regard.choices import find
from regard.data.examples import Example


@dataclass(frozen=True)
class Normalised:
    """A text as words, and where each came from."""

    words: tuple[str, ...]
    origins: tuple[int, ...]
    """For each word the place, among what stands between spaces in the text, that it came from."""

    @property
    def text(self) -> str:
        """The words with a space between them."""
        return " ".join(self.words)


Normaliser = Callable[[str], Normalised]


def hansards(text: str) -> Normalised:
    """The form of the gold alignments of the Canadian Hansards, in small letters without accents.

    English and French go by the same rules, since names of each stand in both:

    - small letters; no accents; all quotation marks are ", all dashes are -
    - punctuation and hyphens are words of their own, save in numbers and abbreviations (mr. hon.)
    - n't and 's, 're, 've, 'll, 'd, 'm are words of their own
    - what French elides is written out (l' le, d' de, qu' que …); aujourd' and hui are two words
    - du, des, au, aux are de le, de les, a le, a les, save beside a hyphen (au - dessus)
    - the t of a-t-il, which means nothing, is left out with its hyphens

    Without accents dû is du and goes with it, on both sides of the comparison.

    >>> hansards("C'est l'avis du ministre.").text
    'ce est le avis de le ministre .'
    >>> hansards("à le moins").origins, hansards("au moins").origins
    ((0, 1, 2), (0, 0, 1))
    """
    found = list(_cut(text.split()))
    # told by the neighbours, which in a text that is cut already are words of their own
    expanded = [
        (word, origin)
        for before, (piece, origin), after in zip(
            [("", -1), *found], found, [*found[1:], ("", -1)], strict=False
        )
        for word in ([piece] if HYPHEN in (before[0], after[0]) else CONTRACTED.get(piece, [piece]))
    ]
    return Normalised(tuple(word for word, _ in expanded), tuple(origin for _, origin in expanded))


def captions(text: str) -> Normalised:
    """Small letters and no punctuation, as captions are scored; an apostrophe inside a word stays.

    >>> captions("A man's dog, running .").text
    "a man's dog running"
    """
    words = [
        (found[0].lower(), origin)
        for origin, word in enumerate(text.split())
        for found in PLAIN.finditer(word)
    ]
    return Normalised(tuple(word for word, _ in words), tuple(origin for _, origin in words))


PLAIN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
"""A word without what stands around it."""

NORMALISERS: Mapping[str, Normaliser] = {"hansards": hansards, "captions": captions}


def check_is_normaliser(name: str | None) -> None:
    """Refuse a name that no normaliser has; None is none at all."""
    if name is not None:
        find(name, NORMALISERS)


def in_form(name: str | None, examples: Iterable[Example]) -> Iterator[Example]:
    """Examples with both sides in the form of this name; as they are without one."""
    if name is None:
        return iter(examples)
    form = find(name, NORMALISERS)
    # places of characters mean nothing in another form
    return (
        replace(
            example,
            source=form(example.source).text,
            targets=tuple(form(target).text for target in example.targets),
            links=None,
        )
        for example in examples
    )


HYPHEN = "-"
CONTRACTED: Mapping[str, Sequence[str]] = {
    "du": ("de", "le"),
    "des": ("de", "les"),
    "au": ("a", "le"),
    "aux": ("a", "les"),
}
SIGNS = str.maketrans(
    {
        **dict.fromkeys("«»“”„", '"'),
        **dict.fromkeys("‘’`", "'"),
        **dict.fromkeys("–—‐‑−", HYPHEN),
        "œ": "oe",
        "æ": "ae",
        "…": "...",
    }
)
LETTER = r"[^\W\d_]"
WORD = rf"{LETTER}[^\W_]*"
NUMBER = "no."
"""Before a figure this is an abbreviation, elsewhere the end of a sentence."""
REMEMBERED = 1 << 16
"""For how many words it is remembered what they are cut into."""
PIECES = re.compile(
    rf"""
      (?<={LETTER})-t-(?={LETTER})                                  # a-t-il
    | (?:(?<=\w)|^)n't(?!\w)                                        # do n't
    | (?:(?<=\w)|^)'(?:s|re|ve|ll|d|m)(?!['\w])                     # member 's
    | (?<!\w)aujourd'(?=hui|$)
    | (?<!\w)(?P<elided>[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu|quelqu)'(?=\w|$)
    | (?<!\w)(?:{LETTER}\.){{2,}}                                   # p.m.
    | (?<!\w)(?:mrs?|ms|mm|messrs|dr|ste?|hon|nos|lib|ref|[b-hj-xz])\.(?!{LETTER})
    | (?:(?<!\w)\.)?\d+(?:[.,]\d+)*{LETTER}*                        # 1,122,000  .5  36th
    | {LETTER}+?(?=n't(?!\w))
    | {WORD}(?:'{WORD})*?(?='(?:s|re|ve|ll|d|m)(?!['\w]))
    | {WORD}(?:'{WORD})*                                            # prud'homme  o'clock  pt7
    | \.{{2,}}
    | -+
    | \S
    """,
    re.VERBOSE,
)
RUNS: Mapping[str, str] = {"-t-": "", HYPHEN: HYPHEN, "..": "..."}
"""What begins so, however long, is written so."""


def _cut(words: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Pieces of words, each with the place of its word."""
    for origin, (word, following) in enumerate(zip(words, [*words[1:], ""], strict=False)):
        is_number = word.lower() == NUMBER and following[:1].isdigit()
        yield from ((piece, origin) for piece in ((NUMBER,) if is_number else _pieces(word)))


@lru_cache(maxsize=REMEMBERED)
def _pieces(word: str) -> tuple[str, ...]:
    """What one word is cut into, and its pieces again until nothing changes."""
    found = []
    for match in PIECES.finditer(_folded(word)):
        run = next((RUNS[start] for start in RUNS if match[0].startswith(start)), match[0])
        found.append(f"{match['elided']}e" if match["elided"] else run)
    pieces = tuple(piece for piece in found if piece)
    return pieces if pieces == (word,) else tuple(each for one in pieces for each in _pieces(one))


def _folded(word: str) -> str:
    """In small letters, without accents, with one sign for each kind of quote and dash."""
    apart = unicodedata.normalize("NFKD", word.lower().translate(SIGNS))
    return "".join(sign for sign in apart if not unicodedata.combining(sign)).replace("''", '"')
