"""Cross-attention against people's alignment: sure links outlined, possible ones dashed.

The model's own links, each target word's heaviest source word, are dots: agreement can be seen
without colours. Words are those between spaces, as alignments count them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.errors import ShapeError
from regard.evaluating.alignment import AlignmentCounts
from regard.evaluating.heads import LEFT_OUT, Pieces, Row, argmax_links, merge_pieces
from regard.evaluating.links import Gold, Link
from regard.inspecting.panels import OVERVIEW, View
from regard.inspecting.record import Record
from regard.inspecting.token_labels import Tokens
from regard.plots.fonts import drawable
from regard.plots.heatmap import heatmap, note_missing, on_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Aligned(NamedTuple):
    """A record's weights between words as alignments count them."""

    weights: Float[Tensor, "t s"]
    source: list[str]
    target: list[str]
    links: frozenset[Link]
    """Each target word with the source word it weighs most."""


def aligned(record: Record, view: View = OVERVIEW, *, row: Row = Row.PREDICTING) -> Aligned:
    """Merge a record's pieces into the words between spaces.

    Args:
        record: with cross-attention.
        view: which layer and head; the mean where they are not said.
        row: which of the decoder's rows speaks for a target piece.
    """
    one = find("cross", record.attention)
    sides = spaced(one.keys, record.source), spaced(one.queries, record.target)
    weights = record.weights("cross", view.layer, view.head)
    # the row of the end predicts no word, and has none to be the next row of
    written = sides[1][: len(sides[1]) - 1]
    words = merge_pieces(weights, Pieces(sides[0], written), row)
    targets = sorted({word for word in written if word != LEFT_OUT})
    links = argmax_links(words, targets)
    return Aligned(words, record.source.split(), record.target.split(), links)


def spaced(tokens: Tokens, text: str) -> list[int]:
    """For each piece, the word between spaces that it belongs to; a special token's is none.

    >>> pieces = [("to", (0, 2)), (" be", (2, 5)), (",", (5, 6)), ("<eos>", None)]
    >>> spaced(Tokens.of("to be,", pieces), "to be,")
    [0, 1, 1, -1]
    """
    of_name, at = [], 0
    for number, name in enumerate(tokens.names):
        if number in tokens.specials:
            of_name.append(LEFT_OUT)
            continue
        found = text.find(name, at)
        at = at if found < 0 else found
        of_name.append(len(text[: at + 1].split()) - 1)
        at += len(name) if found >= 0 else 0
    return [of_name[word] for word in tokens.words]


def alignment_map(
    record: Record,
    gold: Gold,
    view: View = OVERVIEW,
    *,
    row: Row = Row.PREDICTING,
    ax: Axes | None = None,
) -> Figure:
    """Draw cross-attention with the gold links over it; the title has the alignment error rate.

    Args:
        record: of the sentence pair that was aligned.
        gold: its links.
        view: which layer and head; the mean where they are not said.
        row: which of the decoder's rows speaks for a target piece.
        ax: draw here instead of on a new figure.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle

    seen = aligned(record, view, row=row)
    _check(gold, seen)
    shape = len(seen.target), len(seen.source)
    figure, ax = on_axis(ax, 2.6 + 0.36 * max(shape[1], 8), 2.2 + 0.36 * max(shape[0], 5))
    labels = drawable([*seen.target, *seen.source])
    heatmap(
        seen.weights[: shape[0], : shape[1]],
        queries=labels.texts[: shape[0]],
        keys=labels.texts[shape[0] :],
        row_title="query (target)",
        column_title="key (source)",
        ax=ax,
    )
    ax.set_aspect("auto")
    for tick in (*ax.get_xticklabels(), *ax.get_yticklabels()):
        tick.set_fontfamily(labels.families)
    ax.tick_params(axis="x", rotation=90)
    for links, style in ((gold.sure, "-"), (gold.also, (0, (2, 2)))):
        for source, target in links:
            corner = source - 0.42, target - 0.42
            for colour, width in (("black", 3.6), ("white", 1.8)):
                ax.add_patch(
                    Rectangle(corner, 0.84, 0.84, fill=False, ls=style, ec=colour, lw=width)
                )
    places = sorted(seen.links)
    ax.scatter(
        [source for source, _ in places], [target for _, target in places], s=26, c="white",
        edgecolors="black", linewidths=1.2, zorder=3,
    )  # fmt: skip
    counts = AlignmentCounts.of(seen.links, gold)
    ax.set_title(
        f"{record.title(View('cross', view.layer, view.head))}, {row.name.lower()} row\n"
        f"alignment error rate {100 * counts.error_rate:.1f} %",
        fontsize="medium",
    )
    dot = Line2D(
        [], [], ls="", marker="o", mfc="white", mec="black", label="heaviest of each target word"
    )
    boxes = [
        Patch(label=label, ls=style, facecolor="#c9c4ad", edgecolor="black", linewidth=1.4)
        for label, style in (("sure", "-"), ("possible", "--"))
    ]
    ax.legend(
        handles=[*boxes, dot],
        loc="upper left", bbox_to_anchor=(0.0, -0.28), ncols=3, fontsize="x-small", frameon=False,
        handlelength=1.3, handleheight=1.3,
    )  # fmt: skip
    note_missing(ax, labels)
    return figure


def _check(gold: Gold, seen: Aligned) -> None:
    for source, target in gold.possible:
        if source >= len(seen.source) or target >= len(seen.target):
            raise ShapeError(
                f"alignment: the gold link {source}-{target} is of a longer sentence pair; this "
                f"one has {len(seen.source)} source and {len(seen.target)} target words. Look at "
                "the pair that was aligned: look(source, target)."
            )
