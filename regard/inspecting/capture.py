"""The maps of one answer, by a pass that reads the answer as if it had been given."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import AttentionMap
from regard.errors import SettingError
from regard.models import Model
from regard.models.stepping import BOS


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
    maps = model.maps(read, given)
    model.train(was_training)
    if not maps:
        raise SettingError(
            "attention: this model looks at nothing, since one vector holds its whole source "
            "(model.attends = 'none'); there are no weights and no alignments to show. Take a run "
            "whose model has an attention."
        )
    return maps


def weights_of(maps: Sequence[AttentionMap]) -> Float[Tensor, "layers heads q k"]:
    """The weights of all layers, of the only sentence that there is."""
    return torch.stack([layer.dense()[0] for layer in maps])
