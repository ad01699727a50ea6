"""How much a language model remembers while it writes: the keys that each layer keeps of a row.

every key         n                         it grows with the text
window            at most the size          bounded
blocks            n % size                  bounded, and forgotten when it is full
slots of r        1 + n // r + n % r        a third, for T-DMCA's compressed layers
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

from regard.attention.caches import BoundedPattern
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.choices import Choice
from regard.models.language.spec import LanguageSpec
from regard.models.self_attention import attending

BYTES = 4
"""Of a number in single precision."""


class Kept(NamedTuple):
    """What one layer keeps of one row."""

    attends: str
    keys: int


def kept(spec: LanguageSpec, length: int) -> tuple[Kept, ...]:
    """What each layer keeps after `length` tokens.

    >>> spec = LanguageSpec(n_layers=2, attends=(Choice("blocks"), Choice("memory_compressed")))
    >>> [one.keys for one in kept(spec, 1000)]
    [232, 335]
    """
    return tuple(Kept(name, count(length)) for name, count in _layers(spec))


def most_kept(spec: LanguageSpec, length: int) -> tuple[Kept, ...]:
    """The most that each layer keeps on the way to `length` tokens: a full block is forgotten.

    >>> spec = LanguageSpec(n_layers=2, attends=(Choice("blocks"), Choice("memory_compressed")))
    >>> [one.keys for one in most_kept(spec, 1024)]
    [255, 343]
    """
    return tuple(
        Kept(name, max(count(n) for n in range(length + 1))) for name, count in _layers(spec)
    )


def remembered(spec: LanguageSpec, length: int | None = None) -> str:
    """The most that is kept, in a sentence, with the bytes it takes.

    Args:
        spec: the model.
        length: tokens of a row; source and answer of the longest unless given.
    """
    length = 2 * spec.max_len if length is None else length
    layers = most_kept(spec, length)
    said = ", ".join(f"{one.attends} {one.keys:,}" for one in layers)
    size, whole = (2 * BYTES * spec.d_model * n for n in (_total(layers), length * len(layers)))
    return (
        f"while it writes, a row of {length:,} tokens keeps at most {size / 2**20:.1f} MiB of keys "
        f"and values ({whole / 2**20:.1f} if every layer kept all); keys by layer: {said}"
    )


def _total(layers: tuple[Kept, ...]) -> int:
    return sum(one.keys for one in layers)


def _layers(spec: LanguageSpec) -> list[tuple[str, Callable[[int], int]]]:
    """How each layer looks, and how many keys it keeps after so many tokens."""
    ways = [(way.name, _counting(spec, way)) for way in spec.attends]
    return [ways[i % len(ways)] for i in range(spec.n_layers)]


def _counting(spec: LanguageSpec, way: Choice) -> Callable[[int], int]:
    pattern, memory = attending(way, spec.dims.head(), is_causal=True)
    if memory is not None:
        stride = cast(MemoryCompressedMemory, memory).stride
        return lambda length: 1 + length // stride + length % stride
    if not isinstance(pattern, BoundedPattern):
        return lambda length: length
    return partial(_seen, pattern)


def _seen(pattern: BoundedPattern, length: int) -> int:
    """Keys in any of the ranges that may still be seen."""
    ranges, count, end = pattern.still_seen(length), 0, 0
    if ranges is None:
        return length
    for each in ranges:
        count += max(0, each.stop - max(each.start, end))
        end = max(end, each.stop)
    return count
