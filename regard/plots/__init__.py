"""numbers → picture, in the terminal or as a figure (extra `plots`)."""

from regard.plots.curves import curves
from regard.plots.heatmap import heatmap
from regard.plots.terminal import shade

__all__ = ["curves", "heatmap", "shade"]
