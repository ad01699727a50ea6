"""Capture: the maps of one pass through a model, without changing what the pass computes.

    with captured(model) as maps: model(source, target)

Every chain of a model is a module that returns its context and its lazy map. Capture hooks the
chains in this thread until the block ends; the fast paths stay on.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from regard.attention.attend import Attended
from regard.attention.chain import Chain
from regard.attention.maps import AttentionMap

OUTPUT_NAMES = ("W_O", "o_proj", "out_proj", "out_lin", "o")
"""The names of the output projection beside a chain: ours, and those of other libraries."""


@contextmanager
def captured(model: nn.Module) -> Iterator[dict[str, AttentionMap]]:
    """Collect the map of every chain that runs inside the block, by the chain's path in the model.

    For a chain that runs several times the last map is kept. Maps hold their values and the output
    projection of the layer around them.
    """
    maps: dict[str, AttentionMap] = {}
    thread = threading.get_ident()

    def listen(name: str, chain: nn.Module, args: Any, attended: Attended) -> None:
        # another thread's pass may belong to another caller
        if threading.get_ident() == thread:
            seen = attended.map
            output = _output(model, name, seen.shape[-3])
            maps[name] = replace(seen, value=attended.value, output=output)

    handles = [
        part.register_forward_hook(partial(listen, name))
        for name, part in model.named_modules()
        if isinstance(part, Chain)
    ]
    try:
        yield maps
    finally:
        for handle in handles:
            handle.remove()


def _output(model: nn.Module, name: str, n_heads: int) -> Tensor | None:
    """The output projection of the heads around a chain, head by head."""
    around = model.get_submodule(name.rpartition(".")[0])
    parts = (getattr(around, name, None) for name in OUTPUT_NAMES)
    joins = next((part for part in parts if isinstance(part, nn.Linear)), None)
    return None if joins is None else joins.weight.T.unflatten(0, (n_heads, -1))
