"""Capture: the maps of one pass through a model, without changing what the pass computes.

    with captured(model) as maps: model(source, target)

Every chain of a model is a module that gives back its context and its lazy map. Capture listens to
the chains of this thread while the block runs, and to nothing afterwards; the fast paths stay on.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import Attended, AttentionMap, Chain
from regard.models import Transformer
from regard.models.stepping import BOS

STACKS = ("encoder", "decoder")


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


@torch.inference_mode()
def attention_of(
    model: Transformer, source: Sequence[int], target: Sequence[int]
) -> dict[str, tuple[AttentionMap, ...]]:
    """Every map of one answer, by one pass that reads the answer as if it had been given.

    Three kinds, each with a map of shape `1 h q k` for each layer: "encoder" (source looks at
    source), "decoder" (each row at the rows before it; row 0 reads the begin token) and "cross"
    (row i, which predicts target token i, at the source; one more row predicts the end).

    Args:
        model: what wrote the answer.
        source: the tokens read.
        target: the tokens written, without begin and end.
    """
    device = model.output.weight.device
    read, given = (torch.tensor([row], device=device) for row in (list(source), [BOS, *target]))
    was_training = model.training
    model.eval()
    with captured(model) as maps:
        model.hidden(read, given)
    model.train(was_training)
    encoder, decoder = (_by_layer(maps, name, len(getattr(model, name))) for name in STACKS)
    # the last chain of a decoder layer is the one that looks at the source
    return {
        "encoder": tuple(layer[0] for layer in encoder),
        "decoder": tuple(layer[0] for layer in decoder),
        "cross": tuple(layer[-1] for layer in decoder),
    }


def weights_of(maps: Sequence[AttentionMap]) -> Float[Tensor, "layers heads q k"]:
    """The weights of all layers, of the only sentence that there is."""
    return torch.stack([layer.dense()[0] for layer in maps])


def _by_layer(
    maps: Mapping[str, AttentionMap], stack: str, n_layers: int
) -> list[list[AttentionMap]]:
    """Each layer's maps, in the order in which its chains ran."""
    prefixes = [f"{stack}.{i}." for i in range(n_layers)]
    return [[found for name, found in maps.items() if name.startswith(p)] for p in prefixes]
