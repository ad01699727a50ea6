"""Marian's layout, as the OPUS translation models are published.

Paper: Junczys-Dowmunt et al. 2018; Tiedemann & Thottingal 2020.
"""

from typing import Any

from regard.interop.importing.bert import ACTIVATIONS
from regard.interop.importing.family import (
    WRITES,
    Family,
    Layout,
    Roles,
    Table,
    always,
    by_piece,
    by_piece_with_bias,
    modules,
    stacked,
)
from regard.interop.importing.folder import CONFIG, Folder
from regard.models import BartSpec, MarianSpec

PREFIX = "model."

ENCODER_LAYER = modules(
    {
        "attention.W_Q": "self_attn.q_proj",
        "attention.W_K": "self_attn.k_proj",
        "attention.W_V": "self_attn.v_proj",
        "attention.W_O": "self_attn.out_proj",
        "around_attention.norm": "self_attn_layer_norm",
        "feed_forward.inner": "fc1",
        "feed_forward.outer": "fc2",
        "around_feed_forward.norm": "final_layer_norm",
    }
)
DECODER_LAYER = ENCODER_LAYER | modules(
    {
        "cross_attention.W_Q": "encoder_attn.q_proj",
        "cross_attention.W_K": "encoder_attn.k_proj",
        "cross_attention.W_V": "encoder_attn.v_proj",
        "cross_attention.W_O": "encoder_attn.out_proj",
        "around_cross_attention.norm": "encoder_attn_layer_norm",
    }
)

BIAS = "final_logits_bias"
SHARED = "shared.weight"
SOURCE, TARGET = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
OUTPUT = "lm_head.weight"

LEFT_OUT = (
    # sines and cosines, which are computed here
    r"(en|de)coder\.embed_positions\.weight",
)

SWITCHES = {
    "normalize_before": (False, None),
    "normalize_embedding": (False, None),
    "add_final_layer_norm": (False, None),
    "add_bias_logits": (False, None),
    "static_position_embeddings": (True, None),
    "tie_word_embeddings": (True, None),
    "activation_function": ("gelu", *ACTIVATIONS),
}

SIZES = {
    "d_model": "d_model",
    "n_heads": "encoder_attention_heads",
    "d_hidden": "encoder_ffn_dim",
    "n_encoder_layers": "encoder_layers",
    "n_decoder_layers": "decoder_layers",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "max_len": "max_position_embeddings",
}
"""What config.json calls a size of ours."""
EQUAL_SIZES = {
    "encoder_attention_heads": "decoder_attention_heads",
    "encoder_ffn_dim": "decoder_ffn_dim",
}
"""Sizes that must be equal on both sides."""


def sizes_of(folder: Folder) -> dict[str, Any]:
    """The sizes of an encoder-decoder of this layout, in our names."""
    for one, other in EQUAL_SIZES.items():
        if folder.setting(int, one) != folder.setting(int, other):
            raise folder.refusal(
                f": '{one}' must be '{other}', got {folder.config[one]} and "
                f"{folder.config[other]}: such models are not read.",
                CONFIG,
            )
    return {
        ours: folder.setting(float, theirs) if "dropout" in ours else folder.setting(int, theirs)
        for ours, theirs in SIZES.items()
    }


def spec_of(folder: Folder) -> MarianSpec:
    """config.json → [model]."""
    folder.check_switches(SWITCHES)
    return MarianSpec(
        **sizes_of(folder),
        feed_forward=ACTIVATIONS[folder.config.get("activation_function", "gelu")],
        is_scaled=folder.config.get("scale_embedding") is True,
        is_shared=folder.config.get("share_encoder_decoder_embeddings", True) is not False,
    )


def layout_of(spec: MarianSpec) -> Layout:
    """Every tensor."""
    if spec.is_shared:
        tables = {"source.E.weight": by_piece_with_bias(SHARED, BIAS)}
        copies = dict.fromkeys((SOURCE, TARGET, OUTPUT), SHARED)
    else:
        tables = {
            "source.E.weight": by_piece(SOURCE, side="source"),
            "target.E.weight": by_piece_with_bias(TARGET, BIAS),
        }
        copies = {OUTPUT: TARGET}
    return Layout({**tables, **layers_of(spec)}, LEFT_OUT, copies)


def layers_of(spec: MarianSpec | BartSpec) -> Table:
    """The tensors of all layers."""
    return {
        **stacked("encoder.{i}.", "encoder.layers.{i}.", ENCODER_LAYER, spec.n_encoder_layers),
        **stacked("decoder.{i}.", "decoder.layers.{i}.", DECODER_LAYER, spec.n_decoder_layers),
    }


MARIAN = Family(
    "marian",
    PREFIX,
    # decoding begins with padding; in our vocabulary that is a piece of its own
    always(Roles(padding="<pad>", begin="<pad>", end="</s>", unknown="<unk>")),
    spec_of,
    lambda folder, spec: layout_of(spec),
    WRITES,
)
