"""Coloured words for the terminal: one row per target word, its source words shaded by weight.

A terminal without colours gets numbers instead: each row's heaviest words with their weights.
"""

import os
from collections import Counter
from collections.abc import Sequence

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console, Group
from rich.style import Style
from rich.table import Table
from rich.text import Text

from regard.errors import LengthError
from regard.inspecting.panels import OVERVIEW, Panel, View
from regard.inspecting.record import Record
from regard.inspecting.token_labels import harmless
from regard.plots.colours import DARK, LIGHT, RGB, colour, ink

MAX_PRINTED_WORDS = 20_000
"""The most words that are printed, all lines together."""
FAINT = 0.1
"""Below this share of the largest weight a word is not shaded."""
LEGEND = 12
COLOURED = ("256", "truecolor", "windows")
"""The colour systems of rich in which words can be shaded."""
MAX_NAMED_KEYS = 3
"""The number of words named for each row in the output without colours."""


def print_words(record: Record, view: View = OVERVIEW, *, console: Console) -> None:
    """Print a record in colours, or in numbers where colours are missing or turned off."""
    if console.is_terminal and not console.no_color and console.color_system in COLOURED:
        console.print(coloured_words(record, view, ramp=ramp_of_terminal()))
    else:
        console.out(plain_words(record, view), highlight=False)


def coloured_words(record: Record, view: View = OVERVIEW, *, ramp: Sequence[str] = DARK) -> Group:
    """A row for each query: its keys, shaded by weight; the heaviest is underlined."""
    panel = _small(record.panel(view))
    top = panel.top
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_column(justify="right", no_wrap=True, style="bold")
    rows.add_column(overflow="fold")
    between = " " if view.unit == "words" else ""
    for name, weights in zip(panel.queries, panel.weights.tolist(), strict=True):
        heaviest = max(weights)
        keys = [
            Text(key, _style(ramp, weight / top, is_heaviest=weight == heaviest))
            for key, weight in zip(panel.keys, weights, strict=True)
        ]
        rows.add_row(Text(name), Text(between).join(keys))
    return Group(
        _pair(record), _title(panel, ramp, top), Text(), rows, Text(), Text(strongest_line(panel))
    )


def plain_words(record: Record, view: View = OVERVIEW) -> str:
    """A line for each query: the keys that weigh most, with their weights."""
    panel = _small(record.panel(view))
    margin = max(map(cell_len, panel.queries), default=0)
    lines, keys = [_pair(record).plain, panel.title, ""], numbered_duplicates(panel.keys)
    for name, weights in zip(panel.queries, panel.weights.tolist(), strict=True):
        heaviest = sorted(range(len(weights)), key=lambda place: -weights[place])
        said = [f"{keys[place]} {weights[place]:.2f}" for place in heaviest[:MAX_NAMED_KEYS]]
        if rest := heaviest[MAX_NAMED_KEYS:]:
            said.append(f"others {sum(weights[place] for place in rest):.2f}")
        lines.append(f"{' ' * (margin - cell_len(name))}{name} ← {' · '.join(said)}")
    return "\n".join([*lines, "", strongest_line(panel)])


def strongest_line(panel: Panel, count: int = 5) -> str:
    """The heaviest links of a panel in one line."""
    queries, keys = numbered_duplicates(panel.queries), numbered_duplicates(panel.keys)
    links = [
        f"{queries[link.query]} ← {keys[link.key]} {link.weight:.2f}"
        for link in panel.strongest(count)
    ]
    return f"strongest: {' · '.join(links) or 'none'}"


def numbered_duplicates(names: Sequence[str]) -> list[str]:
    """The names; each that occurs several times is followed by the number of its place.

    >>> numbered_duplicates(["M", "a", "M"])
    ['M (1)', 'a', 'M (3)']
    """
    often = Counter(names)
    return [f"{name} ({place})" if often[name] > 1 else name for place, name in enumerate(names, 1)]


def ramp_of_terminal() -> Sequence[str]:
    """The ramp for the background that COLORFGBG names; the dark one if it is not set."""
    ground = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if ground in ("7", "15") else DARK


def _small(panel: Panel) -> Panel:
    if len(panel.queries) * len(panel.keys) > MAX_PRINTED_WORDS:
        raise LengthError(
            f"look: {len(panel.queries)} × {len(panel.keys)} words are too many to print. Write a "
            "page (--out x.html) or a picture (--out x.png), or give a shorter text."
        )
    return panel


def _pair(record: Record) -> Text:
    if not record.target:
        return Text(harmless(record.source))
    return Text.assemble(harmless(record.source), "  →  ", (harmless(record.target), "bold"))


def _title(panel: Panel, ramp: Sequence[str], top: float) -> Text:
    steps = [
        Text(" ", _style(ramp, share / LEGEND, is_heaviest=False)) for share in range(1, LEGEND + 1)
    ]
    return Text.assemble(panel.title, "   0 ", *steps, f" {top:.2f}")


def _style(ramp: Sequence[str], share: float, *, is_heaviest: bool) -> Style:
    style = Style(underline=is_heaviest or None)
    if share < FAINT:
        return style
    ground = colour(ramp, share)
    return style + Style(color=_rich(ink(ground)), bgcolor=_rich(ground))


def _rich(rgb: RGB) -> Color:
    return Color.from_rgb(*rgb)
