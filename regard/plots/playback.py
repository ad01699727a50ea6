"""A translation played word by word: each frame writes one more word and shows what it looked at.

The source stands above, shaded by the weights of the word that is being written; below stands what
has been written so far, the newest word framed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.errors import LengthError, MissingExtra
from regard.inspecting.panels import OVERVIEW, Panel, View
from regard.inspecting.record import Record
from regard.inspecting.token_labels import harmless
from regard.plots.colours import LIGHT, RGB, colour, ink
from regard.plots.fonts import Labels, drawable
from regard.plots.heatmap import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 80
"""The most words on a side."""
WIDE = 8.0
"""Inches across."""
LINE = 0.38
"""Inches between two lines of words."""
SIZE = 12
"""Of the words, in points."""
DOTS_PER_INCH = 110
MILLISECONDS = 900
"""For each word; the last one stays three times as long."""


class _Word(NamedTuple):
    """A word and where it stands, in inches from the left and the top."""

    text: str
    left: float
    top: float
    width: float


def frames(record: Record, view: View = OVERVIEW) -> Iterator[Figure]:
    """One figure for each word of the answer, in the order in which they are written.

    Args:
        record: with cross-attention, unless the view is of another kind.
        view: which kind, layer, head and unit.
    """
    panel = _short(record.panel(view))
    labels = drawable([*panel.keys, *panel.queries])
    split = len(panel.keys)
    top = float(panel.weights.max()) or 1.0
    above, height = _laid_out(labels.texts[:split], labels.families, 0.95)
    below, height = _laid_out(labels.texts[split:], labels.families, height + 0.85)
    for number, weights in enumerate(panel.weights.tolist()):
        figure = new_figure(WIDE, height + 0.55)
        figure.set_layout_engine("none")
        _title(figure, panel, labels.families, above, below)
        shares = [weight / top for weight in weights]
        _draw(figure, above, labels, [colour(LIGHT, share) for share in shares])
        _draw(figure, below[: number + 1], labels, [(255, 255, 255)] * (number + 1), framed=number)
        _legend(figure, top)
        yield figure


def write_gif(record: Record, path: Path, view: View = OVERVIEW) -> None:
    """Write the frames as one moving picture that starts again at its end.

    Args:
        record: what to play.
        path: such as `look.gif`.
        view: which kind, layer, head and unit.
    """
    try:
        from PIL import Image
    except ImportError as missing:
        raise MissingExtra(
            "plots: Pillow is not installed. Run pip install 'regard[plots]', or write another "
            "form (--out x.html)."
        ) from missing
    pictures = [
        Image.frombytes("RGBA", size, pixels).convert("RGB").quantize(96)
        for size, pixels in map(_pixels, frames(record, view))
    ]
    first, *rest = pictures
    stays = [MILLISECONDS] * len(rest) + [3 * MILLISECONDS]
    first.save(path, save_all=True, append_images=rest, duration=stays, loop=0, optimize=True)


def _pixels(figure: Figure) -> tuple[tuple[int, int], bytes]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.set_dpi(DOTS_PER_INCH)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    return canvas.get_width_height(), bytes(canvas.buffer_rgba())


def _short(panel: Panel) -> Panel:
    longest = max(len(panel.queries), len(panel.keys))
    if longest > LONGEST:
        raise LengthError(
            f"look: {longest} words on a side are too many to play; at most {LONGEST}. Write a "
            "page (--out x.html) or a picture (--out x.png)."
        )
    return panel


def _laid_out(texts: Sequence[str], families: list[str], top: float) -> tuple[list[_Word], float]:
    """Words side by side, on as many lines as they need; and where the last line ends."""
    widths = _widths(texts, families)
    words, left = [], 0.35
    for text, width in zip(texts, widths, strict=True):
        if left + width > WIDE - 0.3 and left > 0.35:
            left, top = 0.35, top + LINE
        words.append(_Word(text, left, top, width))
        left += width + 0.07
    return words, top + LINE


def _widths(texts: Sequence[str], families: list[str]) -> list[float]:
    """How wide each word is when it is drawn, its margins included."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = new_figure(WIDE, 1.0)
    figure.set_layout_engine("none")
    drawn = [
        figure.text(0.0, 0.0, text, parse_math=False, fontfamily=families, fontsize=SIZE)
        for text in texts
    ]
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    return [one.get_window_extent(renderer).width / figure.dpi + 0.16 for one in drawn]


def _draw(
    figure: Figure, words: Sequence[_Word], labels: Labels, grounds: Sequence[RGB], framed: int = -1
) -> None:
    from matplotlib.patches import Rectangle

    high = figure.get_figheight()
    for number, (word, ground) in enumerate(zip(words, grounds, strict=True)):
        corner = word.left / WIDE, 1 - (word.top + 0.3) / high
        size = word.width / WIDE, 0.3 / high
        edge = "#d55e00" if number == framed else "#c9c9c9"
        wide = 2.2 if number == framed else 0.6
        face = tuple(part / 255 for part in ground)
        figure.add_artist(
            Rectangle(
                corner,
                *size,
                facecolor=face,
                edgecolor=edge,
                linewidth=wide,
                transform=figure.transFigure,
            )
        )
        figure.text(
            corner[0] + size[0] / 2, corner[1] + size[1] / 2, word.text, parse_math=False,
            fontfamily=labels.families, fontsize=SIZE, ha="center", va="center",
            color=tuple(part / 255 for part in ink(ground)),
        )  # fmt: skip


def _title(
    figure: Figure, panel: Panel, families: list[str], above: list[_Word], below: list[_Word]
) -> None:
    high = figure.get_figheight()
    places = ((0.3, harmless(panel.title), 12), (0.68, panel.key_title, 9),
              (below[0].top - 0.27 if below else 1.0, panel.query_title, 9))  # fmt: skip
    for top, text, size in places:
        figure.text(
            0.35 / WIDE, 1 - (top + 0.2) / high, text, fontsize=size, color="#444444",
            parse_math=False, fontfamily=families,
        )  # fmt: skip


def _legend(figure: Figure, top: float) -> None:
    from matplotlib.patches import Rectangle

    high = figure.get_figheight()
    y, steps = 0.16 / high, 40
    figure.text(0.35 / WIDE, y, "weight 0", fontsize=9)
    for step in range(steps):
        face = tuple(part / 255 for part in colour(LIGHT, (step + 0.5) / steps))
        figure.add_artist(
            Rectangle(
                ((1.05 + 0.04 * step) / WIDE, y),
                0.04 / WIDE,
                0.13 / high,
                facecolor=face,
                edgecolor="none",
                transform=figure.transFigure,
            )
        )
    figure.text((1.05 + 0.04 * steps + 0.08) / WIDE, y, f"{top:.2f}", fontsize=9)
