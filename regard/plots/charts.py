"""Charts as SVG, written without a library, and readable in light and dark themes.

Curves over two axes, bars side by side, and intervals against zero. Colours are the page's
`--line-N`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, RIGHT = 640, 16
ROW, NAMES = 30, 190
"""Height of an interval's row, and width of the names beside the rows."""
COLOURS = 6
"""How many `--line-N` the page has; later series begin again."""

Points = Sequence[tuple[float, float]]
Length = float | int


def curves(series: Mapping[str, Points], *, title: str, x_title: str = "updates") -> str:
    """One picture with a line for each series."""
    points = [point for line in series.values() for point in line]
    if not points:
        return _empty(title)
    (x0, x1), (y0, y1) = (_range([point[axis] for point in points]) for axis in (0, 1))
    height, left, top, floor = 260, 68, 16, 224

    def at(x: float, y: float) -> tuple[float, float]:
        across = left + (x - x0) / (x1 - x0) * (WIDTH - left - RIGHT)
        return across, floor - (y - y0) / (y1 - y0) * (floor - top)

    parts = [_level(left, at(x0, y)[1], y) for y in ticks(y0, y1)]
    parts += [_text(at(x, y0)[0], floor + 16, f"{x:.6g}") for x in ticks(x0, x1, most=8)]
    parts.append(_axis_title(left, height - 4, x_title))
    for number, line in enumerate(series.values()):
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in (at(x, y) for x, y in line))
        style = f"stroke: var({_colour(number)})"
        parts.append(f'<polyline class="line" style="{style}" points="{path}"/>')
    return _figure(title, parts, height, list(series))


def bars(
    groups: Sequence[str], series: Mapping[str, Sequence[float]], *, title: str, x_title: str
) -> str:
    """Groups of bars side by side, one bar a series, from zero."""
    values = [value for line in series.values() for value in line]
    if not values:
        return _empty(title)
    most = max(values) or 1.0
    height, left, top, floor = 240, 48, 12, 196
    step = (WIDTH - left - RIGHT) / len(groups)
    thickness = step * 0.8 / len(series)
    parts = [_level(left, floor - y / most * (floor - top), y) for y in ticks(0.0, most)]
    for place, group in enumerate(groups):
        across = left + (place + 0.5) * step
        parts.append(_text(across, floor + 16, group))
        for number, (name, line) in enumerate(series.items()):
            tall = line[place] / most * (floor - top)
            x = across - step * 0.4 + number * thickness
            parts.append(
                f'<rect x="{x:.1f}" y="{floor - tall:.1f}" width="{thickness * 0.92:.1f}" '
                f'height="{tall:.1f}" fill="var({_colour(number)})">'
                f"<title>{escape(name)}, {escape(group)}: {line[place]:.2f}</title></rect>"
            )
    parts.append(_axis_title(left, height - 6, x_title))
    return _figure(title, parts, height, list(series))


@dataclass(frozen=True)
class Whisker:
    """A value with the interval it may lie in."""

    name: str
    value: float
    low: float
    high: float
    colour: int = 0


def whiskers(rows: Sequence[Whisker], *, title: str, x_title: str) -> str:
    """Intervals one below the other against zero: one that holds zero shows no clear difference."""
    if not rows:
        return _empty(title)
    low, high = min(0.0, *(r.low for r in rows)), max(0.0, *(r.high for r in rows))
    room = (high - low or 1.0) * 0.04
    low, high = low - room, high + room
    top, floor = 12, 12 + ROW * len(rows)

    def at(x: float) -> float:
        return NAMES + (x - low) / (high - low) * (WIDTH - NAMES - RIGHT)

    zero = 'stroke="currentColor" stroke-dasharray="4 3"'
    parts = [_line(at(0.0), top, at(0.0), floor, zero)]
    for x in ticks(low, high):
        parts.append(_line(at(x), top, at(x), floor, 'class="grid"'))
        parts.append(_text(at(x), floor + 16, f"{x:.6g}"))
    for number, row in enumerate(rows):
        y = top + ROW * (number + 0.5)
        stroke = f"var({_colour(row.colour)})"
        parts += [
            _text(NAMES - 12, y + 4, row.name, anchor="end"),
            _line(at(row.low), y, at(row.high), y, f'stroke="{stroke}" stroke-width="3"'),
            f'<circle cx="{at(row.value):.1f}" cy="{y:.1f}" r="5" fill="{stroke}">'
            f"<title>{escape(row.name)}: {row.value:+.2f} ({row.low:+.2f} to {row.high:+.2f})"
            "</title></circle>",
        ]
    parts.append(_axis_title(NAMES, floor + 38, x_title))
    return _figure(title, parts, floor + 44)


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


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _colour(number: int) -> str:
    """The page's variable for the colour of a series, counted from 0."""
    return f"--line-{number % COLOURS + 1}"


def _line(x1: Length, y1: Length, x2: Length, y2: Length, style: str) -> str:
    ends = {"x1": x1, "x2": x2, "y1": y1, "y2": y2}
    places = " ".join(f'{name}="{_written(end)}"' for name, end in ends.items())
    return f"<line {style} {places}/>"


def _text(x: Length, y: Length, text: str, *, anchor: str = "middle") -> str:
    place = f'x="{_written(x)}" y="{_written(y)}"'
    return f'<text {place} text-anchor="{anchor}">{escape(text)}</text>'


def _written(length: Length) -> str:
    """A computed length, written with one decimal place."""
    return f"{length:.1f}" if isinstance(length, float) else str(length)


def _level(left: int, y: float, number: float) -> str:
    """A line across the picture at a height, with its number."""
    line = _line(left, y, WIDTH - RIGHT, y, 'class="grid"')
    return line + _text(left - 6, y + 4, f"{number:.6g}", anchor="end")


def _axis_title(left: int, y: int, text: str) -> str:
    return _text((left + WIDTH) // 2, y, text)


def _empty(title: str) -> str:
    return f"<p>{escape(title)}: nothing was measured.</p>"


def _figure(title: str, parts: Sequence[str], height: int, names: Sequence[str] = ()) -> str:
    legend = "".join(
        f'<span><i style="background: var({_colour(number)})"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    label = escape(title, quote=True)
    return (
        f"<figure><figcaption>{escape(title)} {legend}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg></figure>"
    )
