"""The atlas of a long text: tiles of its maps, what each key receives, and its strongest far links.

A tile travels as 256 × 256 numbers, little end first, NaN where the matrix has ended and −1 where a
mask lets nothing through; behind them stand 256 float32: how many keys each row of pixels may see.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from regard.choices import find
from regard.errors import SettingError
from regard.inspecting.record import Record
from regard.inspecting.survey import ANYWHERE, survey
from regard.inspecting.tiles import BLOCK, EXACT, PIXELS, Head, Pause, Pyramid
from regard.serving.lru_cache import Once, name_of_answer
from regard.serving.registry import Registry, SentTile
from regard.serving.turns import Turns, check_asker

TYPES: Mapping[str, str] = {"float16": "<f2", "float32": "<f4"}
"""How the numbers of a tile may be written."""
MASKED = -1.0
BINS = 2048
"""The most bars of a profile."""
ROWS_OF_A_SURVEY = 512
"""About how many queries one pass takes of a long text, unless all are asked for."""
HEAVIEST = 20
"""How many of the keys that receive most are named."""
QUICK = 4 * BLOCK
"""The most weights of a survey that takes no longer than a tile."""
TURNS = Turns()
"""For all that is served here: there is one machine."""


def atlas(record: Record, kind: str, layer: int) -> dict[str, object]:
    """How large the map of one layer is, and how it is cut."""
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
class Asked:
    """Which tile, and how."""

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


def tile(registry: Registry, name: str, asked: Asked) -> SentTile:
    """One tile, computed once; not at all if whoever asked goes before its turn comes."""
    key = name_of_answer(name, asked)
    record = registry.record(name)
    made = registry.tiles.put(key, Once(lambda: _in_turn(record, asked)))
    try:
        return made()
    except BaseException:
        # what was never computed must not push out what was
        registry.tiles.drop(key, made)
        raise


def _in_turn(record: Record, asked: Asked) -> SentTile:
    pyramid = _pyramid(record, asked.kind, asked.layer)
    is_long = not asked.rows and PIXELS * pyramid.scale(asked.zoom) > EXACT
    with TURNS.long() if is_long else TURNS.quick():
        return _computed(pyramid, asked, TURNS.give_way if is_long else check_asker)


def _computed(pyramid: Pyramid, asked: Asked, pause: Pause) -> SentTile:
    made = pyramid.tile(
        head_of(asked.head),
        asked.zoom,
        asked.x,
        asked.y,
        asked.pooling,
        asked.rows or None,
        pause=pause,
    )
    hidden = ~pyramid.visible(asked.zoom, asked.x, asked.y) & ~np.isnan(made.values)
    values = np.where(hidden, MASKED, made.values).astype(find(asked.type, TYPES))
    allowed = pyramid.allowed(asked.zoom, asked.y).astype("<f4")
    return SentTile(
        values.tobytes() + allowed.tobytes(),
        made.lowest,
        made.highest,
        made.rows_used,
        made.is_exact,
        made.is_empty,
    )


def profile(
    record: Record, kind: str, layer: int, head: int, *, far: int, every: int
) -> dict[str, object]:
    """What each key receives, which keys receive most, and the strongest far links.

    Args:
        record: what was looked at.
        kind: "encoder", "decoder" or "cross".
        layer: counted from 0.
        head: counted from 0.
        far: how far apart the ends of a link are, at least one more; where two texts look at each
            other there is no distance, and all links count.
        every: one in so many queries is used; 0 for as many as take no longer than a moment.
    """
    one = find(kind, record.attention)
    pyramid = _pyramid(record, kind, layer)
    used = every or max(1, pyramid.n_queries // ROWS_OF_A_SURVEY)
    special = frozenset(
        place for place, word in enumerate(one.keys.words) if word in one.keys.specials
    )
    apart = far if one.is_self else ANYWHERE
    is_long = pyramid.n_queries // used * pyramid.n_keys > QUICK
    pause = TURNS.give_way if is_long else check_asker
    with TURNS.long() if is_long else TURNS.quick():
        found = survey(
            pyramid.weights,
            head,
            far=apart,
            every=used,
            left_out=special,
            pause=pause,
        )
    bins = min(BINS, pyramid.n_keys)
    edges = np.arange(bins) * pyramid.n_keys // bins
    received = np.add.reduceat(found.received.astype(np.float64), edges)
    heaviest = np.argsort(-found.received, kind="stable")[:HEAVIEST]
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


def head_of(text: str) -> Head:
    """A head's number, or "mean" or "max"."""
    return int(text) if text.isascii() and text.isdigit() else text


def _pyramid(record: Record, kind: str, layer: int) -> Pyramid:
    layers = find(kind, record.attention).layers
    if not 0 <= layer < len(layers):
        raise SettingError(f"atlas: there are {len(layers)} layers, counted from 0; got {layer}.")
    return Pyramid(layers[layer])
