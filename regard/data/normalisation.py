"""Normalisation: texts of differently prepared corpora are brought to one form, word by word.

    hansards   L'hon. député du Québec n'est-il pas là?   →
               le hon. depute de le quebec ne est - il pas la ?
    europarl   „Wir können's nicht“, sagte Mr. Ott.   →
               " wir können 's nicht " , sagte mr ott .
    captions   A man's dog, running .   →   a man's dog running

A normaliser never joins words that a space separates, so that each of its words comes from exactly
one word of the text, which it records. Applied to its own output it changes nothing.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Normalised:
    """A text as words, with the origin of each."""

    words: tuple[str, ...]
    origins: tuple[int, ...]
    """For each word the index of the space-separated word of the text that it comes from."""

    @classmethod
    def of(cls, found: Iterable[tuple[str, int]]) -> "Normalised":
        """Words, each with the place it came from."""
        pairs = list(found)
        return cls(tuple(word for word, _ in pairs), tuple(origin for _, origin in pairs))

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
    # recognised by its neighbours, which are words of their own in a tokenised text
    return Normalised.of(
        (word, origin)
        for before, (piece, origin), after in zip(
            [("", -1), *found], found, [*found[1:], ("", -1)], strict=False
        )
        for word in ([piece] if HYPHEN in (before[0], after[0]) else CONTRACTED.get(piece, [piece]))
    )


def europarl(text: str) -> Normalised:
    """The form of the gold alignments of Europarl, English and German, in small letters.

    English and German go by the same rules, since names of each stand in both:

    - small letters; umlauts, ß and accents stay; all quotation marks are ", all dashes are -
    - compounds stay whole, with their hyphens (eu-haushalts, six-year); other punctuation is words
      of its own, save inside numbers (2.30, 6:45) and initials (p.m.)
    - the thousands of a number are words of their own (10,000 and 10.000 are 10 000)
    - mr. mrs. ms. dr. st. lose their dot, which Europarl does not write
    - 's and 'd, which may mean two things, are words of their own; what else English contracts is
      written out, as it is in debates (don't is do not, can't cannot, let's let us, we're we are)
    - of words that were spelt with ß until 1996 the frequent ones have the new spelling (daß dass)

    >>> europarl("We can't pay Tom's 10,000 euros.").text
    "we cannot pay tom 's 10 000 euros ."
    >>> europarl("Daß die EU-Kommission's weiß!").text
    "dass die eu-kommission 's weiß !"
    """
    return Normalised.of(
        (piece, origin) for origin, word in enumerate(text.split()) for piece in _written_out(word)
    )


def captions(text: str) -> Normalised:
    """Small letters and no punctuation, as captions are scored; an apostrophe inside a word stays.

    >>> captions("A man's dog, running .").text
    "a man's dog running"
    """
    return Normalised.of(
        (found[0].lower(), origin)
        for origin, word in enumerate(text.split())
        for found in PLAIN.finditer(word)
    )


PLAIN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
"""A word without the punctuation around it."""

NORMALISERS: Mapping[str, Normaliser] = {
    "hansards": hansards,
    "europarl": europarl,
    "captions": captions,
}


HYPHEN = "-"
CONTRACTED: Mapping[str, Sequence[str]] = {
    "du": ("de", "le"),
    "des": ("de", "les"),
    "au": ("a", "le"),
    "aux": ("a", "les"),
}
MARKS: Mapping[str, str] = {
    **dict.fromkeys("«»“”„", '"'),
    **dict.fromkeys("‘’`", "'"),
    **dict.fromkeys("–—‐‑−", HYPHEN),
    "…": "...",
}
SIGNS = str.maketrans({**MARKS, "œ": "oe", "æ": "ae"})
GERMAN_SIGNS = str.maketrans(
    {**MARKS, **dict.fromkeys("‚‛‹›´", "'"), **dict.fromkeys("–—", "--"), "\ufeff": ""}
)
"""A dash between two words; unlike a hyphen it makes no compound."""
LETTER = r"[^\W\d_]"
WORD = rf"{LETTER}[^\W_]*"
NUMBER = "no."
"""Before a figure this is an abbreviation, elsewhere the end of a sentence."""
MAX_CACHED_WORDS = 1 << 16
"""Words whose pieces are cached."""
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
"""A piece that begins with the key, however long, is written as the value."""


def _cut(words: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Pieces of words, each with the place of its word."""
    for origin, (word, following) in enumerate(zip(words, [*words[1:], ""], strict=False)):
        is_number = word.lower() == NUMBER and following[:1].isdigit()
        yield from ((piece, origin) for piece in ((NUMBER,) if is_number else _pieces(word)))


@lru_cache(maxsize=MAX_CACHED_WORDS)
def _pieces(word: str) -> tuple[str, ...]:
    """The pieces of one word."""
    found = []
    for match in PIECES.finditer(_folded(word)):
        run = next((RUNS[start] for start in RUNS if match[0].startswith(start)), match[0])
        found.append(f"{match['elided']}e" if match["elided"] else run)
    return _settled(_pieces, word, filter(None, found))


def _settled(
    cut: Callable[[str], tuple[str, ...]], word: str, pieces: Iterable[str]
) -> tuple[str, ...]:
    """The pieces of a word, each cut again until nothing changes."""
    found = tuple(pieces)
    return found if found == (word,) else tuple(each for one in found for each in cut(one))


def _folded(word: str) -> str:
    """The text in lower case, without accents, with one sign for each kind of quote and dash."""
    apart = unicodedata.normalize("NFKD", word.lower().translate(SIGNS))
    return "".join(sign for sign in apart if not unicodedata.combining(sign)).replace("''", '"')


CLITIC = r"'(?:s|re|ve|ll|d|m)(?!['\w])"
JOINED = r"[^\W_]+(?:[-'][^\W_]+)*"
"""A word with all that hyphens or apostrophes join to it."""
GERMAN_PIECES = re.compile(
    rf"""
      (?<!\w)(?:can't|won't|shan't|let's)(?!\w)
    | (?:(?<=\w)|^)n't(?!\w)                                        # do n't
    | (?:(?<=\w)|^){CLITIC}                                         # tom 's
    | (?<!\w)(?:{LETTER}\.){{2,}}                                   # p.m.
    | (?<!\w)(?:mrs?|ms|dr|st)\.(?!\w)
    | \d+(?:[.,:]\d+)+                                              # 10,000  2.30  6:45
    | {LETTER}+?(?=n't(?!\w))
    | {JOINED}?(?={CLITIC})
    | {JOINED}                                                      # eu-haushalts  o'clock
    | \.{{2,}}
    | -+
    | \S
    """,
    re.VERBOSE,
)
THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
WRITTEN: Mapping[str, Sequence[str]] = {
    "can't": ("cannot",), "won't": ("will", "not"), "shan't": ("shall", "not"),
    "let's": ("let", "us"), "n't": ("not",),
    "'re": ("are",), "'ve": ("have",), "'ll": ("will",), "'m": ("am",),
    "mr.": ("mr",), "mrs.": ("mrs",), "ms.": ("ms",), "dr.": ("dr",), "st.": ("st",),
    "daß": ("dass",), "muß": ("muss",), "mußte": ("musste",), "mußten": ("mussten",),
    "müßte": ("müsste",), "müßten": ("müssten",), "läßt": ("lässt",), "wußte": ("wusste",),
    "bißchen": ("bisschen",),
}  # fmt: skip
"""Pieces that the gold alignments of Europarl write otherwise."""


@lru_cache(maxsize=MAX_CACHED_WORDS)
def _written_out(word: str) -> tuple[str, ...]:
    """The words that one word of English or German is written out as."""
    small = unicodedata.normalize("NFC", word.lower().translate(GERMAN_SIGNS)).replace("''", '"')
    found = GERMAN_PIECES.finditer(small)
    return _settled(_written_out, word, (p for match in found for p in _as_in_europarl(match[0])))


def _as_in_europarl(piece: str) -> Sequence[str]:
    if THOUSANDS.fullmatch(piece):
        return re.split("[.,]", piece)
    run = next((RUNS[start] for start in (HYPHEN, "..") if piece.startswith(start)), piece)
    return WRITTEN.get(run, (run,))
