"""Model specifications: a portable model as an object of `ctranslate2.specs`.

    encoder and decoder    TransformerSpec              Translator
    decoder                TransformerDecoderModelSpec  Generator
    encoder                TransformerEncoderModelSpec  Encoder

CTranslate2 adds positions from a table, and has one eps for all norms. What it cannot hold is
refused with the reason.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.errors import MissingExtra, NotPortable
from regard.interop.ctranslate2.relations import (
    check_positions,
    has_bias,
    has_vectors,
    is_alibi,
    own_copy,
    set_relation,
)
from regard.models.portable import (
    PortableAttention,
    PortableFeedForward,
    PortableLayer,
    PortableLinear,
    PortableModel,
    PortableNorm,
    PortableStack,
)

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_tanh": "GELUTanh", "swish": "SWISH"}
"""What `ctranslate2.specs.Activation` calls an activation of ours."""


def library() -> Any:
    """The package ctranslate2."""
    try:
        import ctranslate2
    except ModuleNotFoundError as missing:
        raise MissingExtra(
            "ctranslate2 is not installed. Run pip install 'regard[ctranslate2]'."
        ) from missing
    return ctranslate2


def model_spec(model: PortableModel) -> Any:
    """The specification with copies of all weights; `NotPortable` if CTranslate2 cannot hold it."""
    for stack in model.stacks:
        _check(stack)
        check_positions(stack, is_alone=model.encoder is None)
    specs = library().specs
    if model.decoder is None:
        assert model.encoder is not None
        spec = specs.TransformerEncoderModelSpec(_encoder(specs, model.encoder))
    elif model.encoder is None:
        spec = specs.TransformerDecoderModelSpec(_decoder(specs, model.decoder, model.output))
    else:
        spec = specs.TransformerSpec(
            _encoder(specs, model.encoder), _decoder(specs, model.decoder, model.output)
        )
    (epsilon,) = {norm.eps for stack in model.stacks for norm in _norms(stack)}
    spec.config.layer_norm_epsilon = epsilon
    return spec


def _norms(stack: PortableStack) -> list[PortableNorm]:
    every = [stack.norm, stack.last_norm]
    for layer in stack.layers:
        every += [layer.attention_norm, layer.cross_norm, layer.feed_forward_norm]
    return [norm for norm in every if norm is not None]


def _check(stack: PortableStack) -> None:
    """Refuse stacks whose layers differ where CTranslate2 has one setting for all."""
    kinds = {(one.is_pre_norm, one.feed_forward.activation) for one in stack.layers}
    kinds_of_gates = {one.feed_forward.gate is None for one in stack.layers}
    attentions = [each for one in stack.layers for each in (one.attention, one.cross) if each]
    heads = {each.n_heads for each in attentions}
    eps = {norm.eps for norm in _norms(stack)}
    if any(len(one) > 1 for one in (kinds, kinds_of_gates, heads, eps)):
        raise NotPortable("all layers must be of one kind, with one number of heads")
    if (stack.last_norm is not None) != stack.layers[0].is_pre_norm:
        raise NotPortable(
            "CTranslate2 has a norm behind the last layer exactly where norms stand before the "
            "sublayers; take model.norm = 'pre_norm' or 'post_norm'"
        )


def _encoder(specs: Any, stack: PortableStack) -> Any:
    first = stack.layers[0]
    has_segments = stack.segments is not None
    spec = specs.TransformerEncoderSpec(
        len(stack.layers),
        first.attention.n_heads,
        pre_norm=first.is_pre_norm,
        activation=_activation(specs, first.feed_forward),
        num_source_embeddings=1 + has_segments,
        embeddings_merge=specs.common_spec.EmbeddingsMerge.ADD,
        layernorm_embedding=stack.norm is not None,
        relative_position=has_vectors(first.attention),
        relative_attention_bias=has_bias(first.attention),
        ffn_glu=first.feed_forward.gate is not None,
        rotary_dim=0 if first.attention.is_rotary else None,
    )
    spec.embeddings[0].weight = own_copy(stack.table)
    if stack.segments is not None:
        spec.embeddings[1].weight = own_copy(stack.segments)
    _set_stack(spec, stack, is_causal=False)
    return spec


def _decoder(specs: Any, stack: PortableStack, output: PortableLinear | None) -> Any:
    first, is_alone = stack.layers[0], stack.layers[0].cross is None
    spec = specs.TransformerDecoderSpec(
        len(stack.layers),
        first.attention.n_heads,
        pre_norm=first.is_pre_norm,
        activation=_activation(specs, first.feed_forward),
        layernorm_embedding=stack.norm is not None,
        with_encoder_attention=not is_alone,
        relative_position=has_vectors(first.attention),
        relative_attention_bias=has_bias(first.attention) and not is_alone,
        # the mean of all heads of the last layer
        alignment_layer=-1,
        alignment_heads=0,
        ffn_glu=first.feed_forward.gate is not None,
        alibi=is_alone and is_alibi(first.attention),
        rotary_dim=0 if first.attention.is_rotary else None,
    )
    spec.embeddings.weight = own_copy(stack.table)
    assert output is not None
    _set_linear(spec.projection, output)
    _set_stack(spec, stack, is_causal=True)
    return spec


def _activation(specs: Any, part: PortableFeedForward) -> Any:
    return specs.Activation[ACTIVATIONS[part.activation]]


def _set_stack(spec: Any, stack: PortableStack, *, is_causal: bool) -> None:
    spec.scale_embeddings = float(stack.scale)
    if hasattr(spec, "position_encodings"):
        # without a table CTranslate2 would add waves of its own
        table = stack.positions
        if table is None:
            table = stack.table.new_zeros(stack.n_positions, stack.table.shape[1])
        spec.position_encodings.encodings = own_copy(table)
    if stack.norm is not None:
        _set_norm(spec.layernorm_embedding, stack.norm)
    if stack.last_norm is not None:
        _set_norm(spec.layer_norm, stack.last_norm)
    for made, layer in zip(spec.layer, stack.layers, strict=True):
        _set_layer(made, layer)
        if not (is_causal and layer.cross is None and is_alibi(layer.attention)):
            set_relation(
                made.self_attention,
                layer.attention,
                n_positions=stack.n_positions,
                is_causal=is_causal,
            )


def _set_layer(spec: Any, layer: PortableLayer) -> None:
    own = layer.attention
    _set_norm(spec.self_attention.layer_norm, layer.attention_norm)
    _set_attention(spec.self_attention, own, [[own.query, own.key, own.value], [own.output]])
    if layer.cross is not None and layer.cross_norm is not None:
        other = layer.cross
        _set_norm(spec.attention.layer_norm, layer.cross_norm)
        _set_attention(
            spec.attention, other, [[other.query], [other.key, other.value], [other.output]]
        )
    part = layer.feed_forward
    _set_norm(spec.ffn.layer_norm, layer.feed_forward_norm)
    _set_linear(spec.ffn.linear_0, part.inner)
    _set_linear(spec.ffn.linear_1, part.outer)
    if part.gate is not None:
        _set_linear(spec.ffn.linear_0_noact, part.gate)


def _set_attention(spec: Any, one: PortableAttention, groups: list[list[PortableLinear]]) -> None:
    spec.queries_scale = np.float32(one.scale)
    for made, parts in zip(spec.linear, groups, strict=True):
        _set_linear(made, _joined(parts))


def _joined(parts: list[PortableLinear]) -> PortableLinear:
    """Several linear maps of one input as one; a missing bias among others is zero."""
    biases: list[Tensor] = [
        part.weight.new_zeros(len(part.weight)) if part.bias is None else part.bias
        for part in parts
    ]
    has_bias = any(part.bias is not None for part in parts)
    weight = torch.cat([part.weight for part in parts])
    return PortableLinear(weight, torch.cat(biases) if has_bias else None)


def _set_linear(spec: Any, linear: PortableLinear) -> None:
    spec.weight = own_copy(linear.weight)
    if linear.bias is not None:
        spec.bias = own_copy(linear.bias)


def _set_norm(spec: Any, norm: PortableNorm) -> None:
    spec.gamma, spec.beta = own_copy(norm.gain), own_copy(norm.bias)
