"""Every head of a kind side by side: layers down, heads across, one colour scale for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.inspecting.panels import View
from regard.inspecting.record import Record
from regard.plots.heatmap import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 96
"""Rows and columns of a small picture; longer texts are pooled."""


def heads_grid(record: Record, kind: str = "cross", *, figure: Figure | None = None) -> Figure:
    """Draw all heads small; tokens have no room here, see `record_map` for one head.

    Args:
        record: what to draw.
        kind: "encoder", "decoder" or "cross".
        figure: draw here instead of on a new figure.
    """
    one = find(kind, record.attention)
    n_layers, n_heads = len(one.layers), one.n_heads
    heads = [
        [_head(record, View(kind, layer, head)) for head in range(n_heads)]
        for layer in range(n_layers)
    ]
    tall = min(2.0, max(0.5, len(one.queries) / len(one.keys)))
    figure = figure or new_figure(1.6 + 1.5 * n_heads, 1.3 + 1.5 * tall * n_layers)
    axes = figure.subplots(n_layers, n_heads, squeeze=False)
    top = max(float(head.max()) for layer in heads for head in layer)
    for i, layer in enumerate(heads):
        for j, head in enumerate(layer):
            ax = axes[i, j]
            ax.imshow(head.numpy(), cmap="cividis", vmin=0.0, vmax=top, aspect="auto")
            ax.set(xticks=[], yticks=[])
            if i == 0:
                ax.set_title(f"head {j + 1}", fontsize="small")
            if j == 0:
                ax.set_ylabel(f"layer {i + 1}", fontsize="small")
    figure.supylabel(f"{one.query_title} ↓", fontsize="small")
    figure.supxlabel(f"{one.key_title} →", fontsize="small")
    figure.suptitle(f"{kind} attention, every head", fontsize="medium")
    figure.colorbar(axes[0, 0].images[0], ax=axes, label="weight", fraction=0.03, pad=0.02)
    return figure


def _head(record: Record, view: View) -> Float[Tensor, "q k"]:
    one = record.attention[view.kind]
    if max(len(one.queries), len(one.keys)) <= BINS:
        return record.weights(view.kind, view.layer, view.head)
    return record.pooled(view, BINS)
