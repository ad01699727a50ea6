"""The atlas of a long text: tiles of its maps, what each key receives, and its strongest far links.

A tile is sent as 256 × 256 little-endian numbers, NaN outside the matrix and −1 where everything is
masked, followed by 256 float32: how many keys each row of pixels may see.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import final

import numpy as np

from regard.choices import find
from regard.errors import SettingError
from regard.inspecting.map_summary import ANYWHERE, summarise_map
from regard.inspecting.record import Record
from regard.inspecting.tiles import BLOCK, MAX_EXACT_CELLS, PIXELS, Pyramid
from regard.serving.lru_cache import name_of_answer
from regard.serving.registry import Registry, Tile
from regard.serving.request_limits import ComputeLimits, check_client

TYPES: Mapping[str, str] = {"float16": "<f2", "float32": "<f4"}
"""How the numbers of a tile may be written."""
MASKED = -1.0
MAX_BINS = 2048
SURVEY_ROWS = 512
"""About how many queries one pass takes of a long text, unless all are requested."""
N_HEAVIEST = 20
"""How many of the keys that receive most are named."""
MAX_QUICK_WEIGHTS = 4 * BLOCK
"""The most weights of a summary that counts as quick work, as a tile does."""
COMPUTE_LIMITS = ComputeLimits()
"""Shared by all requests, since they compute on the same machine."""


def _slot(*, is_long: bool) -> tuple[AbstractContextManager[None], Callable[[], None]]:
    """A context for work within the limits, and what the work calls now and then."""
    if is_long:
        return COMPUTE_LIMITS.long(), COMPUTE_LIMITS.give_way
    return COMPUTE_LIMITS.quick(), check_client


def atlas(record: Record, kind: str, layer: int) -> dict[str, object]:
    """The size of one layer's map, and how it is cut into tiles."""
    pyramid = _pyramid(record, kind, layer)
    one = record.attention[kind]
    return {
        "n_queries": pyramid.n_queries,
        "n_keys": pyramid.n_keys,
        "n_heads": pyramid.n_heads,
        "n_layers": len(one.layers),
        "max_zoom": pyramid.max_zoom,
        "row_zoom": pyramid.row_zoom,
        "pixels": PIXELS,
        "mechanism": one.mechanism,
        "query_title": one.query_title,
        "key_title": one.key_title,
    }


@final
@dataclass(frozen=True)
class TileRequest:
    """The tile of a record that is requested, and its pooling and number type."""

    kind: str
    layer: int
    head: str
    zoom: int
    x: int
    y: int
    pooling: str = "max"
    rows: int = 4
    """Queries of each pixel where there are many; 0 for all of them."""
    type: str = "float16"


def tile(registry: Registry, name: str, request: TileRequest) -> Tile:
    """One tile as bytes, and its headers; a fully masked tile has no bytes.

    It is computed once, and not at all if the client disconnects before it starts.
    """
    record = registry.record(name)
    return registry.tiles.computed(
        name_of_answer(name, request), lambda: _computed(record, request)
    )


def _computed(record: Record, request: TileRequest) -> Tile:
    pyramid, place = _pyramid(record, request.kind, request.layer), (request.x, request.y)
    # the head is a number, "mean" or "max"
    is_number = request.head.isascii() and request.head.isdigit()
    head = int(request.head) if is_number else request.head
    is_long = not request.rows and PIXELS * pyramid.scale(request.zoom) > MAX_EXACT_CELLS
    slot, pause = _slot(is_long=is_long)
    with slot:
        made = pyramid.tile(
            head, request.zoom, *place, request.pooling, request.rows or None, pause=pause
        )
        hidden = ~pyramid.visible(request.zoom, *place) & ~np.isnan(made.values)
        values = np.where(hidden, MASKED, made.values).astype(find(request.type, TYPES))
        allowed = pyramid.allowed(request.zoom, request.y).astype("<f4")
    headers = {
        "X-Min": repr(made.lowest),
        "X-Max": repr(made.highest),
        "X-Rows-Sampled": str(made.rows_used),
        "X-Exact": str(made.is_exact).lower(),
    }
    return b"" if made.is_empty else values.tobytes() + allowed.tobytes(), headers


def profile(
    record: Record, kind: str, layer: int, head: int, *, far: int, every: int
) -> dict[str, object]:
    """What each key receives, which keys receive most, and the strongest far links.

    The ends of a link are more than `far` apart; between two texts there is no distance, and all
    links count. One in `every` queries is used; with 0, as many as take a moment.
    """
    one = find(kind, record.attention)
    pyramid = _pyramid(record, kind, layer)
    used = every or max(1, pyramid.n_queries // SURVEY_ROWS)
    apart = far if one.is_self else ANYWHERE
    is_long = pyramid.n_queries // used * pyramid.n_keys > MAX_QUICK_WEIGHTS
    hidden = one.keys.special_pieces
    slot, pause = _slot(is_long=is_long)
    with slot:
        found = summarise_map(
            pyramid.weights, head, far=apart, every=used, left_out=hidden, pause=pause
        )
    bins = min(MAX_BINS, pyramid.n_keys)
    edges = np.arange(bins) * pyramid.n_keys // bins
    received = np.add.reduceat(found.received.astype(np.float64), edges)
    heaviest = np.argsort(-found.received, kind="stable")[:N_HEAVIEST]
    return {
        "received": received.round(7).tolist(),
        "heaviest": [[int(key), round(float(found.received[key]), 7)] for key in heaviest],
        "links": [[link.query, link.key, round(link.weight, 7)] for link in found.links],
        "far": found.far,
        "every": used,
        "rows_used": len(found.rows),
        "n_queries": pyramid.n_queries,
        "is_exact": found.is_exact,
    }


def _pyramid(record: Record, kind: str, layer: int) -> Pyramid:
    layers = find(kind, record.attention).layers
    if not 0 <= layer < len(layers):
        raise SettingError(f"atlas: there are {len(layers)} layers, counted from 0; got {layer}.")
    return Pyramid(layers[layer])
