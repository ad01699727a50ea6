"""How spread every head is: layers down, heads across, the mean entropy of its rows as a number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from regard.choices import find
from regard.inspecting.record import Record
from regard.inspecting.statistics import head_statistics
from regard.plots.heatmap import on_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BRIGHT = 0.45
"""From this share of the scale on, a number is written in black."""


def entropy_plot(
    record: Record, kind: str = "cross", *, every: int = 1, ax: Axes | None = None
) -> Figure:
    """Draw the mean entropy of every head, from 0 (one key) to ln k (all keys alike).

    Args:
        record: whose heads.
        kind: "encoder", "decoder" or "cross".
        every: use every so many queries of a long text; the title says so.
        ax: draw here instead of on a new figure.
    """
    one = find(kind, record.attention)
    n_layers, n_heads = len(one.layers), one.n_heads
    rows = head_statistics(record, kind, every=every)
    nats = np.array([row.entropy for row in rows]).reshape(n_layers, n_heads)
    figure, ax = on_axis(ax, 2.6 + 0.62 * max(n_heads, 5), 1.7 + 0.5 * max(n_layers, 2))
    top = max(math.log(len(one.keys)), 1e-9)
    image = ax.imshow(nats, cmap="cividis", vmin=0.0, vmax=top, aspect="auto")
    for (layer, head), entropy in np.ndenumerate(nats):
        ink = "black" if entropy / top > BRIGHT else "white"
        ax.text(head, layer, f"{entropy:.2f}", ha="center", va="center", fontsize=8, color=ink)
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
