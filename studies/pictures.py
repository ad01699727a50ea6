"""Pictures of the pages, each a file of its own.

The curves and bars of `regard.plots` with the names of their lines inside, in the page's colours,
light or dark as the reader's system is.
"""

import re
from collections.abc import Sequence
from html import escape

from regard.plots.page import STYLE

WIDTH, MARGIN, LINE, KEY, GAP, LETTER = 640, 16, 20, 18, 6, 6.6
"""A picture's width and margin, the height of a row of names, and what a name takes of it."""
COLOURS = STYLE.partition("body {")[0]
RULES = """svg { color: var(--ink); } .ground { fill: var(--ground); }
text { font: 12px system-ui, sans-serif; fill: currentColor; } .title { font-weight: 600; }
.grid { stroke: var(--grid); } .line { fill: none; stroke-width: 2; }
"""


def picture(figure: str, title: str, names: Sequence[str]) -> str:
    """A figure of `regard.plots` as a file of its own, with a title and the names of its lines."""
    drawn = re.search(r'<svg viewBox="0 0 \d+ (\d+)".*</svg>', figure, re.DOTALL)
    if drawn is None:
        raise SystemExit(f"docs: there is nothing to draw for '{title}'.")
    keys, top = _keys(names)
    inside, height = drawn[0], int(drawn[1])
    inside = inside.replace("<svg ", f'<svg y="{top}" width="{WIDTH}" height="{height}" ', 1)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + height}" '
            f'width="{WIDTH}" height="{top + height}">',
            f"<style>{COLOURS}{RULES}</style>",
            '<rect class="ground" width="100%" height="100%"/>',
            f'<text class="title" x="{MARGIN}" y="{LINE}">{escape(title)}</text>',
            *keys,
            # a line for each mark, so that a changed number is a changed line
            re.sub(r"(?=<(?:line|text|rect|polyline)\b)", "\n", inside),
            "</svg>\n",
        ]
    )


def _keys(names: Sequence[str]) -> tuple[list[str], int]:
    """The names, each behind its colour, in as many rows as they need; and where these end."""
    drawn, x, y = [], float(MARGIN), 2 * LINE
    for number, name in enumerate(names, 1):
        room = KEY + LETTER * len(name) + 3 * GAP
        if x + room > WIDTH and x > MARGIN:
            x, y = float(MARGIN), y + LINE
        drawn.append(
            f'<rect x="{x:.0f}" y="{y - 6}" width="{KEY}" height="3" '
            f'fill="var(--line-{number})"/>'
            f'<text x="{x + KEY + GAP:.0f}" y="{y}">{escape(name)}</text>'
        )
        x += room
    return drawn, y + LINE // 2
