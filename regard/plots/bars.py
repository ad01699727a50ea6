"""Bars and intervals as SVG, drawn by hand: no library on anybody's machine, light and dark."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 240, 48, 16, 12, 44
ROW, NAMES = 30, 190
COLOURS = 6
"""How many `--line-N` the page has; later series begin again."""


def bars(
    groups: Sequence[str], series: Mapping[str, Sequence[float]], *, title: str, x_title: str
) -> str:
    """Groups of bars side by side, one bar a series, from zero."""
    values = [value for line in series.values() for value in line]
    if not values:
        return f"<p>{escape(title)}: nothing was measured.</p>"
    top = max(values) or 1.0
    marks = ticks(0.0, top)
    step = (WIDTH - LEFT - RIGHT) / len(groups)
    thickness = step * 0.8 / len(series)
    floor = HEIGHT - BOTTOM
    parts = []
    for mark in marks:
        down = floor - mark / top * (floor - TOP)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down:.1f}" y2="{down:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{down + 4:.1f}" text-anchor="end">{mark:.6g}</text>'
        )
    for place, group in enumerate(groups):
        across = LEFT + (place + 0.5) * step
        parts.append(
            f'<text x="{across:.1f}" y="{floor + 16}" text-anchor="middle">{escape(group)}</text>'
        )
        for number, (name, line) in enumerate(series.items()):
            tall = line[place] / top * (floor - TOP)
            x = across - step * 0.4 + number * thickness
            parts.append(
                f'<rect x="{x:.1f}" y="{floor - tall:.1f}" width="{thickness * 0.92:.1f}" '
                f'height="{tall:.1f}" fill="var({colour(number)})">'
                f"<title>{escape(name)}, {escape(group)}: {line[place]:.2f}</title></rect>"
            )
    parts.append(
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">'
        f"{escape(x_title)}</text>"
    )
    return _figure(title, parts, HEIGHT, legend(list(series)))


@dataclass(frozen=True)
class Whisker:
    """A value with the interval it may lie in."""

    name: str
    value: float
    low: float
    high: float
    colour: int = 0


def whiskers(rows: Sequence[Whisker], *, title: str, x_title: str) -> str:
    """Intervals one below the other against zero: one that holds zero shows no sure difference."""
    if not rows:
        return f"<p>{escape(title)}: nothing was measured.</p>"
    low, high = min(0.0, *(r.low for r in rows)), max(0.0, *(r.high for r in rows))
    room = (high - low or 1.0) * 0.04
    low, high = low - room, high + room
    height = TOP + ROW * len(rows) + BOTTOM
    floor = height - BOTTOM

    def at(x: float) -> float:
        return NAMES + (x - low) / (high - low) * (WIDTH - NAMES - RIGHT)

    zero = f"{at(0.0):.1f}"
    parts = [
        f'<line x1="{zero}" x2="{zero}" y1="{TOP}" y2="{floor}" stroke="currentColor" '
        'stroke-dasharray="4 3"/>'
    ]
    for x in ticks(low, high):
        parts.append(
            f'<line class="grid" x1="{at(x):.1f}" x2="{at(x):.1f}" y1="{TOP}" y2="{floor}"/>'
            f'<text x="{at(x):.1f}" y="{floor + 16}" text-anchor="middle">{x:.6g}</text>'
        )
    for number, row in enumerate(rows):
        y = TOP + ROW * (number + 0.5)
        stroke = f"var({colour(row.colour)})"
        parts.append(
            f'<text x="{NAMES - 12}" y="{y + 4:.1f}" text-anchor="end">{escape(row.name)}</text>'
            f'<line x1="{at(row.low):.1f}" x2="{at(row.high):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{stroke}" stroke-width="3"/>'
            f'<circle cx="{at(row.value):.1f}" cy="{y:.1f}" r="5" fill="{stroke}">'
            f"<title>{escape(row.name)}: {row.value:+.2f} ({row.low:+.2f} to {row.high:+.2f})"
            "</title></circle>"
        )
    parts.append(
        f'<text x="{(NAMES + WIDTH) / 2:.0f}" y="{height - 6}" text-anchor="middle">'
        f"{escape(x_title)}</text>"
    )
    return _figure(title, parts, height, "")


def ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Round numbers between two ends, steps of 1, 2 or 5 times a power of ten.

    >>> ticks(-0.7, 15.7), ticks(0.0, 0.9)
    ([0.0, 5.0, 10.0, 15.0], [0.0, 0.2, 0.4, 0.6, 0.8])
    """
    span = max(high - low, 1e-9)
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(power * by for by in (1, 2, 5, 10) if span / (power * by) <= most)
    numbers = range(math.ceil(low / step), math.floor(high / step) + 1)
    return [round(number * step, 12) for number in numbers]


def colour(number: int) -> str:
    """The page's variable for the colour of a series, counted from 0."""
    return f"--line-{number % COLOURS + 1}"


def legend(names: Sequence[str]) -> str:
    """The names of the series, each beside its colour."""
    return "".join(
        f'<span><i style="background: var({colour(number)})"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    )


def _figure(title: str, parts: Sequence[str], height: int, names: str) -> str:
    label = escape(title, quote=True)
    return (
        f"<figure><figcaption>{escape(title)} {names}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg></figure>"
    )
