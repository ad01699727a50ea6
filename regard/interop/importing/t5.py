"""T5's layout, of version 1 and of version 1.1, whose feed-forwards are gated.

Paper: Raffel et al. 2020.
"""

from regard.interop.importing.bert import ACTIVATIONS
from regard.interop.importing.family import (
    WRITES,
    Family,
    Form,
    Layout,
    PublishedTensor,
    Roles,
    Table,
    always,
    by_piece,
    by_piece_with_bias,
    same,
    stacked,
    turned,
    weights,
)
from regard.interop.importing.folder import Folder
from regard.models import T5Spec

OUTPUT = "lm_head.weight"
SHARED = "shared.weight"
DEFAULT_LENGTH = 512
GATED = {"gated-gelu": "gated_gelu", "gated-silu": "gated"}
"""What config.json calls a gated feed-forward of ours."""
BIAS = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"


def _attention(ours: str, theirs: str) -> dict[str, str]:
    return {f"{ours}.W_{name.upper()}": f"{theirs}.{name}" for name in "qkvo"}


def _sublayer(number: int, name: str) -> dict[str, str]:
    return {f"around_{name}.norm": f"layer.{number}.layer_norm"}


def _feed_forward(number: int, *, is_gated: bool) -> Table:
    inner = {"W1": "wi_0", "W3": "wi_1", "W2": "wo"} if is_gated else {"inner": "wi", "outer": "wo"}
    place = f"layer.{number}.DenseReluDense"
    return weights(
        {
            **{f"feed_forward.{ours}": f"{place}.{theirs}" for ours, theirs in inner.items()},
            **_sublayer(number, "feed_forward"),
        }
    )


READING = weights({**_attention("attention", "layer.0.SelfAttention"), **_sublayer(0, "attention")})
WRITING = READING | weights(
    {**_attention("cross_attention", "layer.1.EncDecAttention"), **_sublayer(1, "cross_attention")}
)

SWITCHES = {
    "is_encoder_decoder": (True, None),
    "feed_forward_proj": ("relu", *GATED, *ACTIVATIONS),
}


def spec_of(folder: Folder) -> T5Spec:
    """config.json → [model]; the names of the weights show whether the output layer is shared."""
    folder.check_switches(SWITCHES)
    said = folder.config.get("feed_forward_proj", "relu")
    n_layers, dropout = folder.setting(int, "num_layers"), folder.setting(float, "dropout_rate")
    has_own = folder.config.get("num_decoder_layers") is not None
    has_max = folder.config.get("n_positions") is not None
    return T5Spec(
        d_model=folder.setting(int, "d_model"),
        n_heads=folder.setting(int, "num_heads"),
        head_width=folder.setting(int, "d_kv"),
        d_hidden=folder.setting(int, "d_ff"),
        n_encoder_layers=n_layers,
        n_decoder_layers=folder.setting(int, "num_decoder_layers") if has_own else n_layers,
        dropout=dropout,
        attention_dropout=dropout,
        feed_forward_dropout=dropout,
        feed_forward=GATED.get(said) or ACTIVATIONS[said],
        n_buckets=folder.setting(int, "relative_attention_num_buckets"),
        max_distance=folder.setting(int, "relative_attention_max_distance"),
        is_tied=OUTPUT not in folder.tensor_names(),
        norm_eps=folder.setting(float, "layer_norm_epsilon"),
        max_len=folder.setting(int, "n_positions") if has_max else DEFAULT_LENGTH,
    )


def layout_of(folder: Folder, spec: T5Spec) -> Layout:
    """Every tensor."""
    is_gated = spec.feed_forward in GATED.values()
    stacks = (
        ("encoder", {**READING, **_feed_forward(1, is_gated=is_gated)}, spec.n_encoder_layers),
        ("decoder", {**WRITING, **_feed_forward(2, is_gated=is_gated)}, spec.n_decoder_layers),
    )
    layers = {
        name: entry
        for stack, table, count in stacks
        for name, entry in stacked(f"{stack}.{{i}}.", f"{stack}.block.{{i}}.", table, count).items()
    }
    biases = {
        f"{stack}.0.attention.chain.relation.t": PublishedTensor((f"{stack}.{BIAS}",), turned)
        for stack in ("encoder", "decoder")
    }
    norms = {
        "encoder_norm.gain": PublishedTensor(("encoder.final_layer_norm.weight",), same),
        "decoder_norm.0.gain": PublishedTensor(
            ("decoder.final_layer_norm.weight",), _last_gain(folder, spec)
        ),
    }
    pieces = (
        {"source.E.weight": by_piece_with_bias(SHARED)}
        if spec.is_tied
        else {"source.E.weight": by_piece(SHARED), "output.weight": by_piece_with_bias(OUTPUT)}
    )
    copies = dict.fromkeys(("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"), SHARED)
    # an older habit: a table that nothing reads
    left_out = (r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",)
    return Layout({**pieces, **layers, **biases, **norms}, left_out, copies)


def _last_gain(folder: Folder, spec: T5Spec) -> Form:
    """The last gain, by which the first version's states are divided before the output layer."""
    is_tied = folder.config.get("tie_word_embeddings") is not False
    is_divided = folder.config.get("scale_decoder_outputs", is_tied)
    return lambda found, rows: found[0] * (spec.d_model**-0.5 if is_divided else 1.0)


def notes_on(folder: Folder) -> tuple[str, ...]:
    """How long texts may be."""
    return ("it has no longest text of its own: model.max_len may be raised",)


T5 = Family(
    "t5",
    "",
    # decoding begins with padding; in our vocabulary that is a piece of its own
    always(Roles(padding="<pad>", begin="<pad>", end="</s>", unknown="<unk>")),
    spec_of,
    layout_of,
    WRITES,
    notes_on,
)
