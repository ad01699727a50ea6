"""Curves as SVG, drawn by hand: no library on anybody's machine, readable in light and dark."""

from collections.abc import Mapping, Sequence
from html import escape

from regard.plots.bars import ticks

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 260, 68, 16, 16, 36
Points = Sequence[tuple[float, float]]


def curves(series: Mapping[str, Points], *, title: str, x_title: str = "updates") -> str:
    """One picture with a line for each series; colours come from the page's `--line-N`."""
    points = [point for line in series.values() for point in line]
    if not points:
        return f"<p>{escape(title)}: nothing was measured.</p>"
    (x0, x1), (y0, y1) = (_range([point[axis] for point in points]) for axis in (0, 1))

    def at(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - (y - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title, quote=True)}">'
    ]
    for y in ticks(y0, y1):
        down = at(x0, y)[1]
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{down:.1f}" y2="{down:.1f}"/>'
            f'<text x="{LEFT - 6}" y="{down + 4:.1f}" text-anchor="end">{y:.6g}</text>'
        )
    for x in ticks(x0, x1, most=8):
        across = at(x, y0)[0]
        parts.append(
            f'<text x="{across:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:.6g}</text>'
        )
    parts.append(
        f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle">'
        f"{escape(x_title)}</text>"
    )
    for number, line in enumerate(series.values(), 1):
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in (at(x, y) for x, y in line))
        parts.append(
            f'<polyline class="line" style="stroke: var(--line-{number})" points="{path}"/>'
        )
    names = "".join(
        f'<span><i style="background: var(--line-{n})"></i>{escape(name)}</span>'
        for n, name in enumerate(series, 1)
    )
    figure = "".join([*parts, "</svg>"])
    return f"<figure><figcaption>{escape(title)} {names}</figcaption>{figure}</figure>"


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 0.5, high + 0.5)
