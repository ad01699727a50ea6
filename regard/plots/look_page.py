"""A record as a page in one file: coloured words, heat map, every head, and the numbers.

The script reads nothing but the numbers and names that stand in the page as JSON, and writes names
only as text, so that a token such as `</script>` stays a token.
"""

import json
from dataclasses import asdict
from html import escape
from pathlib import Path

from regard.inspecting.panels import OVERVIEW, View
from regard.inspecting.record import Record
from regard.plots.colours import DARK, LIGHT
from regard.plots.page import page, table
from regard.plots.words import strongest_line

HERE = Path(__file__).parent
ESCAPED = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
"""Signs that could end a script, or a line of one."""
MOST_CELLS = 2_500
"""Up to so many cells the first view's numbers are a table for readers without scripts."""

PARTS = """\
<div id="look" hidden>
<div class="bar">
<label>attention <select id="kind"></select></label>
<label>layer <select id="layer"></select></label>
<label>head <select id="head"></select></label>
<label>show <select id="unit"></select></label>
</div>
<div class="words">
<div class="name"></div><div id="queries" class="line" role="toolbar" dir="auto"></div>
<div class="name"></div><div id="keys" class="line" role="toolbar" dir="auto"></div>
</div>
<p id="readout" aria-live="polite"></p>
<p class="legend"><span>weight 0</span><i id="ramp"></i><span id="legend-top"></span></p>
<figure id="map">
<figcaption><span id="map-title"></span></figcaption>
<p id="cell" aria-live="polite" class="quiet">Point at a cell, or reach the map with Tab.</p>
<div class="scroll"><div class="grid-of-cells">
<div id="axis" class="axis"></div><div id="columns" class="columns" aria-hidden="true"></div>
<div id="rows" class="rows" aria-hidden="true"></div>
<div id="cells" class="cells" role="application" tabindex="0">
<canvas id="canvas" aria-hidden="true"></canvas>
<div id="row-mark" class="cross"></div><div id="column-mark" class="cross"></div></div>
</div></div>
</figure>
<h2>Every head</h2>
<p class="quiet">Layers down, heads across, one colour scale for all.
Choose one to see it above.</p>
<div id="heads" role="group" aria-label="every head"></div>
<details><summary>The numbers as a table</summary>
<div id="table" class="wide" tabindex="0" role="region" aria-label="numbers"></div></details>
</div>"""

NOTE = (
    '<p class="quiet">Attention shows where a model read, not why it answered as it did. Weights '
    "between words are made from those between sub-word pieces: summed over the pieces of a key, "
    "averaged over those of a query.</p>"
)


def look_page(record: Record, view: View = OVERVIEW) -> str:
    """One HTML file that works from disk and asks nothing of the network.

    Args:
        record: what to show; all kinds, layers and heads can be chosen on the page.
        view: what it shows first.
    """
    body = [
        f'<p class="pair"><span>source</span> <b dir="auto">{escape(record.source)}</b></p>',
        f'<p class="pair"><span>target</span> <b dir="auto">{escape(record.target)}</b></p>',
        PARTS,
        f"<noscript>{_without_script(record, view)}</noscript>",
        NOTE,
        f'<p class="quiet">{escape(_mechanisms(record))}</p>',
        f'<script type="application/json" id="record">{_data(record, view)}</script>',
        f"<script>{(HERE / 'look_page.js').read_text(encoding='utf-8')}</script>",
    ]
    style = (HERE / "look_page.css").read_text(encoding="utf-8")
    return page("What the model looked at", body, style=style)


def _data(record: Record, view: View) -> str:
    data = {
        "record": record.as_json(),
        "view": asdict(view),
        "ramps": {"light": LIGHT, "dark": DARK},
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(ESCAPED)


def _mechanisms(record: Record) -> str:
    by_name: dict[str, list[str]] = {}
    for kind, one in record.attention.items():
        by_name.setdefault(one.told, []).append(kind)
    return " · ".join(f"{', '.join(kinds)}: {name}" for name, kinds in by_name.items() if name)


def _without_script(record: Record, view: View) -> str:
    """The first view as plain HTML."""
    panel = record.panel(view)
    said = f"<p>{escape(strongest_line(panel))}</p>"
    if panel.weights.numel() > MOST_CELLS:
        return said
    rows = [
        [name, *(f"{weight:.4f}" for weight in row)]
        for name, row in zip(panel.queries, panel.weights.tolist(), strict=True)
    ]
    return said + table([f"{panel.query_title} ↓", *panel.keys], rows, caption=panel.title)
