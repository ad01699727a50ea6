"""Layers → their portable forms; a layer without one says what to take instead."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import nn

from regard.errors import NotPortable
from regard.layers import DecoderLayer, EncoderLayer, Norm, PostNorm, PreNorm, Residual
from regard.layers.feed_forward import ACTIVATIONS, FeedForward, NoFeedForward
from regard.layers.gated_feed_forward import GatedFeedForward
from regard.models.portable.attentions import attention_form, linear_form
from regard.models.portable.forms import (
    PortableFeedForward,
    PortableLayer,
    PortableLinear,
    PortableNorm,
)

T = TypeVar("T")


def norm_form(norm: Norm) -> PortableNorm:
    """A norm with all its numbers; those that it lacks are ones and zeros."""
    if not norm.is_centred:
        raise NotPortable(
            "its norms are not centred (RMS norm), and other runtimes are given layer norms; take "
            "a kind with layer norms"
        )
    held = norm.gain if norm.gain is not None else norm.bias
    if held is None:
        raise NotPortable("norms without numbers have no width; give them a gain")
    gain = torch.ones_like(held) if norm.gain is None else norm.gain
    bias = torch.zeros_like(held) if norm.bias is None else norm.bias
    return PortableNorm(gain.detach(), bias.detach(), norm.eps)


def activation_name(function: Callable[[torch.Tensor], torch.Tensor]) -> str:
    """The name of an activation in its table."""
    return next(name for name, known in ACTIVATIONS.items() if known == function)


def layer_forms(layers: Iterable[nn.Module], *, is_causal: bool) -> tuple[PortableLayer, ...]:
    """Every layer of a stack."""
    return tuple(
        _form_of(layer, LAYER_FORMS, "model.layer = 'plain'")(layer, is_causal=is_causal)
        for layer in layers
    )


def _own_sublayers(layer: EncoderLayer | DecoderLayer, *, is_causal: bool) -> PortableLayer:
    return PortableLayer(
        attention=attention_form(layer.attention, is_causal=is_causal),
        attention_norm=_norm_of(layer.around_attention),
        feed_forward=_feed_forward(layer.feed_forward, layer.attention.dims.d_model),
        feed_forward_norm=_norm_of(layer.around_feed_forward),
        is_pre_norm=_is_pre_norm(layer.around_attention),
    )


def _decoder_layer(layer: DecoderLayer, *, is_causal: bool) -> PortableLayer:
    return _own_sublayers(layer, is_causal=is_causal)._replace(
        cross=attention_form(layer.cross_attention, is_causal=False),
        cross_norm=_norm_of(layer.around_cross_attention),
    )


def _is_pre_norm(residual: Residual) -> bool:
    return _form_of(residual, NORM_STANDS_BEFORE, "model.norm = 'pre_norm' or 'post_norm'")


def _norm_of(residual: Residual) -> PortableNorm:
    _is_pre_norm(residual)
    return norm_form(residual.norm)


def _feed_forward(part: nn.Module, width: int) -> PortableFeedForward:
    return _form_of(part, FEED_FORWARD_FORMS, "model.feed_forward, without experts")(part, width)


def _plain(part: FeedForward, width: int) -> PortableFeedForward:
    name = activation_name(part.activation)
    return PortableFeedForward(linear_form(part.inner), linear_form(part.outer), name)


def _gated(part: GatedFeedForward, width: int) -> PortableFeedForward:
    name = activation_name(part.activation)
    return PortableFeedForward(
        linear_form(part.W1), linear_form(part.W2), name, linear_form(part.W3)
    )


def _nothing(part: NoFeedForward, width: int) -> PortableFeedForward:
    """One hidden number, which counts for nothing."""
    inner, outer = torch.zeros(1, width), torch.zeros(width, 1)
    return PortableFeedForward(PortableLinear(inner, None), PortableLinear(outer, None), "relu")


def _form_of(part: object, table: Mapping[type, T], wanted: str) -> T:
    if type(part) not in table:
        raise NotPortable(
            f"the model has parts of kind {type(part).__name__}, which other runtimes lack; take "
            f"{wanted}"
        )
    return table[type(part)]


NORM_STANDS_BEFORE: Mapping[type, bool] = {PreNorm: True, PostNorm: False}
FEED_FORWARD_FORMS: Mapping[type, Callable[[Any, int], PortableFeedForward]] = {
    FeedForward: _plain,
    GatedFeedForward: _gated,
    NoFeedForward: _nothing,
}
LAYER_FORMS: Mapping[type, Callable[..., PortableLayer]] = {
    EncoderLayer: _own_sublayers,
    DecoderLayer: _decoder_layer,
}
