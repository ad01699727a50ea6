"""BERT's layout, and MiniLM's, which is the same: names and shapes of its tensors.

Paper: Devlin et al. 2019.
"""

from regard.interop.importing.folder import Folder
from regard.interop.importing.layouts import (
    Layout,
    Table,
    by_piece,
    by_piece_with_bias,
    found,
    stacked,
)
from regard.interop.importing.roles import Roles
from regard.models import EncoderSpec, Spec

PREFIX = "bert."
ROLES = Roles(padding="[PAD]", begin="[CLS]", end="[SEP]", unknown="[UNK]", mask="[MASK]")

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
}
"""What config.json calls an activation of ours."""

USUAL = next(iter(ACTIVATIONS))
"""The activation of a configuration that names none."""

EMBEDDING: Table = {
    "positions.P.weight": "position_embeddings.weight",
    "norm.gain": "LayerNorm.weight",
    "norm.bias": "LayerNorm.bias",
}

SEGMENTS: Table = {"S.weight": "token_type_embeddings.weight"}
"""Where a text may have several."""

LAYER: Table = {
    "attention.W_Q.weight": "attention.self.query.weight",
    "attention.W_Q.bias": "attention.self.query.bias",
    "attention.W_K.weight": "attention.self.key.weight",
    "attention.W_K.bias": "attention.self.key.bias",
    "attention.W_V.weight": "attention.self.value.weight",
    "attention.W_V.bias": "attention.self.value.bias",
    "attention.W_O.weight": "attention.output.dense.weight",
    "attention.W_O.bias": "attention.output.dense.bias",
    "around_attention.norm.gain": "attention.output.LayerNorm.weight",
    "around_attention.norm.bias": "attention.output.LayerNorm.bias",
    "feed_forward.inner.weight": "intermediate.dense.weight",
    "feed_forward.inner.bias": "intermediate.dense.bias",
    "feed_forward.outer.weight": "output.dense.weight",
    "feed_forward.outer.bias": "output.dense.bias",
    "around_feed_forward.norm.gain": "output.LayerNorm.weight",
    "around_feed_forward.norm.bias": "output.LayerNorm.bias",
}

WORDS_HEAD: Table = {
    "network.dense.weight": "cls.predictions.transform.dense.weight",
    "network.dense.bias": "cls.predictions.transform.dense.bias",
    "network.norm.0.gain": "cls.predictions.transform.LayerNorm.weight",
    "network.norm.0.bias": "cls.predictions.transform.LayerNorm.bias",
}

PIECES = "embeddings.word_embeddings.weight"
BIAS = "cls.predictions.bias"

LEFT_OUT = (
    # a head for whole texts, which guesses whether one sentence follows another
    r"pooler\.(dense\.)?(weight|bias)",
    r"cls\.seq_relationship\.(weight|bias)",
    # numbers from 0 on, which some files hold
    r"embeddings\.(position_ids|token_type_ids)",
)
COPIES = {
    "cls.predictions.decoder.weight": PIECES,
    "cls.predictions.decoder.bias": BIAS,
}

SWITCHES = {
    "position_embedding_type": ("absolute", None),
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "use_bias": (True, None),
}


def spec_of(folder: Folder) -> EncoderSpec:
    """config.json → [model]; whether there is a head, the weights say."""
    folder.check_switches({**SWITCHES, "hidden_act": tuple(ACTIVATIONS)})
    has_head = any(name.startswith("cls.predictions.") for name in folder.tensor_names())
    return EncoderSpec(
        task="words" if has_head else "vectors",
        d_model=folder.setting(int, "hidden_size"),
        n_heads=folder.setting(int, "num_attention_heads"),
        d_hidden=folder.setting(int, "intermediate_size"),
        n_layers=folder.setting(int, "num_hidden_layers"),
        dropout=folder.setting(float, "hidden_dropout_prob"),
        attention_dropout=folder.setting(float, "attention_probs_dropout_prob"),
        feed_forward=ACTIVATIONS[folder.config.get("hidden_act", USUAL)],
        norm_eps=folder.setting(float, "layer_norm_eps"),
        n_segments=folder.setting(int, "type_vocab_size"),
        # a text has a position for its begin token too
        max_len=folder.setting(int, "max_position_embeddings") - 1,
    )


def layout_of(spec: Spec) -> Layout:
    """Every tensor."""
    assert isinstance(spec, EncoderSpec)
    embedding = "network.encoder.embedding."
    has_head = spec.task == "words"
    pieces = by_piece_with_bias(PIECES, BIAS) if has_head else by_piece(PIECES)
    return Layout(
        {
            f"{embedding}E.weight": pieces,
            **{
                f"{embedding}{name}": found(entry).under("embeddings.")
                for name, entry in {**EMBEDDING, **(SEGMENTS if spec.n_segments else {})}.items()
            },
            **stacked("network.encoder.layers.{i}.", "encoder.layer.{i}.", LAYER, spec.n_layers),
            **({name: found(entry) for name, entry in WORDS_HEAD.items()} if has_head else {}),
        },
        LEFT_OUT,
        COPIES if has_head else {},
    )


def notes_on(folder: Folder) -> tuple[str, ...]:
    """What is left out."""
    left = any("pooler." in name or "seq_relationship" in name for name in folder.tensor_names())
    return ("the pooler and the next-sentence head are left out",) if left else ()
