"""The maps of one answer, by a pass that reads the answer as if it had been given."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import AttentionMap
from regard.attention.capture import captured
from regard.errors import SettingError
from regard.models import Model
from regard.models.stepper import BOS


@torch.inference_mode()
def attention_of(
    model: Model, source: Sequence[int], target: Sequence[int]
) -> dict[str, tuple[AttentionMap, ...]]:
    """Every map of one answer.

    Up to three kinds, each with a map of shape `1 h q k` for each layer: "encoder" (source looks at
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
    try:
        maps = with_values(model, read, given)
    finally:
        model.train(was_training)
    check_looks(maps)
    return maps


def crossing(maps: Mapping[str, tuple[AttentionMap, ...]], who: str) -> tuple[AttentionMap, ...]:
    """Of all maps those in which the words of an answer look at words of a source.

    Args:
        maps: of one pass, by kind.
        who: wants them, for errors.
    """
    check_looks(maps)
    if "cross" not in maps:
        raise SettingError(
            f"{who} looks at {', '.join(maps)}, and at no source apart from its own text, so that "
            "no word answers another. Take a run that translates."
        )
    if any(layer.columns != "keys" for layer in maps["cross"]):
        raise SettingError(
            f"{who} looks at slots of a shortened memory, which are no words. Take a run without "
            "one."
        )
    return maps["cross"]


def check_looks(maps: Mapping[str, tuple[AttentionMap, ...]]) -> None:
    """Refuse the maps of a model that has no attention."""
    if not maps:
        raise SettingError(
            "attention: this model looks at nothing, since one vector holds its whole source "
            "(model.attends = 'none'); there are no weights and no alignments to show. Take a run "
            "whose model has an attention."
        )


def with_values(model: Model, source: Any, target: Tensor) -> dict[str, tuple[AttentionMap, ...]]:
    """The maps of one pass by kind, each with the values that it weighed.

    Args:
        model: any; its mode is not changed.
        source: the tokens read, or the pictures seen.
        target: the tokens written, the begin token first.
    """
    with captured(model) as heard:
        maps = model.maps(source, target)
    # a map is made anew for everybody who asks; it is known by where its queries lie
    by_query = {one.query.data_ptr(): one for one in heard.values()}
    return {
        kind: tuple(_completed(one, by_query.get(one.query.data_ptr())) for one in layers)
        for kind, layers in maps.items()
    }


def _completed(one: AttentionMap, heard: AttentionMap | None) -> AttentionMap:
    if heard is None or one.value is not None:
        return one
    return replace(one, value=heard.value, output=heard.output)


def frozen(one: AttentionMap) -> AttentionMap:
    """The same map with links of its own: what a model learns later does not change it."""
    return replace(
        one,
        score=deepcopy(one.score),
        relation=deepcopy(one.relation),
        select=deepcopy(one.select),
        output=None if one.output is None else one.output.clone(),
    )


def weights_of(maps: Sequence[AttentionMap]) -> Float[Tensor, "layers heads q k"]:
    """The weights of all layers, of the only sentence that there is."""
    return torch.stack([layer.dense()[0] for layer in maps])
