"""GPT-2's layout: transposed weights, and queries, keys and values in one tensor.

Paper: Radford et al. 2019.
"""

from regard.interop.importing.bert import ACTIVATIONS
from regard.interop.importing.family import (
    GOES_ON,
    Family,
    Layout,
    PublishedTensor,
    Roles,
    always,
    by_piece_with_bias,
    modules,
    stacked,
    third,
    turned,
)
from regard.interop.importing.folder import Folder
from regard.models import Gpt2Spec

WHOLE = {
    "embedding.E.weight": by_piece_with_bias("wte.weight"),
    # half are for a prompt, and half for what is written; the last of an odd number is left out
    "embedding.positions.P.weight": PublishedTensor(
        ("wpe.weight",), lambda found, rows: found[0][: len(found[0]) // 2 * 2]
    ),
    **modules({"norm.0": "ln_f"}),
}
PRODUCTS = {
    "attention.W_O": "attn.c_proj",
    "feed_forward.inner": "mlp.c_fc",
    "feed_forward.outer": "mlp.c_proj",
}
LAYER = {
    **modules({"around_attention.norm": "ln_1", "around_feed_forward.norm": "ln_2"}),
    **modules({"attention.W_Q": "attn.c_attn"}, third(0)),
    **modules({"attention.W_K": "attn.c_attn"}, third(1)),
    **modules({"attention.W_V": "attn.c_attn"}, third(2)),
    **modules(PRODUCTS, turned),
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
    "activation_function": ("gelu_new", *ACTIVATIONS),
}


def spec_of(folder: Folder) -> Gpt2Spec:
    """config.json → [model]."""
    folder.check_switches(SWITCHES)
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


def layout_of(folder: Folder, spec: Gpt2Spec) -> Layout:
    """Every tensor."""
    layers = stacked("layers.{i}.", "h.{i}.", LAYER, spec.n_layers)
    return Layout({**WHOLE, **layers}, LEFT_OUT, COPIES)


def notes_on(folder: Folder) -> tuple[str, ...]:
    """How the positions are shared."""
    count = _n_positions(folder)
    left_out = (f"the last of its {count:,} positions is left out",) if count % 2 else ()
    return ("half of its positions are for a prompt, and half for what it writes", *left_out)


def _n_positions(folder: Folder) -> int:
    return folder.setting(int, "n_positions", "max_position_embeddings")


GPT2 = Family(
    "gpt2",
    "transformer.",
    always(Roles(padding=None, begin="<|endoftext|>", end="<|endoftext|>", unknown=None)),
    spec_of,
    layout_of,
    GOES_ON,
    notes_on,
)
