"""Capture: the maps of one pass through a model, without changing what the pass computes.

    with captured(model) as maps: model(source, target)

Every chain of a model is a module that gives back its context and its lazy map. Capture listens to
the chains of this thread while the block runs, and to nothing afterwards; the fast paths stay on.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn

from regard.attention.attend import Attended
from regard.attention.chain import Chain
from regard.attention.maps import AttentionMap


@contextmanager
def captured(model: nn.Module) -> Iterator[dict[str, AttentionMap]]:
    """Collect the map of every chain that runs inside the block, by the chain's place in the model.

    A chain that runs several times leaves its last map.
    """
    maps: dict[str, AttentionMap] = {}
    thread = threading.get_ident()

    def listen(name: str, _: nn.Module, __: Any, attended: Attended) -> None:
        if threading.get_ident() == thread:
            maps[name] = attended.map

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
