"""Converts models that Marian's layout can hold to Marian's architecture.

A Transformer of ours differs from Marian's in ways that change no probability: its projections add
nothing where Marian adds a bias, so the bias is 0; its logits have no bias, so that is 0 too, and
very low for padding and begin, which are never written; and its position channels are sine and
cosine in turn, where Marian has all sines first, so that all channels of the model change places
together.

Marian has no begin token: it begins to write from a vector of zeros. Where our begin token has a
vector b, that vector is taken from every row of the table and given back behind it:

    E'[w] = E[w] - b                     so that E'[begin] = 0
    c' = c + W sqrt(m) b                 in the first layers' queries, keys and values
    c' = c + sqrt(m) b                   in what their attention adds to the residual
    h E'[w] = h E[w] - h b               the same for all w: no probability changes
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from regard.choices import Choice
from regard.data.subword_kinds import BOS, PAD
from regard.errors import NotPortable, SettingError
from regard.layers.feed_forward import ACTIVATIONS
from regard.models import MarianSpec, Spec, TransformerSpec, shapes_of
from regard.models.attention_spec import ATTENTION_KINDS
from regard.models.self_attention import FULL_CHOICE

PROJECTIONS = ("W_Q", "W_K", "W_V")
"""Projections from the model's channels to those of heads."""
TABLE = "source.E.weight"
FIRST_ATTENTIONS = ("encoder.0.attention", "decoder.0.attention")
"""Attentions that read the token vectors."""
NEVER_WRITTEN_BIAS = -1e4
"""The bias of a piece that is never written; float16 can hold it."""


NEEDED: Mapping[str, Sequence[Any]] = {
    "norm": ("post_norm",),
    "layer": ("plain",),
    "feed_forward": tuple(ACTIVATIONS),
    "tied": ("all",),
    "positions": ("sinusoidal",),
    "score": ("scaled_dot",),
    "select": ("soft",),
    "relation": (None,),
    "is_centred": (True,),
    "norm_eps": (MarianSpec.norm_eps,),
    "feed_forward_has_bias": (True,),
    "n_groups": (None,),
    **dict.fromkeys(ATTENTION_KINDS, (None,)),
}
"""The choices that a Transformer must have."""


def as_marian(spec: Spec, tensors: Mapping[str, Tensor]) -> tuple[MarianSpec, dict[str, Tensor]]:
    """A model of a kind of `AS_MARIAN` as Marian's, whose begin token has a vector of zeros."""
    if spec.kind not in AS_MARIAN:
        raise NotPortable(
            f"Marian's layout has no place for the norms and positions of kind '{spec.kind}'; take "
            "the folder that the run was imported from"
        )
    marian, own = AS_MARIAN[spec.kind](spec, tensors)
    table = own[TABLE].double()
    begin = table[BOS, :-1].clone()
    table[:, :-1] -= begin
    made = {TABLE: table}
    begin *= marian.d_model**0.5 if marian.is_scaled else 1.0
    for attention in FIRST_ATTENTIONS:
        for name in PROJECTIONS:
            bias, weight = (own[f"{attention}.{name}.{part}"] for part in ("bias", "weight"))
            made[f"{attention}.{name}.bias"] = bias + weight.double() @ begin
        made[f"{attention}.W_O.bias"] = own[f"{attention}.W_O.bias"] + begin
    return marian, {**own, **{name: tensor.float() for name, tensor in made.items()}}


def _marian(
    spec: MarianSpec, tensors: Mapping[str, Tensor]
) -> tuple[MarianSpec, dict[str, Tensor]]:
    """The same model; what is written has one table for all."""
    _check("is_shared", spec.is_shared, (True,))
    return spec, dict(tensors)


def _transformer(
    spec: TransformerSpec, tensors: Mapping[str, Tensor]
) -> tuple[MarianSpec, dict[str, Tensor]]:
    """With biases of 0, and its channels in Marian's order."""
    for name, able in NEEDED.items():
        held = getattr(spec, name)
        _check(name, _spelt(held) if isinstance(held, Choice) else held, able)
    other_ways = [_spelt(way) for way in spec.encoder_attends if way != FULL_CHOICE]
    _check("encoder_attends", other_ways or [FULL_CHOICE.name], ([FULL_CHOICE.name],))
    names = {each.name for each in fields(MarianSpec)} - {"kind", "task", "is_shared"}
    sizes: dict[str, Any] = {name: getattr(spec, name) for name in names}
    as_marian = MarianSpec(**sizes)
    size = len(tensors[TABLE])
    shapes = shapes_of(as_marian, n_source_tokens=size, n_target_tokens=size)
    sines_first = [*range(0, spec.d_model, 2), *range(1, spec.d_model, 2)]
    made = {
        name: _moved(name, tensors[name], sines_first) if name in tensors else torch.zeros(shape)
        for name, shape in shapes.items()
    }
    strange = sorted(tensors.keys() - made.keys())
    if strange or any(made[name].shape != shape for name, shape in shapes.items()):
        raise SettingError(
            f"export: Marian's layout has no place for {strange[:3] or 'these shapes'}. Such "
            "models cannot be exported."
        )
    return as_marian, made


def _moved(name: str, tensor: Tensor, order: Sequence[int]) -> Tensor:
    """One tensor with the model's channels in another order."""
    part = name.split(".")[-2]
    if name == TABLE:
        bias = tensor.new_zeros(len(tensor), 1)
        bias[[PAD, BOS]] = NEVER_WRITTEN_BIAS
        return torch.cat([tensor[:, order], bias], 1)
    if part in PROJECTIONS or name.endswith("inner.weight"):
        return tensor[:, order]
    # norms, and what is added to the model's channels; the inner bias is not of them
    return tensor if part == "inner" else tensor[order]


def _spelt(choice: Choice) -> str:
    """A choice with all its settings, so that settings that change numbers are compared, too."""
    settings = ",".join(f"{key}={value}" for key, value in choice.settings.items())
    return f"{choice.name}:{settings}" if settings else choice.name


def _check(name: str, value: Any, able: Sequence[Any]) -> None:
    if value not in able:
        said = " or ".join(repr(one) for one in able)
        raise SettingError(
            f"export: Marian's layout needs model.{name} = {said}, got {value!r}. Such models "
            "cannot be exported."
        )


AS_MARIAN: Mapping[str, Callable[..., tuple[MarianSpec, dict[str, Tensor]]]] = {
    "marian": _marian,
    "transformer": _transformer,
}
"""By the kind of a run's model."""
