"""Coloured words and heat maps as plain HTML: no JavaScript, no image files, any writing system.

A weight becomes one of `LEVELS` classes, whose colours are those of the terminal and follow the
reader's light or dark setting; the number itself stands in the cell's title.
"""

from collections.abc import Sequence
from html import escape

from regard.inspecting.panels import OVERVIEW, View
from regard.inspecting.record import Record
from regard.plots.colours import DARK, LIGHT, RGB, colour, ink
from regard.plots.terminal_words import strongest_line

LEVELS = 32
"""How many shades there are beside none."""


def shaded_words(record: Record, view: View = OVERVIEW) -> str:
    """A line for each query: its keys, shaded by weight; the heaviest is underlined."""
    panel = record.panel(view)
    top = panel.top
    lines = []
    for name, weights in zip(panel.queries, panel.weights.tolist(), strict=True):
        heaviest = max(weights)
        keys = " ".join(
            _word(key, weight, top, is_heaviest=weight == heaviest)
            for key, weight in zip(panel.keys, weights, strict=True)
        )
        lines.append(f'<tr><th scope="row">{escape(name)}</th><td dir="auto">{keys}</td></tr>')
    return f'<div class="wide"><table class="shaded"><tbody>{"".join(lines)}</tbody></table></div>'


def shaded_map(record: Record, view: View = OVERVIEW) -> str:
    """A heat map: queries down, keys across, the numbers as titles of the cells."""
    panel = record.panel(view)
    top = panel.top
    heads = "".join(_column(key) for key in panel.keys)
    lines = [
        f"<tr><th>{escape(name)}</th>"
        + "".join(f'<td class="w{_level(w, top)}" title="{w:.3f}"></td>' for w in weights)
        + "</tr>"
        for name, weights in zip(panel.queries, panel.weights.tolist(), strict=True)
    ]
    label = escape(f"{panel.title}. {strongest_line(panel)}", quote=True)
    return (
        f'<figure class="map"><figcaption>{escape(panel.title)}, largest weight {top:.2f}'
        f'</figcaption><div class="wide"><table role="img" aria-label="{label}">'
        f"<thead><tr><th></th>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
        "</figure>"
    )


def shade_style() -> str:
    """The rules that a page with shaded words or maps needs, light and dark."""
    dark = _rules(DARK)
    return f"{STYLE}{_rules(LIGHT)}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


STYLE = """
.shaded th { text-align: right; white-space: nowrap; padding-right: .8rem; }
.shaded td { padding: .1rem 0; } .shaded span { padding: .1rem .25rem; border-radius: 3px;
  unicode-bidi: isolate; }
.shaded span, .map td { forced-color-adjust: none; }
.shaded .most { text-decoration: underline 2px; text-underline-offset: 3px; }
figure.map { max-width: none; } .map .wide { margin: .4rem 0; }
.map th { font-weight: 400; padding: 0 .2rem; text-align: center; min-width: .9rem; }
.map td { width: 1.15rem; min-width: 1.15rem; height: 1.15rem; padding: 0; }
.map thead th { vertical-align: bottom; border: 0; }
.map .long { writing-mode: vertical-rl; transform: rotate(180deg); padding: .2rem 0; }
.map tbody { outline: 1px solid var(--grid); }
.maps { display: flex; flex-wrap: wrap; gap: 0 3rem; align-items: flex-start; }
.maps > * { min-width: 0; margin: .5rem 0; }
"""


def _word(key: str, weight: float, top: float, *, is_heaviest: bool) -> str:
    names = f"w{_level(weight, top)}{' most' if is_heaviest else ''}"
    return f'<span class="{names}" title="{weight:.3f}">{escape(key)}</span>'


def _column(key: str) -> str:
    """A column's heading; a name that is wider than its column is turned upright."""
    return f"<th>{escape(key)}</th>" if len(key) <= 1 else f'<th class="long">{escape(key)}</th>'


def _level(weight: float, top: float) -> int:
    return round(weight / top * LEVELS)


def _rules(ramp: Sequence[str]) -> str:
    grounds = [colour(ramp, level / LEVELS) for level in range(1, LEVELS + 1)]
    return "".join(
        f".w{level} {{ background: {_hex(ground)}; color: {_hex(ink(ground))}; }}\n"
        for level, ground in enumerate(grounds, 1)
    )


def _hex(rgb: RGB) -> str:
    return "#" + "".join(f"{part:02x}" for part in rgb)
