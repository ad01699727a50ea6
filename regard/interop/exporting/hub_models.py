"""Hub models: a portable model in the layouts of Hugging Face's library, by its form.

    encoder and decoder, pre-norm    Pegasus    PegasusForConditionalGeneration
    decoder, pre-norm                GPT-2      GPT2LMHeadModel
    encoder, post-norm               BERT       BertForMaskedLM, BertModel

An encoder-decoder whose norms stand after the sums is Marian's (as_marian.py). Positions are
written as tables, whatever made them; projections that add nothing get biases of zeros; the factor
of dot products, where it is not the usual one, goes into the queries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from regard.data.subword_kinds import BOS, EOS, MASK_PIECE, PAD, SPECIALS, UNK
from regard.errors import NotPortable
from regard.models.portable import (
    PortableAttention,
    PortableLayer,
    PortableLinear,
    PortableModel,
    PortableNorm,
    PortableStack,
)

ACTIVATIONS = {"swish": "swish", "gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
"""What config.json calls an activation of ours."""
NEVER_WRITTEN_BIAS = -1e4
"""The bias of a piece that is never written; float16 can hold it."""
NORM_EPS = 1e-5
USUAL = {EOS: SPECIALS[EOS], UNK: SPECIALS[UNK], BOS: SPECIALS[BOS], PAD: SPECIALS[PAD]}
"""Our names of our special pieces."""
TO_CTRANSLATE2 = "or regard export --to ctranslate2"


@dataclass(frozen=True)
class HubModel:
    """What a folder in that library's layout holds, but for the vocabulary."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    order: Sequence[int]
    """Our number of each of its pieces."""
    special: Mapping[str, int]
    """Our numbers of the pieces by that library's names of roles, such as pad_token."""
    tag: str
    """What the hub calls its task."""
    generating: Mapping[str, Any] | None = None
    names: Mapping[int, str] = field(default_factory=lambda: USUAL)
    """The names of our special pieces there."""


def as_pegasus(model: PortableModel) -> HubModel:
    """An encoder-decoder with norms before the sublayers."""
    encoder, decoder, output = model.encoder, model.decoder, model.output
    assert encoder is not None
    assert decoder is not None
    assert output is not None
    for stack in (encoder, decoder):
        _check(stack, "Pegasus", is_pre_norm=True)
    if not (_same(encoder.table, decoder.table) and _same(output.weight, decoder.table)):
        raise NotPortable(
            "in Pegasus' layout source, target and output have one table; take model.tied = 'all', "
            + TO_CTRANSLATE2
        )
    width, heads = decoder.table.shape[1], decoder.layers[0].attention.n_heads
    if decoder.scale not in (1.0, width**0.5) or encoder.scale != decoder.scale:
        raise NotPortable(f"token vectors have an unusual scale; {TO_CTRANSLATE2}")
    size = len(decoder.table)
    # padding there begins an answer, and so is our begin
    order = [EOS, UNK, *range(len(SPECIALS), size), BOS]
    last = len(order) - 1
    bias = torch.zeros(size) if output.bias is None else output.bias.clone()
    bias[BOS] = NEVER_WRITTEN_BIAS
    tensors = {"model.shared.weight": decoder.table[order], "final_logits_bias": bias[order][None]}
    for side, stack in (("encoder", encoder), ("decoder", decoder)):
        start = f"model.{side}."
        tensors[f"{start}embed_positions.weight"] = _positions(stack)
        tensors |= _norm(f"{start}layer_norm", stack.last_norm)
        for i, layer in enumerate(stack.layers):
            tensors |= _bart_layer(f"{start}layers.{i}.", layer)
    numbers = {
        "eos_token_id": 0,
        "pad_token_id": last,
        "decoder_start_token_id": last,
        "forced_eos_token_id": 0,
    }
    sizes = {
        f"{side}_{key}": value
        for side, stack in (("encoder", encoder), ("decoder", decoder))
        for key, value in {
            "layers": len(stack.layers),
            "ffn_dim": len(stack.layers[0].feed_forward.inner.weight),
            "attention_heads": heads,
        }.items()
    }
    config = {
        "model_type": "pegasus",
        "architectures": ["PegasusForConditionalGeneration"],
        "is_encoder_decoder": True,
        "vocab_size": len(order),
        "d_model": width,
        **sizes,
        "num_hidden_layers": len(encoder.layers),
        "max_position_embeddings": decoder.n_positions,
        "activation_function": ACTIVATIONS[decoder.layers[0].feed_forward.activation],
        "scale_embedding": decoder.scale != 1.0,
        "normalize_before": True,
        "normalize_embedding": False,
        "tie_word_embeddings": True,
        **numbers,
    }
    generating = {**numbers, "bad_words_ids": [[last]], "max_length": decoder.n_positions}
    special = {"eos_token": EOS, "unk_token": UNK, "pad_token": BOS}
    names = {EOS: "</s>", UNK: "<unk>", BOS: "<pad>"}
    return HubModel(config, tensors, order, special, "translation", generating, names)


def as_gpt2(model: PortableModel) -> HubModel:
    """A decoder alone, with norms before the sublayers."""
    stack, output = model.decoder, model.output
    assert stack is not None
    assert output is not None
    _check(stack, "GPT-2", is_pre_norm=True)
    if output.bias is not None and bool(output.bias[len(SPECIALS) :].any()):
        raise NotPortable(
            f"logits have biases, for which GPT-2's layout has no place; {TO_CTRANSLATE2}"
        )
    first = stack.layers[0]
    width = stack.table.shape[1]
    tensors = {
        "transformer.wte.weight": stack.table * stack.scale,
        "transformer.wpe.weight": _positions(stack),
        "lm_head.weight": output.weight,
        **_norm("transformer.ln_f", stack.last_norm),
    }
    for i, layer in enumerate(stack.layers):
        tensors |= _gpt2_layer(f"transformer.h.{i}.", layer)
    config = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": len(stack.table),
        "n_embd": width,
        "n_layer": len(stack.layers),
        "n_head": first.attention.n_heads,
        "n_inner": len(first.feed_forward.inner.weight),
        "n_positions": stack.n_positions,
        "activation_function": ACTIVATIONS[first.feed_forward.activation],
        "layer_norm_epsilon": first.attention_norm.eps,
        # tokens are read with another scale than they are written
        "tie_word_embeddings": False,
        "bos_token_id": BOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
    }
    numbers = {"bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": PAD}
    generating = {**numbers, "suppress_tokens": [PAD, BOS]}
    special = {"bos_token": BOS, "eos_token": EOS, "unk_token": UNK, "pad_token": PAD}
    order = range(len(stack.table))
    return HubModel(config, tensors, order, special, "text-generation", generating)


def as_bert(model: PortableModel) -> HubModel:
    """An encoder alone, with norms after the sums, and its head if it guesses words."""
    stack, head = model.encoder, model.head
    assert stack is not None
    _check(stack, "BERT", is_pre_norm=False)
    if stack.norm is None:
        raise NotPortable("BERT's layout has a norm behind the sum of token and position")
    first, width = stack.layers[0], stack.table.shape[1]
    segments = stack.table.new_zeros(1, width) if stack.segments is None else stack.segments
    embeddings = "bert.embeddings."
    tensors = {
        f"{embeddings}word_embeddings.weight": stack.table * stack.scale,
        f"{embeddings}position_embeddings.weight": _positions(stack),
        f"{embeddings}token_type_embeddings.weight": segments,
        **_norm(f"{embeddings}LayerNorm", stack.norm),
    }
    for i, layer in enumerate(stack.layers):
        tensors |= _bert_layer(f"bert.encoder.layer.{i}.", layer)
    if head is not None:
        bias = head.output.bias
        tensors |= {
            **_linear("cls.predictions.transform.dense", head.dense),
            **_norm("cls.predictions.transform.LayerNorm", head.norm),
            "cls.predictions.decoder.weight": head.output.weight,
            "cls.predictions.bias": torch.zeros(len(stack.table)) if bias is None else bias,
        }
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()
    else:
        tensors = {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}
    config = {
        "model_type": "bert",
        "architectures": ["BertModel" if head is None else "BertForMaskedLM"],
        "vocab_size": len(stack.table),
        "hidden_size": width,
        "num_hidden_layers": len(stack.layers),
        "num_attention_heads": first.attention.n_heads,
        "intermediate_size": len(first.feed_forward.inner.weight),
        "hidden_act": ACTIVATIONS[first.feed_forward.activation],
        "max_position_embeddings": stack.n_positions,
        "type_vocab_size": len(segments),
        "layer_norm_eps": first.attention_norm.eps,
        "position_embedding_type": "absolute",
        "tie_word_embeddings": stack.scale == 1.0 and head is not None,
        "pad_token_id": PAD,
    }
    special = {"cls_token": BOS, "sep_token": EOS, "unk_token": UNK, "pad_token": PAD}
    tag = "feature-extraction" if head is None else "fill-mask"
    return HubModel(config, tensors, range(len(stack.table)), special, tag)


def mask_of(model: HubModel) -> dict[str, str]:
    """The mask piece, where words are guessed."""
    return {"mask_token": MASK_PIECE} if model.tag == "fill-mask" else {}


def _check(stack: PortableStack, layout: str, *, is_pre_norm: bool) -> None:
    """Refuse what none of these layouts has."""
    for layer in stack.layers:
        own = layer.attention
        where = "'pre_norm'" if is_pre_norm else "'post_norm'"
        for is_there, name, remedy in (
            (layer.is_pre_norm != is_pre_norm, "norms in that place", f"take model.norm = {where}"),
            (layer.feed_forward.gate is not None, "gates", "take model.feed_forward = 'relu'"),
            (own.is_rotary, "rotary positions", "take model.positions = 'learned'"),
            (
                own.keys_by_distance is not None or own.bias_by_distance is not None,
                "relations by distance",
                "leave model.relation out",
            ),
        ):
            if is_there:
                raise NotPortable(f"{layout}'s layout has no {name}; {remedy}, {TO_CTRANSLATE2}")


def _positions(stack: PortableStack) -> Tensor:
    if stack.positions is None:
        return stack.table.new_zeros(stack.n_positions, stack.table.shape[1])
    return stack.positions


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one, other)


def _query(one: PortableAttention) -> PortableLinear:
    """The queries' projection with what the factor has beside the usual one."""
    factor = one.scale * one.d_head**0.5
    weight, bias = one.query
    return PortableLinear(weight * factor, None if bias is None else bias * factor)


def _linear(name: str, linear: PortableLinear, *, turned: bool = False) -> dict[str, Tensor]:
    weight, bias = linear
    bias = weight.new_zeros(len(weight)) if bias is None else bias
    return {f"{name}.weight": weight.mT if turned else weight, f"{name}.bias": bias}


def _norm(name: str, norm: PortableNorm | None) -> dict[str, Tensor]:
    assert norm is not None
    return {f"{name}.weight": norm.gain, f"{name}.bias": norm.bias}


def _bart_attention(name: str, one: PortableAttention) -> dict[str, Tensor]:
    return {
        **_linear(f"{name}.q_proj", _query(one)),
        **_linear(f"{name}.k_proj", one.key),
        **_linear(f"{name}.v_proj", one.value),
        **_linear(f"{name}.out_proj", one.output),
    }


def _bart_layer(start: str, layer: PortableLayer) -> dict[str, Tensor]:
    tensors = {
        **_bart_attention(f"{start}self_attn", layer.attention),
        **_norm(f"{start}self_attn_layer_norm", layer.attention_norm),
        **_linear(f"{start}fc1", layer.feed_forward.inner),
        **_linear(f"{start}fc2", layer.feed_forward.outer),
        **_norm(f"{start}final_layer_norm", layer.feed_forward_norm),
    }
    if layer.cross is not None:
        tensors |= _bart_attention(f"{start}encoder_attn", layer.cross)
        tensors |= _norm(f"{start}encoder_attn_layer_norm", layer.cross_norm)
    return tensors


def _gpt2_layer(start: str, layer: PortableLayer) -> dict[str, Tensor]:
    own = layer.attention
    three = [_linear("", part) for part in (_query(own), own.key, own.value)]
    return {
        f"{start}attn.c_attn.weight": torch.cat([one[".weight"] for one in three]).mT,
        f"{start}attn.c_attn.bias": torch.cat([one[".bias"] for one in three]),
        **_linear(f"{start}attn.c_proj", own.output, turned=True),
        **_norm(f"{start}ln_1", layer.attention_norm),
        **_linear(f"{start}mlp.c_fc", layer.feed_forward.inner, turned=True),
        **_linear(f"{start}mlp.c_proj", layer.feed_forward.outer, turned=True),
        **_norm(f"{start}ln_2", layer.feed_forward_norm),
    }


def _bert_layer(start: str, layer: PortableLayer) -> dict[str, Tensor]:
    own = layer.attention
    return {
        **_linear(f"{start}attention.self.query", _query(own)),
        **_linear(f"{start}attention.self.key", own.key),
        **_linear(f"{start}attention.self.value", own.value),
        **_linear(f"{start}attention.output.dense", own.output),
        **_norm(f"{start}attention.output.LayerNorm", layer.attention_norm),
        **_linear(f"{start}intermediate.dense", layer.feed_forward.inner),
        **_linear(f"{start}output.dense", layer.feed_forward.outer),
        **_norm(f"{start}output.LayerNorm", layer.feed_forward_norm),
    }


LAYOUTS: Mapping[tuple[bool, bool], Callable[[PortableModel], HubModel]] = {
    (True, True): as_pegasus,
    (False, True): as_gpt2,
    (True, False): as_bert,
}
"""By whether there is an encoder, and a decoder."""


def hub_model(model: PortableModel) -> HubModel:
    """The model in the layout of its form, or `NotPortable` with the reason."""
    return LAYOUTS[model.encoder is not None, model.decoder is not None](model)
