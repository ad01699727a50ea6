"""Fonts that have the characters of some labels, so that figures can be labelled in any script."""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

FIRST = "DejaVu Sans"
"""The font that comes with matplotlib."""
LAST = "Last Resort"
"""A font with a box for every character; it must not be chosen."""
REGULAR = (400, "normal", "regular")
MISSING = "□"


class Labels(NamedTuple):
    """Texts that can be drawn, and the fonts to draw them with."""

    texts: list[str]
    families: list[str]
    missing: frozenset[str]
    """Characters that no installed font has; `MISSING` stands for them."""


def drawable(texts: Iterable[str]) -> Labels:
    """Find fonts for these texts among the installed ones."""
    kept = list(texts)
    left = {ord(character) for text in kept for character in text}
    families: list[str] = []
    for look_again in (_known, _newly_installed):
        for name, path in look_again() if left else ():
            if left & (has := _characters(path)):
                left -= has
                families.append(name)
    table = dict.fromkeys(left, MISSING)
    shown = [text.translate(table) for text in kept]
    return Labels(shown, families or [FIRST], frozenset(map(chr, left)))


def _known() -> list[tuple[str, str]]:
    """Names and files of plain fonts, those without serifs first."""
    from matplotlib import font_manager

    fonts = [
        (font.name, font.fname)
        for font in font_manager.fontManager.ttflist
        if (font.style, font.variant, font.stretch) == ("normal",) * 3
        and font.weight in REGULAR
        and not font.name.startswith(LAST)
    ]
    return sorted(fonts, key=lambda font: (font[0] != FIRST, "Sans" not in font[0], font[0]))


def _newly_installed() -> list[tuple[str, str]]:
    """The fonts, after those that matplotlib's cached list lacks were added to it."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    known = {font.fname for font in manager.ttflist}
    for path in sorted(set(font_manager.findSystemFonts()) - known):
        manager.addfont(path)
    return _known()


@lru_cache(maxsize=256)
def _characters(path: str) -> frozenset[int]:
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(path).get_charmap())
