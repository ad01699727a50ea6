"""Every head of a kind: small maps, layers down and heads across, or how spread each one is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from regard.choices import find
from regard.inspecting.panels import View
from regard.inspecting.record import Record
from regard.inspecting.statistics import head_statistics
from regard.plots.colours import weight_colours
from regard.plots.heatmap import new_figure, on_axis, write_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 96
"""Rows and columns of a small picture; longer texts are pooled."""


def heads_grid(record: Record, kind: str = "cross", *, figure: Figure | None = None) -> Figure:
    """Draw small maps of all heads, without tokens; `record_map` draws one head with tokens."""
    one = find(kind, record.attention)
    n_layers, n_heads = len(one.layers), one.n_heads
    heads = [
        [record.pooled(View(kind, layer, head), BINS) for head in range(n_heads)]
        for layer in range(n_layers)
    ]
    tall = min(2.0, max(0.5, len(one.queries) / len(one.keys)))
    figure = figure or new_figure(1.6 + 1.5 * n_heads, 1.3 + 1.5 * tall * n_layers)
    axes = figure.subplots(n_layers, n_heads, squeeze=False)
    top = max(float(head.max()) for layer in heads for head in layer)
    for i, layer in enumerate(heads):
        for j, head in enumerate(layer):
            ax = axes[i, j]
            ax.imshow(head.numpy(), cmap=weight_colours(), vmin=0.0, vmax=top, aspect="auto")
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


def entropy_plot(
    record: Record, kind: str = "cross", *, every: int = 1, ax: Axes | None = None
) -> Figure:
    """Draw the mean entropy of every head, from 0 (one key) to ln k (uniform over k keys).

    Of a long text one in `every` queries may be used; the title says so.
    """
    one = find(kind, record.attention)
    n_layers, n_heads = len(one.layers), one.n_heads
    rows = head_statistics(record, kind, every=every)
    nats = torch.tensor([row.entropy for row in rows], dtype=torch.float64).view(n_layers, n_heads)
    figure, ax = on_axis(ax, 2.6 + 0.62 * max(n_heads, 5), 1.7 + 0.5 * max(n_layers, 2))
    top = max(math.log(len(one.keys)), 1e-9)
    image = ax.imshow(nats.numpy(), cmap=weight_colours(), vmin=0.0, vmax=top, aspect="auto")
    write_numbers(ax, nats, top=top, size=8)
    ax.set_xticks(range(n_heads), [str(head + 1) for head in range(n_heads)])
    ax.set_yticks(range(n_layers), [str(layer + 1) for layer in range(n_layers)])
    ax.set(xlabel="head", ylabel="layer")
    sampled = "" if every == 1 else f", every {every}th query"
    ax.set_title(
        f"{kind} attention: how spread each head is{sampled}\n"
        f"mean entropy, at most ln {len(one.keys):,} = {top:.2f} nats",
        fontsize="medium",
    )
    figure.colorbar(image, ax=ax, fraction=0.046, pad=0.04, label="nats")
    return figure
