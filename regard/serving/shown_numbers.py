"""Numbers that follow from a record: weights at a temperature, lengths, rollout, flow."""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import AttentionMap
from regard.errors import SettingError
from regard.inspecting.lazy_map import Later
from regard.inspecting.record import Record, Weights
from regard.inspecting.rollout import answer_rollout, flow, rollout

ALL = slice(None)


@final
@dataclass(frozen=True)
class Wish:
    """What may be set."""

    temperature: float | int = 1.0
    residual: float | int = 0.5

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise SettingError(
                f"weights: the temperature must be above 0, got {self.temperature}. Take 1 for "
                "the model's own."
            )


def map_of(layer: Weights) -> AttentionMap | None:
    """The map with its queries and keys; None where only weights were kept."""
    lazy = layer.map if isinstance(layer, Later) else layer
    return lazy if isinstance(lazy, AttentionMap) else None


def _tempered(layer: Weights, temperature: float | int) -> Float[Tensor, "h q k"]:
    """The weights that scores divided by a temperature would have."""
    if temperature == 1:
        return layer.tile(ALL, ALL)[0].float().cpu()
    seen = map_of(layer)
    if seen is None:
        raise SettingError(
            "weights: this record holds weights alone; a temperature needs the scores. Look at the "
            "text again, or take temperature 1."
        )
    with torch.inference_mode():
        precision = seen.precision or seen.query.dtype
        query, key = seen.query.to(precision), seen.key.to(precision)
        visible = seen.mask.visible(seen.places)
        scores = seen.score(query, key, seen.places) + seen.relation.to_scores(query, seen.places)
        rows = seen.select.summarise(scores / temperature, visible, query, seen.places)
        weights = seen.select.weigh(scores / temperature, visible, rows, seen.places)
    return weights[layer.example if isinstance(layer, Later) else 0].float().cpu()


def weights(record: Record, kind: str, wish: Wish) -> Float[Tensor, "layers heads q k"]:
    """The weights of every head, at a temperature."""
    layers = record.attention[kind].layers
    return torch.stack([_tempered(layer, wish.temperature) for layer in layers])


def arriving(record: Record, kind: str, wish: Wish) -> Float[Tensor, "layers heads q k"]:
    """Weights times the lengths of the values that they weigh."""
    one = record.attention[kind]
    norms = [
        torch.stack([record.value_norms(kind, layer, head) for head in range(one.n_heads)])
        for layer in range(len(one.layers))
    ]
    return weights(record, kind, wish) * torch.stack(norms).unsqueeze(-2)


def rolled_out(record: Record, kind: str, wish: Wish) -> Float[Tensor, "1 1 q k"]:
    """What is left of each input after all layers."""
    return rollout(record, kind, residual=float(wish.residual))[None, None]


def flows(record: Record, kind: str, wish: Wish) -> Float[Tensor, "1 1 q k"]:
    """The largest flow from every output to every input."""
    queries = range(len(record.attention[kind].queries))
    found = [flow(record, kind, query, residual=float(wish.residual)) for query in queries]
    return torch.stack(found)[None, None]


def from_source(record: Record, kind: str, wish: Wish) -> Float[Tensor, "1 1 q k"]:
    """What each output takes from each word of the source."""
    return answer_rollout(record, residual=float(wish.residual)).source[None, None]
