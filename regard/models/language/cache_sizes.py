"""Cache sizes: how many keys each layer keeps, for a forecast; attention/caches.py has the caches.

every key         n                         it grows with the text
window            at most the size          bounded
blocks            n % size                  bounded, dropped when the block is full
slots of r        1 + n // r + n % r        1 / r of all, for T-DMCA's layers
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

from regard.attention.caches import BoundedPattern
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.choices import Choice
from regard.models.language.spec import LanguageSpec
from regard.models.self_attention import make_links

BYTES = 4
"""Size of a number in single precision."""


class LayerKeys(NamedTuple):
    """How many keys a layer keeps of one row."""

    attends: str
    count: Callable[[int], int]
    """Tokens read so far → keys kept."""

    def most(self, length: int) -> int:
        """The largest count up to `length` tokens: a full block is dropped, so counts may fall."""
        return max(map(self.count, range(length + 1)))


def layer_keys(spec: LanguageSpec) -> list[LayerKeys]:
    """The number of keys that each layer keeps.

    >>> spec = LanguageSpec(n_layers=2, attends=(Choice("blocks"), Choice("memory_compressed")))
    >>> [one.count(1000) for one in layer_keys(spec)], [one.most(1024) for one in layer_keys(spec)]
    ([232, 335], [255, 343])
    """
    ways = [LayerKeys(way.name, _counting(spec, way)) for way in spec.attends]
    return [ways[i % len(ways)] for i in range(spec.n_layers)]


def cache_size_note(spec: LanguageSpec, length: int | None = None) -> str:
    """A sentence for the plan: the most keys that each layer keeps, and their bytes.

    Args:
        spec: the model.
        length: tokens of a row; the longest source and answer unless given.
    """
    length = 2 * spec.max_len if length is None else length
    most = [(layer.attends, layer.most(length)) for layer in layer_keys(spec)]
    groups = spec.attention("decoder").n_groups
    each = 2 * BYTES * groups * spec.dims.d_head / 2**20
    size, whole = each * sum(keys for _, keys in most), each * length * len(most)
    return (
        f"while it writes, a row of {length:,} tokens keeps at most {size:.1f} MiB of keys and "
        f"values ({whole:.1f} if every layer kept all); keys by layer: "
        + ", ".join(f"{attends} {keys:,}" for attends, keys in most)
    )


def _counting(spec: LanguageSpec, way: Choice) -> Callable[[int], int]:
    pattern, memory = make_links(way, spec.dims.head(), is_causal=True)
    if memory is not None:
        stride = cast(MemoryCompressedMemory, memory).stride
        return lambda length: 1 + length // stride + length % stride
    if not isinstance(pattern, BoundedPattern):
        return lambda length: length
    return partial(_seen, pattern)


def _seen(pattern: BoundedPattern, length: int) -> int:
    """The number of keys that a later query may still see."""
    ranges, count, end = pattern.still_seen(length), 0, 0
    if ranges is None:
        return length
    for each in ranges:
        count += max(0, each.stop - max(each.start, end))
        end = max(end, each.stop)
    return count
