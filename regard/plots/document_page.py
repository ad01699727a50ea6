"""A document of any length as a page in one file: its map from above, and its strongest links.

A text of 16,000 pieces has 256 million weights a head, more than a file can hold; the page holds
what can be seen of them at once. Every pixel is the heaviest of the cells beneath it, as `Pyramid`
gives it, in single precision: one picture of 256 × 256 for each head, and a finer one of the chosen
head. Each holds the number of keys that its rows may see, and −1 where everything is masked. The
strongest far links are listed with their exact weights and their words.
"""

import base64
from collections.abc import Iterator
from dataclasses import asdict
from html import escape

import numpy as np
from jaxtyping import Float

from regard.choices import find
from regard.errors import LengthError
from regard.inspecting.map_summary import ANYWHERE, MapSummary, summarise_map
from regard.inspecting.panels import OVERVIEW, View
from regard.inspecting.record import MAX_JSON_WEIGHTS, Attention, Record
from regard.inspecting.tiles import Pyramid
from regard.plots.colours import RAMPS
from regard.plots.look_page import NOTE, TITLE, look_page
from regard.plots.page import data_page, table
from regard.plots.scripts import style_sheet

MAX_BYTES = 30_000_000
"""The largest file that is written."""
FINE = 2
"""The finer picture's zoom: 1,024 × 1,024."""
ROWS = 4
"""Queries of each pixel that are looked at where a picture is of more than 4,096 cells a side."""
FAR = 64
"""How far apart the ends of a far link are."""
SURVEYED = 1024
"""About how many queries are looked at for far links and for what keys receive."""
MASKED = -1.0
"""The value of a masked pixel, in place of a weight."""
AROUND = 12
"""Pieces of text on either side of a link's end."""


def record_page(record: Record, view: View = OVERVIEW) -> str:
    """The page of a record: with every weight where they fit, else as a document from above."""
    is_small = record.n_weights <= MAX_JSON_WEIGHTS
    return look_page(record, view) if is_small else document_page(record, view)


def document_page(record: Record, view: View = OVERVIEW) -> str:
    """One HTML file of a long document; it loads nothing from the network.

    The layer and head of the view are shown finely; None means the first. If the view has a layer,
    only its heads are shown.
    """
    one = find(view.kind, record.attention)
    seen = _summary(one, view)
    data = {
        "pictures": list(_pictures(one, view)),
        "queries": [one.query_title, len(one.queries)],
        "keys": [one.key_title, len(one.keys)],
        "pieces": {"query": list(one.queries.pieces), "key": list(one.keys.pieces)},
        "view": asdict(view),
        "ramps": RAMPS,
    }
    body = [
        f'<p class="quiet">{escape(_what(record, view))}</p>',
        '<div id="look"></div>',
        f"<h2>Strongest {'far ' if one.is_self else ''}links</h2>",
        f'<p class="quiet">{escape(_how(seen, one, view))}</p>',
        _links(one, seen),
        NOTE.split(" Weights between")[0] + "</p>",
    ]
    style = style_sheet("drawing/parts.css") + style_sheet("document_page.css")
    written = data_page(TITLE, body, data, script="document_page.js", style=style)
    size = len(written.encode())
    if size > MAX_BYTES:
        raise LengthError(
            f"look: the page would have {size / 1e6:.0f} MB; at most {MAX_BYTES / 1e6:.0f} are "
            "written. Look at one layer (--layer), draw a picture (--out x.png), or look at it "
            "live: regard serve RUN."
        )
    return written


def _pictures(one: Attention, view: View) -> Iterator[dict[str, object]]:
    """The finer picture of the chosen head, then every head of every layer, or of one layer."""
    layer, head = view.layer or 0, view.head or 0
    fine = min(FINE, Pyramid(one.layers[layer]).max_zoom)
    yield _picture(one, layer, head, fine)
    for number in range(len(one.layers)) if view.layer is None else [view.layer]:
        for each in range(one.n_heads):
            yield _picture(one, number, each, 0)


def _picture(one: Attention, layer: int, head: int, zoom: int) -> dict[str, object]:
    pyramid = Pyramid(one.layers[layer])
    scale, (down, across) = (pyramid.height(zoom), pyramid.scale(zoom)), pyramid.counts(zoom)
    places = [[(zoom, x, y) for x in range(across)] for y in range(down)]
    tiles = [[pyramid.tile(head, *place, "max", ROWS) for place in row] for row in places]
    values = np.block([[tile.values for tile in row] for row in tiles])
    seen = np.block([[pyramid.visible(*place) for place in row] for row in places])
    allowed = np.concatenate([pyramid.allowed(zoom, y, rows=None) for y in range(down)])
    shape = -(-pyramid.n_queries // scale[0]), -(-pyramid.n_keys // scale[1])
    every = [tile for row in tiles for tile in row]
    return {
        "name": f"layer {layer + 1}, head {head + 1}{', finer' if zoom else ''}",
        "scale": scale,
        "shape": shape,
        "rows": max(tile.rows_used for tile in every),
        "is_exact": all(tile.is_exact for tile in every),
        "numbers": _packed(np.where(seen, values, MASKED)[: shape[0], : shape[1]]),
        "allowed": _packed(allowed[: shape[0]]),
    }


def _packed(numbers: Float[np.ndarray, "..."]) -> str:
    """Little-endian float32 numbers, encoded as text."""
    return base64.b64encode(np.ascontiguousarray(numbers, dtype="<f4").tobytes()).decode()


def _summary(one: Attention, view: View) -> MapSummary:
    every = max(1, len(one.queries) // SURVEYED)
    far, hidden = FAR if one.is_self else ANYWHERE, one.keys.special_pieces
    return summarise_map(
        one.layers[view.layer or 0], view.head or 0, far=far, count=20, every=every, left_out=hidden
    )


def _links(one: Attention, seen: MapSummary) -> str:
    rows = [
        [
            f"{link.weight:.4f}",
            f"{link.query + 1:,}",
            _around(one.queries.pieces, link.query),
            f"{link.key + 1:,}",
            _around(one.keys.pieces, link.key),
        ]
        for link in seen.links
    ]
    head = ("weight", "query", "its text", "key", "its text")
    return table(head, rows, caption="Heaviest first")


def _around(pieces: tuple[str, ...], place: int) -> str:
    before, after = pieces[max(0, place - AROUND) : place], pieces[place + 1 : place + 1 + AROUND]
    return f"{''.join(before)}⟦{pieces[place]}⟧{''.join(after)}".replace("▁", " ")


def _what(record: Record, view: View) -> str:
    one = record.attention[view.kind]
    return (
        f"{view.kind} attention of {len(one.queries):,} queries and {len(one.keys):,} keys, "
        f"{_count(len(one.layers), 'layer')} of {_count(one.n_heads, 'head')}; {one.description}. "
        "Every pixel is the heaviest of the cells beneath it, and grey is masked. Lift is weight "
        "times the number of keys that the pixel's queries may see, on average: 1 is a query that "
        "looks everywhere alike."
    )


def _how(seen: MapSummary, one: Attention, view: View) -> str:
    every = len(one.queries)
    which = "every query" if seen.is_exact else f"{len(seen.rows):,} of {every:,} queries"
    where = f" between places more than {seen.far} apart" if one.is_self else ""
    return (
        f"Layer {(view.layer or 0) + 1}, head {(view.head or 0) + 1}: links{where}, found among "
        f"{which}; their weights are exact. Special tokens are left out."
    )


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
