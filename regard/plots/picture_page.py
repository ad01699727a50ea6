"""Captioned pictures as a page in one file: choose a word, and see where it looked.

The script reads only the numbers and names that are in the page as JSON, and writes names
only as text. How a map lies over a picture is the table of overlays.py: its colours, its densities
and the matrix that smooths come along as numbers, so that page and figure show the same.
"""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO

import numpy as np

from regard.choices import find
from regard.data.pictures import Picture, pillow
from regard.errors import LengthError, SettingError
from regard.inspecting.caption_record import CaptionRecord, check_numbers
from regard.plots.overlays import DIM, OVERLAYS, Overlay
from regard.plots.page import data_page, table
from regard.plots.scripts import style_sheet
from regard.plots.smooth_maps import spreading

MAX_PIXELS = 800
"""On the longer side of a picture in the page."""
FEW_PIXELS = 128 * 128
"""Up to so many pixels a picture is embedded losslessly."""
MAX_BYTES = 30_000_000
"""The largest file that is written."""
QUALITY = 88
"""Of a photograph, from 0 to 100."""
LEVELS = 256
"""How many densities of an overlay are written, besides that of weight 0."""
DECIMALS = 5
"""Of densities and of what smooths."""
NAMES: Mapping[str, str] = {"cells": "raw cells"}
"""The names of overlays that have another name on the page."""

CONTROLS = """\
<div id="controls" class="bar" role="group" aria-label="how maps are shown" hidden>
<fieldset id="overlays"><legend>map as</legend>{overlays}</fieldset>
<label>brightest <select id="scale">
<option value="word">the word’s largest</option>
<option value="caption">the caption’s largest</option></select></label>
<label>layer <select id="layer"></select></label>
<label>head <select id="head"></select></label>
</div>
<p class="quiet" id="keys" hidden>Point at a word, or reach the words with Tab: the arrow keys walk,
Enter keeps a word, Escape shows the picture alone.</p>
"""

ARTICLE = """\
<article class="picture" aria-labelledby="picture-{number}">
<h2 id="picture-{number}" dir="auto">{name}</h2>
<p class="quiet">{about}</p>{notes}
<div class="sides">
<figure>
<div class="stage" style="--wide:{wide};--high:{high}">
<img src="{source}" alt="{alt}" width="{wide}" height="{high}"><canvas aria-hidden="true"></canvas>
<div class="mark" hidden></div></div>
<figcaption class="title"></figcaption>
<p class="cell quiet" aria-live="polite"></p>
</figure>
<div class="told">
<p class="caption" dir="auto">{caption}</p>
<div class="line" role="toolbar" aria-label="words of the caption" dir="auto" hidden></div>
<div class="now" aria-live="polite" aria-atomic="true" hidden>
<p class="readout"></p><dl class="numbers"></dl></div>
<p class="legend" hidden><span>weight 0</span><i></i><span class="top"></span></p>
<p class="said quiet"></p>{warning}{hidden}
</div>
</div>
<div class="sheet" role="group" aria-label="every word"></div>
<details><summary>The numbers as a table</summary>
<div class="table-of-words wide" tabindex="0" role="region"
aria-label="words of picture {number}">{words}</div>
<div class="table-of-cells wide" tabindex="0" role="region"
aria-label="cells of picture {number}"></div>
</details>
</article>"""

NOTE = (
    '<p class="quiet">Attention shows where a model looked, not why it wrote what it did. β: how '
    "open the gate for the picture was, from 0 to 1, where the model has one. H: the entropy of a "
    "word’s map, in nats; 0 if it looks at one cell. What the model did not see of a picture is "
    "hatched. Of words in several pieces the mean is shown.</p>"
)


def picture_page(
    records: Sequence[CaptionRecord],
    *,
    overlay: str = "heat",
    title: str = "Where each word looked",
) -> str:
    """One HTML file that works from disk and loads nothing from the network.

    Maps lie over the pictures as "heat", "spotlight" or "cells" until the reader chooses.
    """
    find(overlay, OVERLAYS, key="overlay")
    if not records:
        raise SettingError("picture_page: expected at least one record, got none.")
    check_numbers(records)
    body = [
        CONTROLS.format(overlays="".join(_radio(name, overlay) for name in OVERLAYS)),
        *(_article(number, record) for number, record in enumerate(records, 1)),
        NOTE,
        f'<p class="quiet">{escape(_made_by(records))}</p>',
    ]
    data, style = _data(records, overlay), style_sheet("picture_page.css")
    written = data_page(title, body, data, script="picture_page.js", style=style)
    size = len(written.encode())
    if size > MAX_BYTES:
        raise LengthError(
            f"picture_page: the page of {len(records)} pictures would have {size / 1e6:.1f} MB; at "
            f"most {MAX_BYTES / 1e6:g} are written. Take fewer pictures at a time, or draw each "
            "as a sheet (--out x.png)."
        )
    return written


def _article(number: int, record: CaptionRecord) -> str:
    source, wide, high = embedded(record.picture)
    caption = record.caption or "(no words)"
    seen = record.framing.box
    about = (
        f"{record.picture.width} × {record.picture.height} pixels; the model saw "
        f"{seen.left:g} to {seen.right:g} across and {seen.top:g} to {seen.bottom:g} down, in "
        f"{record.grid.rows} × {record.grid.columns} cells."
    )
    names, share = record.hidden
    hidden = f"Not shown: {', '.join(names)}, with {100 * share:.0f} % of all the weight."
    return ARTICLE.format(
        number=number,
        name=escape(_short(record.picture.name)),
        about=escape(about),
        notes="".join(f'<p class="quiet">{escape(note)}</p>' for note in record.picture.notes),
        source=source,
        alt=escape(f"{_short(record.picture.name)}, captioned: {caption}", quote=True),
        wide=wide,
        high=high,
        caption=escape(caption),
        warning=f'<p class="warning">{escape(record.warning)}</p>' if record.warning else "",
        hidden=f'<p class="quiet">{escape(hidden)}</p>' if names else "",
        words=_table(record),
    )


def embedded(picture: Picture) -> tuple[str, int, int]:
    """A picture as a data URL, and the width and height of the embedded pixels."""
    image = pillow()
    share = min(1.0, MAX_PIXELS / max(picture.pixels.shape))
    # there may be fewer pixels than in the original; the stated shape is the original's
    longer = share * max(picture.pixels.shape) / max(picture.width, picture.height)
    wide, high = (max(1, round(side * longer)) for side in (picture.width, picture.height))
    pixels = image.fromarray(picture.pixels)
    if pixels.size != (wide, high):
        pixels = pixels.resize((wide, high), image.Resampling.LANCZOS)
    kind = "PNG" if wide * high <= FEW_PIXELS else "JPEG"
    file = BytesIO()
    pixels.save(file, kind, quality=QUALITY)
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return f"data:image/{kind.lower()};base64,{data}", wide, high


def _table(record: CaptionRecord) -> str:
    """A table of each word's numbers, which can be read without scripts too."""
    head = ["word", "entropy H", "heaviest cell", "its weight"]
    lines = []
    for word, cells, entropy in zip(record.words, record.maps(), record.entropies(), strict=True):
        row, column = divmod(int(cells.argmax()), record.grid.columns)
        place = f"row {row + 1}, column {column + 1}"
        lines.append([word, f"{float(entropy):.4f}", place, f"{float(cells.max()):.4f}"])
    if record.gates is not None:
        head.insert(1, "gate β")
        for line, gate in zip(lines, record.gates, strict=True):
            line.insert(1, f"{gate:.4f}")
    return table(head, lines, caption=record.title())


def _data(records: Sequence[CaptionRecord], overlay: str) -> dict[str, object]:
    sides = {side for record in records for side in record.grid}
    return {
        "records": [record.as_json() for record in records],
        "overlays": {name: _as_json(one) for name, one in OVERLAYS.items()},
        "spreads": {side: spreading(side).round(DECIMALS).tolist() for side in sorted(sides)},
        "overlay": overlay,
    }


def _as_json(overlay: Overlay) -> dict[str, object]:
    """An overlay as numbers; its densities are those of shares from 0 to 1."""
    density = overlay.density(np.linspace(0.0, 1.0, LEVELS + 1)[None])[0]
    return {
        "said": overlay.note,
        "ramp": overlay.ramp,
        "key": overlay.key,
        "density": density.round(DECIMALS).tolist(),
        "is_smooth": overlay.is_smooth,
        "is_grey": overlay.is_grey,
        "bright": DIM if overlay.is_grey else 1.0,
    }


def _radio(name: str, chosen: str) -> str:
    checked = " checked" if name == chosen else ""
    said = NAMES.get(name, name)
    return (
        f'<label><input type="radio" name="overlay" value="{name}"{checked}><span>{said}</span>'
        "</label>"
    )


def _short(name: str) -> str:
    """The last part of an address."""
    return name.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1] or name


def _made_by(records: Sequence[CaptionRecord]) -> str:
    said = dict.fromkeys(
        "; ".join([f"{what} {number}" for what, number in one.versions.items()] + [one.mechanism])
        for one in records
    )
    return " · ".join(filter(None, said))
