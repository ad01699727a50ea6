"""A record as a page in one file: coloured words, heat map, every head, and the numbers.

The script reads only the numbers and names that are in the page as JSON, and writes names
only as text, so that a token such as `</script>` stays a token.
"""

from dataclasses import asdict
from html import escape

from regard.inspecting.panels import OVERVIEW, View
from regard.inspecting.record import Record, check_is_record
from regard.plots.colours import RAMPS
from regard.plots.page import data_page, table
from regard.plots.scripts import style_sheet
from regard.plots.terminal_words import strongest_line

TITLE = "What the model looked at"
MAX_MAP_CELLS = 2_500
"""Up to so many cells the first view's numbers are a table for readers without scripts."""

NOTE = (
    '<p class="quiet">Attention shows where a model read, not why it answered as it did. Weights '
    "between words are made from those between sub-word pieces: summed over the pieces of a key, "
    "averaged over those of a query.</p>"
)


def look_page(record: Record, view: View = OVERVIEW) -> str:
    """One HTML file that works from disk and loads nothing from the network.

    All kinds, layers and heads can be chosen on the page; it begins with this view.
    """
    check_is_record("look_page", record)
    body = [
        f'<p class="pair"><span>source</span> <b dir="auto">{escape(record.source)}</b></p>',
        f'<p class="pair"><span>target</span> <b dir="auto">{escape(record.target)}</b></p>',
        '<div id="look"></div>',
        f"<noscript>{_without_script(record, view)}</noscript>",
        NOTE,
        f'<p class="quiet">{escape(_mechanisms(record))}</p>',
    ]
    data = {"record": record.as_json(), "view": asdict(view), "ramps": RAMPS}
    style = style_sheet("drawing/parts.css") + style_sheet("look_page.css")
    return data_page(TITLE, body, data, script="look_page.js", style=style)


def _mechanisms(record: Record) -> str:
    by_name: dict[str, list[str]] = {}
    for kind, one in record.attention.items():
        by_name.setdefault(one.description, []).append(kind)
    return " · ".join(f"{', '.join(kinds)}: {name}" for name, kinds in by_name.items() if name)


def _without_script(record: Record, view: View) -> str:
    """The first view as plain HTML."""
    panel = record.panel(view)
    said = f"<p>{escape(strongest_line(panel))}</p>"
    if panel.weights.numel() > MAX_MAP_CELLS:
        return said
    rows = [
        [name, *(f"{weight:.4f}" for weight in row)]
        for name, row in zip(panel.queries, panel.weights.tolist(), strict=True)
    ]
    return said + table([f"{panel.query_title} ↓", *panel.keys], rows, caption=panel.title)
