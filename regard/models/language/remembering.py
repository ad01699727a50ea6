"""How much a language model remembers while it writes: the keys that each layer keeps of a row.

every key         n                         it grows with the text
window, blocks    at most the size          bounded
slots of r        1 + n // r + n % r        a third, for T-DMCA's compressed layers
"""

from typing import NamedTuple, cast

from regard.attention.caches import Forgets
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.choices import Choice
from regard.models.attending import attending
from regard.models.language.spec import LanguageSpec

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
    ways = [spec.attends[i % len(spec.attends)] for i in range(spec.n_layers)]
    return tuple(Kept(way.name, _keys(spec, way, length)) for way in ways)


def remembered(spec: LanguageSpec, length: int | None = None) -> str:
    """The same in a sentence, with the bytes it takes.

    Args:
        spec: the model.
        length: tokens of a row; source and answer of the longest unless given.
    """
    length = 2 * spec.max_len if length is None else length
    layers = kept(spec, length)
    said = ", ".join(f"{one.attends} {one.keys:,}" for one in layers)
    size, whole = (2 * BYTES * spec.d_model * n for n in (_total(layers), length * len(layers)))
    return (
        f"while it writes, a row of {length:,} tokens keeps {size / 2**20:.1f} MiB of keys and "
        f"values ({whole / 2**20:.1f} if every layer kept all); keys by layer: {said}"
    )


def _total(layers: tuple[Kept, ...]) -> int:
    return sum(one.keys for one in layers)


def _keys(spec: LanguageSpec, way: Choice, length: int) -> int:
    pattern, memory = attending(way, spec.dims.head(), is_causal=True)
    if memory is not None:
        stride = cast(MemoryCompressedMemory, memory).stride
        return 1 + length // stride + length % stride
    seen = pattern.still_seen(length) if isinstance(pattern, Forgets) else None
    if seen is None:
        return length
    return len({place for each in seen for place in each})
