"""Cross-attention against people's alignment: sure links outlined, possible ones dashed.

The model's own links, each target word's heaviest source word, are dots: agreement can be seen
without colours. Words are those between spaces, as alignments count them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regard.choices import find
from regard.errors import ShapeError
from regard.evaluating.alignment import AlignmentCounts, Gold, Link
from regard.evaluating.attention_links import (
    LEFT_OUT,
    DecoderRow,
    PieceWords,
    argmax_links,
    merge_pieces,
)
from regard.inspecting.panels import OVERVIEW, Panel, View
from regard.inspecting.record import Record
from regard.inspecting.token_labels import Tokens
from regard.plots.heatmap import heatmap, name_axes, on_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def aligned(
    record: Record, view: View = OVERVIEW, *, row: DecoderRow = DecoderRow.PREDICTING
) -> tuple[Panel, frozenset[Link]]:
    """Merge a record's pieces into the words between spaces, and link each target word.

    Gives back the weights between these words, and each target word with the source word that it
    weighs most. `row` chooses the decoder row whose weights count for a target piece.
    """
    one = find("cross", record.attention)
    sides = spaced(one.keys, record.source), spaced(one.queries, record.target)
    weights = record.weights("cross", view.layer, view.head)
    # the row that predicts the end token belongs to no word, for either choice of row
    written = sides[1][: len(sides[1]) - 1]
    words = merge_pieces(weights, PieceWords(sides[0], written), row)
    links = argmax_links(words, sorted({*written} - {LEFT_OUT}))
    source, target = tuple(record.source.split()), tuple(record.target.split())
    title = f"{record.title(View('cross', view.layer, view.head))}, {row.name.lower()} row"
    shown = words[: len(target), : len(source)]
    return Panel(title, target, source, shown, "query (target)", "key (source)"), links


def spaced(tokens: Tokens, text: str) -> list[int]:
    """For each piece, the word between spaces that it belongs to; `LEFT_OUT` for a special token.

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
    row: DecoderRow = DecoderRow.PREDICTING,
    ax: Axes | None = None,
) -> Figure:
    """Draw cross-attention with the gold links over it; the title has the alignment error rate.

    The record is of the sentence pair that was aligned; `row` chooses the decoder row whose
    weights count for a target piece.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle

    panel, own = aligned(record, view, row=row)
    _check(gold, panel)
    wide, high = max(len(panel.keys), 8), max(len(panel.queries), 5)
    figure, ax = on_axis(ax, 2.6 + 0.36 * wide, 2.2 + 0.36 * high)
    heatmap(panel.weights, ax=ax)
    ax.set_aspect("auto")
    name_axes(ax, panel, size="medium")
    for links, style in ((gold.sure, "-"), (gold.also, (0, (2, 2)))):
        for source, target in links:
            corner = source - 0.42, target - 0.42
            for colour, width in (("black", 3.6), ("white", 1.8)):
                box = Rectangle(corner, 0.84, 0.84, fill=False, ls=style, ec=colour, lw=width)
                ax.add_patch(box)
    across, down = ([link[axis] for link in sorted(own)] for axis in (0, 1))
    ax.scatter(across, down, s=26, c="white", edgecolors="black", linewidths=1.2, zorder=3)
    rate = 100 * AlignmentCounts.of(own, gold).error_rate
    ax.set_title(f"{panel.title}\nalignment error rate {rate:.1f} %", fontsize="medium")
    own_label = "heaviest of each target word"
    handles = [
        *(
            Patch(label=label, ls=style, facecolor="#c9c4ad", edgecolor="black", linewidth=1.4)
            for label, style in (("sure", "-"), ("possible", "--"))
        ),
        Line2D([], [], ls="", marker="o", mfc="white", mec="black", label=own_label),
    ]
    ax.legend(
        handles=handles,
        loc="upper left", bbox_to_anchor=(0.0, -0.28), ncols=3, fontsize="x-small", frameon=False,
        handlelength=1.3, handleheight=1.3,
    )  # fmt: skip
    return figure


def _check(gold: Gold, panel: Panel) -> None:
    for source, target in gold.possible:
        if source >= len(panel.keys) or target >= len(panel.queries):
            raise ShapeError(
                f"alignment: the gold link {source}-{target} is of a longer sentence pair; this "
                f"one has {len(panel.keys)} source and {len(panel.queries)} target words. Look at "
                "the pair that was aligned: look(source, target)."
            )
