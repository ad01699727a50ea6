"""numbers → picture: in the terminal, as a page, or as a figure (extra `plots`).

What draws a figure makes a new one, unless it is given an `ax` or a `figure` to draw on.
"""

from regard.plots.alignment_map import alignment_map
from regard.plots.character_heatmap import shade
from regard.plots.charts import curves
from regard.plots.difference import comparison_plot, difference_map
from regard.plots.document_page import document_page, record_page
from regard.plots.heads_grid import entropy_plot, heads_grid
from regard.plots.heatmap import heatmap, record_map
from regard.plots.links import links_plot
from regard.plots.long_overview import long_overview
from regard.plots.look_page import look_page
from regard.plots.notebook import framed
from regard.plots.picture_page import picture_page
from regard.plots.pictures import caption_sheet
from regard.plots.playback import frames, write_gif
from regard.plots.terminal_words import coloured_words, plain_words, print_words

__all__ = [
    "alignment_map",
    "caption_sheet",
    "coloured_words",
    "comparison_plot",
    "curves",
    "difference_map",
    "document_page",
    "entropy_plot",
    "framed",
    "frames",
    "heads_grid",
    "heatmap",
    "links_plot",
    "long_overview",
    "look_page",
    "picture_page",
    "plain_words",
    "print_words",
    "record_map",
    "record_page",
    "shade",
    "write_gif",
]
