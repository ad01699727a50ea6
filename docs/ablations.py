"""The tables and pictures of ablations.md, from the numbers in ablations.json.

A picture is a file of its own: the curves and bars of `regard.plots` with the names of their lines
inside, in the page's colours, light or dark as the reader's system is.
"""

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from regard.plots.bars import bars
from regard.plots.curves import curves
from regard.plots.page import STYLE

DOCS = Path(__file__).parent
RESULTS = DOCS / "ablations.json"
SCORES = ("BLEU", "chrF2")
START = {
    "largest logit": "largest logit",
    "largest weight": "largest weight",
    "gradient of the first layer": "gradient, first layer",
    "gradient of the last layer": "gradient, last layer",
    "reversed": "source reversed",
    "last word": "last word changed",
}
"""What is known of an untrained model, and what its column is called."""
WIDTH, MARGIN, LINE, KEY, GAP, LETTER = 640, 16, 20, 18, 6, 6.6
"""A picture's width and margin, the height of a row of names, and what a name takes of it."""
COLOURS = STYLE.partition("body {")[0]
RULES = """svg { color: var(--ink); } .ground { fill: var(--ground); }
text { font: 12px system-ui, sans-serif; fill: currentColor; } .title { font-weight: 600; }
.grid { stroke: var(--grid); } .line { fill: none; stroke-width: 2; }
"""


def results() -> dict[str, dict]:
    return json.loads(RESULTS.read_text())


def scores_table() -> str:
    found = results()
    lines = [
        f"| variant | parameters | best validation loss | {' | '.join(SCORES)} |",
        "|---|---:|---:|" + "---:|" * len(SCORES),
    ]
    for name, one in found.items():
        best = min((loss for _, loss in one["losses"]), default=None)
        scores = [_fixed(one["scores"].get(score), 1) for score in SCORES]
        count = f"{one['start']['parameters']:,.0f}" if one["start"] else "none"
        lines.append(f"| {name} | {count} | {_fixed(best, 3)} | {' | '.join(scores)} |")
    stopped = {name: one["stopped"] for name, one in found.items() if one["stopped"]}
    lines += [f'\n*{name}* stopped: "{why}"' for name, why in stopped.items()]
    return "\n".join(lines)


def start_table() -> str:
    lines = ["| variant | " + " | ".join(START.values()) + " |", "|---|" + "---:|" * len(START)]
    for name, one in results().items():
        cells = [_short(one["start"].get(key)) for key in START]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def pictures() -> dict[Path, str]:
    """Every picture of the page, with what its file should hold."""
    found = results()
    losses = {name: one["losses"] for name, one in found.items() if one["losses"]}
    answered = {name: one["scores"] for name, one in found.items() if one["scores"]}
    heights = {score: [one[score] for one in answered.values()] for score in SCORES}
    title = "Validation loss by update, nats per target token"
    said = "Scores of the answers to test_2016_flickr"
    return {
        DOCS / "img" / "ablations-loss.svg": picture(curves(losses, title=title), title, losses),
        DOCS / "img" / "ablations-scores.svg": picture(
            bars(list(answered), heights, title=said, x_title="variant"), said, heights
        ),
    }


def picture(figure: str, title: str, names: Mapping[str, Sequence]) -> str:
    """A figure of `regard.plots` as a file of its own, with a title and the names of its lines."""
    drawn = re.search(r'<svg viewBox="0 0 \d+ (\d+)".*</svg>', figure, re.DOTALL)
    if drawn is None:
        raise SystemExit(f"docs: there is nothing to draw for '{title}'.")
    keys, top = _keys(list(names))
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


def _fixed(value: float | None, digits: int) -> str:
    return "none" if value is None else f"{value:.{digits}f}"


def _short(value: float | None) -> str:
    return "no number" if value is None else f"{value:.2g}"
