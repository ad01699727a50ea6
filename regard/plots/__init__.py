"""numbers → picture: in the terminal, as a page, or as a figure (extra `plots`)."""

from regard.plots.curves import curves
from regard.plots.heads_grid import heads_grid
from regard.plots.heatmap import heatmap, record_map
from regard.plots.look_page import look_page
from regard.plots.picture_page import picture_page
from regard.plots.pictures import caption_sheet
from regard.plots.terminal import shade
from regard.plots.words import coloured_words, plain_words, print_words

__all__ = [
    "caption_sheet",
    "coloured_words",
    "curves",
    "heads_grid",
    "heatmap",
    "look_page",
    "picture_page",
    "plain_words",
    "print_words",
    "record_map",
    "shade",
]
