"""Models → their portable forms."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from regard.errors import NotPortable
from regard.layers import Norm
from regard.models.bert import Classifier, MaskedLanguageModel, Tagger
from regard.models.embedding import Embedding
from regard.models.encoders.reader import Reader
from regard.models.language_model import LanguageModel
from regard.models.model import Model
from regard.models.portable.attentions import linear_form
from regard.models.portable.forms import (
    PortableHead,
    PortableLinear,
    PortableModel,
    PortableNorm,
    PortableStack,
)
from regard.models.portable.layers import activation_name, layer_forms, norm_form
from regard.models.spec import ModelSpec, StackSpec
from regard.models.transformer import Transformer

MAX_TABLE_NUMBERS = 1 << 28
"""The most numbers in a table of positions that other runtimes are given: a gibibyte."""


@torch.no_grad()
def portable_model(model: Model, spec: ModelSpec) -> PortableModel:
    """The model of a spec in plain weights, or `NotPortable` with the reason."""
    if type(model) not in MODEL_FORMS:
        raise NotPortable(
            f"a model of kind {type(model).__name__} is no Transformer, which is all that other "
            "runtimes hold; take model.kind = 'transformer' or 'language_model'"
        )
    return MODEL_FORMS[type(model)](model, cast(StackSpec, spec).dims.max_len)


def _encoder_decoder(model: Transformer, n_positions: int) -> PortableModel:
    if model.counts_from_the_end:
        raise NotPortable(
            "what an encoder layer sees depends on where the text ends, which other runtimes do "
            'not ask; take model.encoder_attends = ["full"]'
        )
    return PortableModel(
        _stack(model.source, model.encoder, model.encoder_norm, n_positions, is_causal=False),
        _stack(model.target, model.decoder, model.decoder_norm, n_positions, is_causal=True),
        _output(model.output, model.target),
    )


def _decoder_only(model: LanguageModel, n_positions: int) -> PortableModel:
    stack = _stack(model.embedding, model.layers, model.norm, n_positions, is_causal=True)
    return PortableModel(None, stack, _output(model.output, model.embedding))


def _encoder_only(model: Reader, n_positions: int) -> PortableModel:
    encoder = model.encoder
    if encoder.pattern is not None or encoder.carries_heads:
        raise NotPortable(
            "the encoder has a pattern or reads trees, which other runtimes do not know; leave "
            "model.pattern, and positions and relations of trees, out"
        )
    stack = _stack(encoder.embedding, encoder.layers, encoder.norm, n_positions, is_causal=False)
    network = model.network
    if isinstance(network, Tagger | Classifier):
        raise NotPortable(
            "the model gives labels, for which other runtimes have no head; take model.task = "
            "'words' or 'vectors'"
        )
    head = None
    if isinstance(network, MaskedLanguageModel):
        norm = _norm(network.norm)
        assert norm is not None
        head = PortableHead(
            linear_form(network.dense),
            norm,
            activation_name(network.activation),
            _output(network.output, encoder.embedding),
        )
    return PortableModel(stack, None, None, head)


def _stack(
    embedding: Embedding,
    layers: Iterable[nn.Module],
    norm: nn.Module,
    n_positions: int,
    *,
    is_causal: bool,
) -> PortableStack:
    width = embedding.width
    return PortableStack(
        table=embedding.E.weight.detach()[:, :width],
        scale=float(embedding.scale),
        positions=_positions(embedding, n_positions),
        segments=None if embedding.S is None else embedding.S.weight.detach(),
        norm=_norm(embedding.norm),
        layers=layer_forms(layers, is_causal=is_causal),
        last_norm=_norm(norm),
        n_positions=n_positions,
    )


def _positions(embedding: Embedding, count: int) -> Tensor | None:
    positions = embedding.positions
    if positions is None:
        return None
    if getattr(positions, "needs_trees", False):
        raise NotPortable(
            "its positions are those of a tree, which other runtimes do not read; take "
            "model.positions = 'sinusoidal'"
        )
    if count * embedding.width > MAX_TABLE_NUMBERS:
        raise NotPortable(
            f"other runtimes read positions from a table, and one of {count:,} positions would be "
            "too large; take a smaller model.max_len, or rotary positions"
        )
    device = embedding.E.weight.device
    return positions(torch.arange(count, device=device)[None])[0].to(embedding.E.weight.dtype)


def _norm(part: nn.Module) -> PortableNorm | None:
    """The norm in a module, which may hold no norm, and more than one."""
    return next((norm_form(one) for one in part.modules() if isinstance(one, Norm)), None)


def _output(layer: nn.Linear, table: Embedding) -> PortableLinear:
    """The output layer; a bias may be the last column of its weight."""
    weight = layer.weight.detach()
    bias = weight[:, table.width] if weight.shape[1] > table.width else None
    return PortableLinear(weight[:, : table.width], bias)


MODEL_FORMS: Mapping[type, Callable[[Any, int], PortableModel]] = {
    Transformer: _encoder_decoder,
    LanguageModel: _decoder_only,
    Reader: _encoder_only,
}
