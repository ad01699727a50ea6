"""Marian's layout, as the OPUS translation models are published.

Paper: Junczys-Dowmunt et al. 2018; Tiedemann & Thottingal 2020.
"""

from regard.errors import CheckpointError
from regard.interop.importing.bert import ACTIVATIONS
from regard.interop.importing.folder import CONFIG, Folder
from regard.interop.importing.layouts import Layout, Table, by_piece, by_piece_with_bias, stacked
from regard.interop.importing.roles import Roles
from regard.models import MarianSpec, Spec

PREFIX = "model."
# decoding begins with padding; in our vocabulary that is a piece of its own
ROLES = Roles(padding="<pad>", begin="<pad>", end="</s>", unknown="<unk>")

ATTENTION: Table = {
    "attention.W_Q.weight": "self_attn.q_proj.weight",
    "attention.W_Q.bias": "self_attn.q_proj.bias",
    "attention.W_K.weight": "self_attn.k_proj.weight",
    "attention.W_K.bias": "self_attn.k_proj.bias",
    "attention.W_V.weight": "self_attn.v_proj.weight",
    "attention.W_V.bias": "self_attn.v_proj.bias",
    "attention.W_O.weight": "self_attn.out_proj.weight",
    "attention.W_O.bias": "self_attn.out_proj.bias",
    "around_attention.norm.gain": "self_attn_layer_norm.weight",
    "around_attention.norm.bias": "self_attn_layer_norm.bias",
}

CROSS_ATTENTION: Table = {
    "cross_attention.W_Q.weight": "encoder_attn.q_proj.weight",
    "cross_attention.W_Q.bias": "encoder_attn.q_proj.bias",
    "cross_attention.W_K.weight": "encoder_attn.k_proj.weight",
    "cross_attention.W_K.bias": "encoder_attn.k_proj.bias",
    "cross_attention.W_V.weight": "encoder_attn.v_proj.weight",
    "cross_attention.W_V.bias": "encoder_attn.v_proj.bias",
    "cross_attention.W_O.weight": "encoder_attn.out_proj.weight",
    "cross_attention.W_O.bias": "encoder_attn.out_proj.bias",
    "around_cross_attention.norm.gain": "encoder_attn_layer_norm.weight",
    "around_cross_attention.norm.bias": "encoder_attn_layer_norm.bias",
}

FEED_FORWARD: Table = {
    "feed_forward.inner.weight": "fc1.weight",
    "feed_forward.inner.bias": "fc1.bias",
    "feed_forward.outer.weight": "fc2.weight",
    "feed_forward.outer.bias": "fc2.bias",
    "around_feed_forward.norm.gain": "final_layer_norm.weight",
    "around_feed_forward.norm.bias": "final_layer_norm.bias",
}

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
}

EQUAL = {
    "encoder_attention_heads": "decoder_attention_heads",
    "encoder_ffn_dim": "decoder_ffn_dim",
}
"""What must be the same on both sides."""


def spec_of(folder: Folder) -> MarianSpec:
    """config.json → [model]."""
    folder.check_switches({**SWITCHES, "activation_function": ("gelu", *ACTIVATIONS)})
    for one, other in EQUAL.items():
        if folder.setting(int, one) != folder.setting(int, other):
            raise CheckpointError(
                f"import: '{folder.path / CONFIG}': '{one}' must be '{other}', got "
                f"{folder.config[one]} and {folder.config[other]}: such models are not read."
            )
    return MarianSpec(
        d_model=folder.setting(int, "d_model"),
        n_heads=folder.setting(int, "encoder_attention_heads"),
        d_hidden=folder.setting(int, "encoder_ffn_dim"),
        n_encoder_layers=folder.setting(int, "encoder_layers"),
        n_decoder_layers=folder.setting(int, "decoder_layers"),
        dropout=folder.setting(float, "dropout"),
        attention_dropout=folder.setting(float, "attention_dropout"),
        feed_forward=ACTIVATIONS[folder.config.get("activation_function", "gelu")],
        is_scaled=folder.config.get("scale_embedding") is True,
        is_shared=folder.config.get("share_encoder_decoder_embeddings", True) is not False,
        max_len=folder.setting(int, "max_position_embeddings"),
    )


def layout_of(spec: Spec) -> Layout:
    """Every tensor."""
    assert isinstance(spec, MarianSpec)
    reading, writing = (
        {**ATTENTION, **FEED_FORWARD},
        {**ATTENTION, **CROSS_ATTENTION, **FEED_FORWARD},
    )
    if spec.is_shared:
        tables = {"source.E.weight": by_piece_with_bias(SHARED, BIAS)}
        copies = dict.fromkeys((SOURCE, TARGET, OUTPUT), SHARED)
    else:
        tables = {
            "source.E.weight": by_piece(SOURCE, side="source"),
            "target.E.weight": by_piece_with_bias(TARGET, BIAS),
        }
        copies = {OUTPUT: TARGET}
    return Layout(
        {
            **tables,
            **stacked("encoder.{i}.", "encoder.layers.{i}.", reading, spec.n_encoder_layers),
            **stacked("decoder.{i}.", "decoder.layers.{i}.", writing, spec.n_decoder_layers),
        },
        LEFT_OUT,
        copies,
    )


def notes_on(folder: Folder) -> tuple[str, ...]:
    """None."""
    return ()
