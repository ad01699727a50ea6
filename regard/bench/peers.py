"""Our Transformer as others have it: the same weights in Hugging Face's and CTranslate2's models.

Only the model of the paper is known to both: post-norm, ReLU, sinusoidal positions, one table for
both embeddings and the output. Positions are copied as numbers, since each project orders sines and
cosines in its own way.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.attention import GroupedQueryHeads
from regard.layers import DecoderLayer, EncoderLayer, FeedForward, PostNorm
from regard.models import Transformer
from regard.models.stepper import BOS, EOS, PAD

LONGEST = 512
"""Positions that are copied."""


def as_marian(model: Transformer) -> Any:
    """The same function as a `MarianMTModel`."""
    from transformers import MarianConfig, MarianMTModel

    layer, d_model = _first_layer(model), model.output.in_features
    n_tokens, d_hidden = model.output.out_features, _forward(layer).inner.out_features
    theirs: Any = MarianMTModel(
        MarianConfig(
            vocab_size=n_tokens,
            decoder_vocab_size=n_tokens,
            d_model=d_model,
            encoder_layers=len(model.encoder),
            decoder_layers=len(model.decoder),
            encoder_attention_heads=layer.attention.dims.n_heads,
            decoder_attention_heads=layer.attention.dims.n_heads,
            encoder_ffn_dim=d_hidden,
            decoder_ffn_dim=d_hidden,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=LONGEST,
            pad_token_id=PAD,
            bos_token_id=BOS,
            eos_token_id=EOS,
            forced_eos_token_id=None,
            decoder_start_token_id=BOS,
        )
    )
    theirs.eval()
    with torch.no_grad():
        theirs.model.shared.weight.copy_(model.target.E.weight)
        for stack in (theirs.model.encoder, theirs.model.decoder):
            stack.embed_positions.weight.copy_(_positions(model))
        for to, ours in zip(theirs.model.encoder.layers, model.encoder, strict=True):
            _marian_layer(to, cast(EncoderLayer, ours))
        for to, ours in zip(theirs.model.decoder.layers, model.decoder, strict=True):
            own = cast(DecoderLayer, ours)
            _marian_layer(to, own)
            _marian_heads(to.encoder_attn, own.cross_attention)
            _marian_norm(to.encoder_attn_layer_norm, own.around_cross_attention)
    return theirs


def as_ctranslate2(model: Transformer, folder: Path, *, threads: int) -> Any:
    """The same function as a CTranslate2 `Translator` in float32; its files go to the folder."""
    import ctranslate2
    from ctranslate2.specs import TransformerSpec

    n_heads = _first_layer(model).attention.dims.n_heads
    spec = TransformerSpec.from_config(
        (len(model.encoder), len(model.decoder)), n_heads, pre_norm=False
    )
    table, positions = _numbers(model.target.E.weight), _numbers(_positions(model))
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = table
    for stack in (spec.encoder, spec.decoder):
        stack.scale_embeddings = True
        stack.position_encodings.encodings = positions
    spec.decoder.projection.weight = table
    for to, ours in zip(spec.encoder.layer, model.encoder, strict=True):
        _spec_layer(to, cast(EncoderLayer, ours))
    for to, ours in zip(spec.decoder.layer, model.decoder, strict=True):
        own = cast(DecoderLayer, ours)
        _spec_layer(to, own)
        cross = own.cross_attention
        _spec_linear(to.attention.linear[0], cross.W_Q.weight)
        _spec_linear(to.attention.linear[1], torch.cat([cross.W_K.weight, cross.W_V.weight]))
        _spec_linear(to.attention.linear[2], cross.W_O.weight)
        _spec_norm(to.attention.layer_norm, own.around_cross_attention)
    words = names_of(range(model.output.out_features))
    spec.register_source_vocabulary(words)
    spec.register_target_vocabulary(words)
    spec.config.bos_token, spec.config.eos_token = names_of([BOS, EOS])
    spec.config.unk_token = spec.config.decoder_start_token = words[BOS]
    spec.validate()
    spec.save(str(folder))
    return ctranslate2.Translator(
        str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=threads
    )


def names_of(tokens: Iterable[int]) -> list[str]:
    """How tokens are called in a vocabulary of strings."""
    return [f"t{token}" for token in tokens]


def _marian_layer(to: Any, ours: EncoderLayer | DecoderLayer) -> None:
    _marian_heads(to.self_attn, ours.attention)
    _marian_norm(to.self_attn_layer_norm, ours.around_attention)
    for linear, own in ((to.fc1, _forward(ours).inner), (to.fc2, _forward(ours).outer)):
        linear.weight.copy_(own.weight)
        linear.bias.copy_(own.bias)
    _marian_norm(to.final_layer_norm, ours.around_feed_forward)


def _marian_heads(to: Any, ours: GroupedQueryHeads) -> None:
    pairs = ((to.q_proj, ours.W_Q), (to.k_proj, ours.W_K), (to.v_proj, ours.W_V))
    for linear, own in (*pairs, (to.out_proj, ours.W_O)):
        linear.weight.copy_(own.weight)
        nn.init.zeros_(linear.bias)


def _marian_norm(to: Any, around: object) -> None:
    norm = cast(PostNorm, around).norm
    to.weight.copy_(norm.gain)
    to.bias.copy_(norm.bias)


def _spec_layer(to: Any, ours: EncoderLayer | DecoderLayer) -> None:
    own = ours.attention
    _spec_linear(
        to.self_attention.linear[0], torch.cat([own.W_Q.weight, own.W_K.weight, own.W_V.weight])
    )
    _spec_linear(to.self_attention.linear[1], own.W_O.weight)
    _spec_norm(to.self_attention.layer_norm, ours.around_attention)
    inner, outer = _forward(ours).inner, _forward(ours).outer
    _spec_linear(to.ffn.linear_0, inner.weight, inner.bias)
    _spec_linear(to.ffn.linear_1, outer.weight, outer.bias)
    _spec_norm(to.ffn.layer_norm, ours.around_feed_forward)


def _spec_linear(to: Any, weight: Tensor, bias: Tensor | None = None) -> None:
    to.weight = _numbers(weight)
    to.bias = _numbers(weight.new_zeros(len(weight)) if bias is None else bias)


def _spec_norm(to: Any, around: object) -> None:
    norm = cast(PostNorm, around).norm
    assert norm.gain is not None and norm.bias is not None
    to.gamma, to.beta = _numbers(norm.gain), _numbers(norm.bias)


def _numbers(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().numpy()


def _positions(model: Transformer) -> Tensor:
    assert model.target.positions is not None
    return model.target.positions(torch.arange(LONGEST)).float()


def _first_layer(model: Transformer) -> EncoderLayer:
    return cast(EncoderLayer, model.encoder[0])


def _forward(layer: EncoderLayer | DecoderLayer) -> FeedForward:
    return cast(FeedForward, layer.feed_forward)
