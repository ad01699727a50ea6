"""Capture: what any model looked at in a pass, as one record.

    with capture(model) as record:
        model(**inputs)

Chains and torch's own attentions are heard as they are. A model of transformers is attached for the
time of the block, and one that calls `F.scaled_dot_product_attention` itself is heard by a torch
function mode. The fast paths stay on, and no matrix of weights is kept.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from torch import nn

from regard.bridge.attachment import attach
from regard.bridge.interface import CHAIN_NAME
from regard.bridge.layers import Layer, by_hand, check_is_model, layers_of, published
from regard.bridge.products import scaled_dot_products
from regard.inspecting.capture import Listening
from regard.inspecting.capture import capture as capture_chains
from regard.inspecting.record import Record
from regard.inspecting.torch_attention import torch_attention
from regard.models.model import kind_of

HEARD = (
    "regard.capture hears regard's own attentions (Chain, and the heads and models made of it), "
    "torch's nn.MultiheadAttention (alone or inside nn.TransformerEncoderLayer, but no subclass of "
    "these two), models of transformers, and every call of F.scaled_dot_product_attention; it "
    "hears no scripted and no compiled module"
)
REMEDY = (
    "Where a model multiplies, softens and sums by hand, write F.scaled_dot_product_attention("
    "query, key, value) in its place, or a Chain of regard; or make a run of published weights ("
    "regard import) and look at the run."
)


@contextmanager
def capture(
    model: nn.Module, *, names: Sequence[Sequence[str]] = (), example: int = 0
) -> Iterator[Record]:
    """Record every attention that runs inside the block; the record is empty until the block ends.

    Models of transformers have the kinds "encoder", "decoder" and "cross", as ours do; another
    attention has its place in the model without the numbers of layers.

    `names` are the tokens of one or several sequences: a side with as many places gets their names.
    `example` is the sentence of a batch that is looked at. Of an attention that runs several times
    the last run is kept.
    """
    check_is_model("capture", model)
    layers: tuple[Layer, ...] = ()
    with ExitStack() as stack:
        if published(model):
            layers = layers_of(model)
            if any(not hasattr(layer.part, CHAIN_NAME) for layer in layers):
                stack.enter_context(attach(model))
        listening = Listening(
            (torch_attention, scaled_dot_products), partial(_kind, layers), HEARD, REMEDY
        )
        record = stack.enter_context(
            capture_chains(model, names=names, example=example, listening=listening)
        )
        if layers and (others := by_hand(model, layers)):
            note = f"{', '.join(others)} computes its attention by hand, and is not in this record."
            object.__setattr__(record, "note", note)
        yield record


def _kind(layers: Sequence[Layer], place: str) -> str | None:
    """The kind of a layer of transformers, or of a model of ours."""
    of_layer = (layer.kind for layer in layers if place == f"{layer.path}.{CHAIN_NAME}")
    return next(of_layer, kind_of(place))
