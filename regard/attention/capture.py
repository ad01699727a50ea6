"""Capture: the maps of one pass through a model, without changing what the pass computes.

    with captured(model) as maps: model(source, target)

Every chain of a model is a module that gives back its context and its lazy map. Capture listens to
the chains of this thread while the block runs, and to nothing afterwards; the fast paths stay on.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from regard.attention.chain import Chain
from regard.attention.maps import AttentionMap
from regard.attention.masks import FULL, all_of, given
from regard.places import Places

TAKES = ("query", "key", "value", "mask", "places")
"""What a chain is called with, in order."""


@contextmanager
def captured(model: nn.Module) -> Iterator[dict[str, AttentionMap]]:
    """Collect the map of every chain that runs inside the block, by the chain's place in the model.

    A chain that runs several times leaves its last map. Maps know their values, and what the layer
    around them makes of these.
    """
    maps: dict[str, AttentionMap] = {}
    thread = threading.get_ident()

    def listen(name: str, chain: Chain, *said: Any) -> None:
        # maps of a pass in another thread are not this caller's
        if threading.get_ident() == thread:
            args, named, attended = said
            given_in = {**dict(zip(TAKES, args, strict=False)), **named}
            seen = attended.map
            maps[name] = replace(
                seen, value=_values(chain, given_in), output=_output(model, name, seen)
            )

    handles = [
        part.register_forward_hook(partial(listen, name), with_kwargs=True)
        for name, part in model.named_modules()
        if isinstance(part, Chain)
    ]
    try:
        yield maps
    finally:
        for handle in handles:
            handle.remove()


def _values(chain: Chain, given_in: Mapping[str, Any]) -> Tensor:
    """The values that were weighed: those of the slots where a memory shortened them."""
    key, value, mask = given_in["key"], given_in["value"], given_in.get("mask", FULL)
    if chain.memory is None:
        return value
    mask = given(mask) if isinstance(mask, Tensor) else mask
    places = given_in.get("places") or Places.between(
        given_in["query"].shape[-2], key.shape[-2], device=key.device
    )
    return chain.memory.shorten(key, value, all_of(chain.pattern, mask), places).value


def _output(model: nn.Module, name: str, seen: AttentionMap) -> Tensor | None:
    """The output projection of the heads around a chain, head by head."""
    around = model.get_submodule(name.rpartition(".")[0])
    joins = getattr(around, "W_O", None)
    if not isinstance(joins, nn.Linear):
        return None
    return joins.weight.T.unflatten(0, (seen.shape[-3], -1))
