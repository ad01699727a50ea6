"""GPT-2's layout: products from the other side, and queries, keys and values in one tensor.

Paper: Radford et al. 2019.
"""

from regard.interop.importing.bert import ACTIVATIONS
from regard.interop.importing.folder import Folder
from regard.interop.importing.layouts import (
    Layout,
    Table,
    by_piece_with_no_bias,
    even_rows,
    found,
    stacked,
    third,
    turned,
)
from regard.interop.importing.roles import Roles
from regard.models import Gpt2Spec, Spec

PREFIX = "transformer."
ROLES = Roles(padding=None, begin="<|endoftext|>", end="<|endoftext|>", unknown=None)

WHOLE: Table = {
    "embedding.E.weight": by_piece_with_no_bias("wte.weight"),
    # half are for a prompt, and half for what is written
    "embedding.positions.P.weight": even_rows("wpe.weight"),
    "norm.0.gain": "ln_f.weight",
    "norm.0.bias": "ln_f.bias",
}

LAYER: Table = {
    "around_attention.norm.gain": "ln_1.weight",
    "around_attention.norm.bias": "ln_1.bias",
    "attention.W_Q.weight": third(0, "attn.c_attn.weight"),
    "attention.W_Q.bias": third(0, "attn.c_attn.bias"),
    "attention.W_K.weight": third(1, "attn.c_attn.weight"),
    "attention.W_K.bias": third(1, "attn.c_attn.bias"),
    "attention.W_V.weight": third(2, "attn.c_attn.weight"),
    "attention.W_V.bias": third(2, "attn.c_attn.bias"),
    "attention.W_O.weight": turned("attn.c_proj.weight"),
    "attention.W_O.bias": "attn.c_proj.bias",
    "around_feed_forward.norm.gain": "ln_2.weight",
    "around_feed_forward.norm.bias": "ln_2.bias",
    "feed_forward.inner.weight": turned("mlp.c_fc.weight"),
    "feed_forward.inner.bias": "mlp.c_fc.bias",
    "feed_forward.outer.weight": turned("mlp.c_proj.weight"),
    "feed_forward.outer.bias": "mlp.c_proj.bias",
}

LEFT_OUT = (
    # a causal mask, which some files hold
    r"h\.\d+\.attn\.(bias|masked_bias)",
)
COPIES = {"lm_head.weight": "wte.weight"}

SWITCHES = {
    "scale_attn_weights": (True, None),
    "scale_attn_by_inverse_layer_idx": (False, None),
    "reorder_and_upcast_attn": (False, True),
    "add_cross_attention": (False, None),
    "tie_word_embeddings": (True, None),
}


def spec_of(folder: Folder) -> Gpt2Spec:
    """config.json → [model]."""
    folder.check_switches({**SWITCHES, "activation_function": ("gelu_new", *ACTIVATIONS)})
    width = folder.setting(int, "n_embd", "hidden_size")
    inner = folder.config.get("n_inner")
    return Gpt2Spec(
        d_model=width,
        n_heads=folder.setting(int, "n_head", "num_attention_heads"),
        d_hidden=4 * width if inner is None else folder.setting(int, "n_inner"),
        n_layers=folder.setting(int, "n_layer", "num_hidden_layers"),
        dropout=folder.setting(float, "resid_pdrop"),
        attention_dropout=folder.setting(float, "attn_pdrop"),
        feed_forward=ACTIVATIONS[folder.config.get("activation_function", "gelu_new")],
        norm_eps=folder.setting(float, "layer_norm_epsilon"),
        # prompt and continuation share the positions
        max_len=_n_positions(folder) // 2,
    )


def layout_of(spec: Spec) -> Layout:
    """Every tensor."""
    assert isinstance(spec, Gpt2Spec)
    return Layout(
        {
            **{name: found(entry) for name, entry in WHOLE.items()},
            **stacked("layers.{i}.", "h.{i}.", LAYER, spec.n_layers),
        },
        LEFT_OUT,
        COPIES,
    )


def notes_on(folder: Folder) -> tuple[str, ...]:
    """How the positions are shared."""
    count = _n_positions(folder)
    left_out = (f"the last of its {count:,} positions is left out",) if count % 2 else ()
    return ("half of its positions are for a prompt, and half for what it writes", *left_out)


def _n_positions(folder: Folder) -> int:
    return folder.setting(int, "n_positions", "max_position_embeddings")
