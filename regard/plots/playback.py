"""A translation played word by word: each frame writes one more word and shows what it looked at.

The source stands above, shaded by the weights of the word that is being written; below stands what
has been written so far, the newest word framed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.errors import LengthError, MissingExtra
from regard.inspecting.panels import OVERVIEW, View
from regard.inspecting.record import Record
from regard.inspecting.token_labels import harmless
from regard.plots.colours import LIGHT, RGB, colour, ink
from regard.plots.fonts import drawable
from regard.plots.heatmap import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_FILM_WORDS = 80
"""The most words on a side of a film."""
WIDE = 8.0
"""Inches across."""
LINE = 0.38
"""Inches between two lines of words."""
SIZE = 12
"""Of the words, in points."""
WHITE = (255, 255, 255)
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
    """One figure for each word of the answer, in the order in which they are written."""
    panel = record.panel(view)
    longest = max(len(panel.queries), len(panel.keys))
    if longest > MAX_FILM_WORDS:
        raise LengthError(
            f"look: {longest} words on a side are too many to play; at most "
            f"{MAX_FILM_WORDS}. Write a page (--out x.html) or a picture (--out x.png)."
        )
    labels = drawable([*panel.keys, *panel.queries])
    split = len(panel.keys)
    font: dict[str, Any] = {"fontfamily": labels.families, "parse_math": False}
    above, height = _laid_out(labels.texts[:split], font, 0.95)
    below, height = _laid_out(labels.texts[split:], font, height + 0.85)
    titles = [(0.3, 12, harmless(panel.title)), (0.68, 9, panel.key_title)]
    titles.append((below[0].top - 0.27 if below else 1.0, 9, panel.query_title))
    for number, weights in enumerate(panel.weights.tolist()):
        figure = _blank(height + 0.55)
        for top, size, text in titles:
            place = _at(figure, 0.35, top + 0.2)
            figure.text(*place, text, fontsize=size, color="#444444", **font)
        for word, weight in zip(above, weights, strict=True):
            _draw(figure, word, colour(LIGHT, weight / panel.top), font)
        for word in below[:number]:
            _draw(figure, word, WHITE, font)
        _draw(figure, below[number], WHITE, font, edgecolor="#d55e00", linewidth=2.2)
        _legend(figure, panel.top)
        yield figure


def write_gif(record: Record, path: Path, view: View = OVERVIEW) -> None:
    """Write the frames as one moving picture that starts again at its end."""
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


def _blank(height: float) -> Figure:
    figure = new_figure(WIDE, height)
    figure.set_layout_engine("none")
    return figure


def _laid_out(
    texts: Sequence[str], font: Mapping[str, Any], top: float
) -> tuple[list[_Word], float]:
    """Words side by side, on as many lines as they need; and where the last line ends."""
    words, left = [], 0.35
    for text, width in zip(texts, _widths(texts, font), strict=True):
        if left + width > WIDE - 0.3 and left > 0.35:
            left, top = 0.35, top + LINE
        words.append(_Word(text, left, top, width))
        left += width + 0.07
    return words, top + LINE


def _widths(texts: Sequence[str], font: Mapping[str, Any]) -> list[float]:
    """How wide each word is when it is drawn, its margins included."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _blank(1.0)
    drawn = [figure.text(0.0, 0.0, text, fontsize=SIZE, **font) for text in texts]
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()
    return [one.get_window_extent(renderer).width / figure.dpi + 0.16 for one in drawn]


def _draw(
    figure: Figure,
    word: _Word,
    ground: RGB,
    font: Mapping[str, Any],
    *,
    edgecolor: str = "#c9c9c9",
    linewidth: float = 0.6,
) -> None:
    bottom = word.top + 0.3
    _box(figure, word.left, bottom, (word.width, 0.3), ground, edgecolor, linewidth)
    x, y = _at(figure, word.left + word.width / 2, bottom - 0.15)
    shade = _shares(ink(ground))
    figure.text(x, y, word.text, ha="center", va="center", fontsize=SIZE, color=shade, **font)


def _box(
    figure: Figure,
    left: float,
    bottom: float,
    size: tuple[float, float],
    ground: RGB,
    edge: str,
    thickness: float,
) -> None:
    from matplotlib.patches import Rectangle

    wide, high = size[0] / WIDE, size[1] / figure.get_figheight()
    box = Rectangle(_at(figure, left, bottom), wide, high, transform=figure.transFigure)
    box.set(facecolor=_shares(ground), edgecolor=edge, linewidth=thickness)
    figure.add_artist(box)


def _at(figure: Figure, left: float, down: float) -> tuple[float, float]:
    """Inches from the upper left corner as matplotlib counts them: shares from the lower left."""
    return left / WIDE, 1 - down / figure.get_figheight()


def _shares(rgb: RGB) -> tuple[float, float, float]:
    red, green, blue = rgb
    return red / 255, green / 255, blue / 255


def _legend(figure: Figure, top: float) -> None:
    bottom, steps = figure.get_figheight() - 0.16, 40
    figure.text(*_at(figure, 0.35, bottom), "weight 0", fontsize=9)
    for step in range(steps):
        ground = colour(LIGHT, (step + 0.5) / steps)
        _box(figure, 1.05 + 0.04 * step, bottom, (0.04, 0.13), ground, "none", 1.0)
    end = _at(figure, 1.05 + 0.04 * steps + 0.08, bottom)
    figure.text(*end, f"{top:.2f}", fontsize=9)
