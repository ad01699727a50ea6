"""spec → model, for Transformers and language models of our own layout."""

from torch import nn

from regard.choices import Choice
from regard.errors import SettingError
from regard.models.language.rows import ROWS
from regard.models.language.spec import LanguageSpec
from regard.models.language_model import LanguageModel
from regard.models.mask_checks import check_future, check_padding
from regard.models.parts import LAYER_KINDS, Parts, scale_output_gain
from regard.models.self_attention import is_movable
from regard.models.spec import TransformerSpec
from regard.models.ties import check_sides
from regard.models.transformer import Transformer, check_masks


def build_transformer(
    spec: TransformerSpec, *, n_source_tokens: int, n_target_tokens: int
) -> Transformer:
    """Make the encoder-decoder, and see that its masks hide what they should."""
    check_sides(spec.tied, n_source_tokens, n_target_tokens)
    parts = Parts(spec)
    target = parts.embedding(n_target_tokens)
    model = Transformer(
        source=target if spec.tied == "all" else parts.embedding(n_source_tokens),
        target=target,
        encoder=parts.encoder_layers(spec.n_encoder_layers),
        decoder=parts.decoder_layers(spec.n_decoder_layers),
        encoder_norm=parts.last_norm(),
        decoder_norm=parts.last_norm(),
        output=parts.output(target),
        counts_from_the_end=parts.counts_from_the_end,
    )
    if LAYER_KINDS[spec.layer].is_faint:
        scale_output_gain(model, n_target_tokens)
    if not _is_meta(model):
        check_masks(model, min(n_source_tokens, n_target_tokens))
    return model


def build_language_model(spec: LanguageSpec | TransformerSpec, *, n_tokens: int) -> LanguageModel:
    """Make the decoder-only model: the encoder's layers under a causal mask.

    Args:
        spec: sizes and choices; of a Transformer's the number of decoder layers counts.
        n_tokens: size of the vocabulary.
    """
    if isinstance(spec, TransformerSpec):
        spec = LanguageSpec.like(spec)
    parts = Parts(spec.stack, is_causal=True, experts=_experts(spec))
    embedding = parts.embedding(n_tokens)
    model = LanguageModel(
        embedding=embedding,
        layers=parts.encoder_layers(spec.n_layers),
        norm=parts.last_norm(),
        output=parts.output(embedding),
        rows=ROWS[spec.rows],
        asks_all=spec.asks == "all",
        is_movable=is_movable(
            spec.attends,
            score=spec.score,
            select=spec.select,
            positions=spec.positions,
            relation=spec.relation,
        ),
        word_dropout=spec.word_dropout,
        output_dropout=spec.output_dropout,
        balance=spec.experts.balance if spec.experts else 0.0,
    )
    scale_output_gain(model, n_tokens)
    if not _is_meta(model):
        check_future(model, model.read, n_tokens)
        check_padding(model, model.read, n_tokens)
    return model


def _experts(spec: LanguageSpec) -> dict[int, Choice]:
    """The mixtures of a language model, by the number of their layers."""
    if spec.experts is None:
        return {}
    mixture = Choice(
        "experts",
        {
            "count": spec.experts.count,
            "used": spec.experts.used,
            "d_hidden": spec.d_hidden,
            "activation": spec.feed_forward,
            "dropout": spec.feed_forward_dropout,
        },
    )
    return dict.fromkeys(spec.experts.layers or range(1, spec.n_layers + 1), mixture)


def build_writer(
    spec: LanguageSpec | TransformerSpec, *, n_source_tokens: int, n_target_tokens: int
) -> LanguageModel:
    """Make the language model for a corpus whose two sides share one vocabulary."""
    if n_source_tokens != n_target_tokens:
        raise SettingError(
            "language_model: source and target stand in one row and need one vocabulary, got "
            f"{n_source_tokens} source and {n_target_tokens} target tokens. Take a joint "
            "vocabulary (tokens.is_joint = true)."
        )
    return build_language_model(spec, n_tokens=n_target_tokens)


def _is_meta(model: nn.Module) -> bool:
    return next(model.parameters()).device.type == "meta"
