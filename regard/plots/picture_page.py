"""Captioned pictures as a page in one file: choose a word, and see where it looked.

The script reads nothing but the numbers and names that stand in the page as JSON, and writes names
only as text. How a map lies over a picture is the table of overlays.py: its colours, its densities
and the matrix that smooths come along as numbers, so that page and figure show the same.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
from jaxtyping import Float

from regard.choices import find
from regard.data.pictures import Picture, pillow
from regard.errors import LengthError, SettingError
from regard.inspecting.caption_record import CaptionRecord, check_numbers
from regard.plots.look_page import ESCAPED
from regard.plots.overlays import OVERLAYS, Overlay
from regard.plots.page import page, table
from regard.plots.smooth_maps import smooth

HERE = Path(__file__).parent
MOST_PIXELS = 800
"""On the longer side of a picture in the page."""
FEW_PIXELS = 128 * 128
"""Up to so many a picture is kept exactly as it is."""
MOST_BYTES = 30_000_000
"""The largest file that is written."""
QUALITY = 88
"""Of a photograph, from 0 to 100."""
LEVELS = 256
"""How finely the densities of an overlay are written down, beside none."""
DECIMALS = 5
"""Of densities and of what smooths."""
SCRIPTS = ("picture_maps.js", "picture_page.js")
"""In this order."""
NAMES: Mapping[str, str] = {"cells": "raw cells"}
"""Overlays that are called otherwise on the page."""

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
    """One HTML file that works from disk and asks nothing of the network.

    Args:
        records: the captions to show, each with its picture.
        overlay: how maps are shown at first: "heat", "spotlight" or "cells".
        title: stands above them.
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
        f'<script type="application/json" id="records">{_data(records, overlay)}</script>',
        *(f"<script>{(HERE / name).read_text(encoding='utf-8')}</script>" for name in SCRIPTS),
    ]
    style = (HERE / "picture_page.css").read_text(encoding="utf-8")
    written = page(title, body, style=style)
    size = len(written.encode())
    if size > MOST_BYTES:
        raise LengthError(
            f"picture_page: the page of {len(records)} pictures would have {size / 1e6:.1f} MB; at "
            f"most {MOST_BYTES / 1e6:g} are written. Take fewer pictures at a time, or draw each "
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
    """A picture as the address of itself, and its width and height there."""
    image = pillow()
    share = min(1.0, MOST_PIXELS / max(picture.pixels.shape))
    # the pixels may be fewer than the picture has; its shape is the picture's
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
    """What there is to know of each word, for readers without scripts too."""
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


def _data(records: Sequence[CaptionRecord], overlay: str) -> str:
    sides = {side for record in records for side in record.grid}
    data = {
        "records": [record.as_json() for record in records],
        "overlays": {name: _as_json(one) for name, one in OVERLAYS.items()},
        "spreads": {side: spreading(side).round(DECIMALS).tolist() for side in sorted(sides)},
        "overlay": overlay,
    }
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(ESCAPED)


def _as_json(overlay: Overlay) -> dict[str, object]:
    """An overlay as numbers: what it does to shares from 0 to 1, to red, and to a map."""
    shares = np.linspace(0.0, 1.0, LEVELS + 1)[None]
    red, white = (np.array([[colour]], dtype=np.uint8) for colour in ((255, 0, 0), [255] * 3))
    return {
        "said": overlay.said,
        "ramp": overlay.ramp,
        "key": overlay.key,
        "density": overlay.density(shares)[0].round(DECIMALS).tolist(),
        "is_smooth": overlay.shape is smooth,
        "is_grey": bool(np.ptp(overlay.ground(red)) == 0),
        "bright": float(overlay.ground(white).max() / 255),
    }


def spreading(side: int) -> Float[np.ndarray, "fine side"]:
    """The matrix with which `smooth` works along a side of so many cells."""
    return np.stack([smooth(column[:, None])[:, 0] for column in np.eye(side)], axis=-1)


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
