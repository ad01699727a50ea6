"""Curves on logarithmic axes as SVG, drawn by hand, in the form that `pictures.picture` takes."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from regard.plots.charts import ticks

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 68, 16, 16, 36
DOT = 3
Points = Sequence[tuple[float, float]]


def log_curves(
    series: Mapping[str, Points], *, title: str, x_title: str, has_log_y: bool = True
) -> str:
    """A line with dots for each series; a power of x is a straight line.

    Args:
        series: points of each line, by its name; x and, on two logarithmic axes, y above zero.
        title: what the picture is about, for those who do not see it.
        x_title: below the axis.
        has_log_y: whether the upright axis is logarithmic too.
    """
    points = [point for line in series.values() for point in line]
    if not points:
        return f"<p>{escape(title)}: nothing was measured.</p>"
    scale = math.log10 if has_log_y else float
    xs = sorted({x for x, _ in points})
    x0, x1 = _room(math.log10(xs[0]), math.log10(xs[-1]))
    heights = [scale(y) for _, y in points]
    y0, y1 = _room(min(heights), max(heights))

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (math.log10(x) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - (scale(y) - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)

    label = escape(title, quote=True)
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">']
    for y in _powers(y0, y1) if has_log_y else ticks(y0, y1):
        down = at(xs[0], y)[1]
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down:.1f}" y2="{down:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{down + 4:.1f}" text-anchor="end">{y:.6g}</text>'
        )
    floor = HEIGHT - BOTTOM
    for x in xs:
        across = at(x, points[0][1])[0]
        parts.append(
            f'<line class="grid" x1="{across:.1f}" x2="{across:.1f}" y1="{TOP}" y2="{floor}"/>'
            f'<text x="{across:.1f}" y="{floor + 16}" text-anchor="middle">{x:,.0f}</text>'
        )
    parts.append(
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle">'
        f"{escape(x_title)}</text>"
    )
    for number, (name, line) in enumerate(series.items(), 1):
        places = [at(x, y) for x, y in line]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        colour = f"var(--line-{number})"
        parts.append(f'<polyline class="line" style="stroke: {colour}" points="{path}"/>')
        parts += [
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{DOT}" fill="{colour}">'
            f"<title>{escape(name)}, {x:,.0f}: {y:.3g}</title></circle>"
            for (a, b), (x, y) in zip(places, line, strict=True)
        ]
    return "".join([*parts, "</svg>"])


def _room(low: float, high: float) -> tuple[float, float]:
    """Both ends with a little room outside."""
    spare = 0.04 * (high - low) or 0.5
    return low - spare, high + spare


def _powers(low: float, high: float) -> list[float]:
    """Powers of ten between two ends, and between these 2 and 5 times, where there are few."""
    wanted = [
        base * 10.0**power
        for power in range(math.floor(low), math.ceil(high) + 1)
        for base in ((1, 2, 5) if high - low < 3 else (1,))
    ]
    return [one for one in wanted if low <= math.log10(one) <= high]
