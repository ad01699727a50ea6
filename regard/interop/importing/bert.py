"""BERT's layout, and MiniLM's, which is the same: names and shapes of its tensors.

Paper: Devlin et al. 2019.
"""

from regard.interop.importing.family import (
    READS,
    Family,
    Layout,
    PublishedTensor,
    Roles,
    always,
    by_piece,
    by_piece_with_bias,
    modules,
    same,
    stacked,
)
from regard.interop.importing.folder import Folder
from regard.models import EncoderSpec

PREFIX = "bert."

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "swish",
    "swish": "swish",
}
"""What config.json calls an activation of ours; the first is meant where it names none."""

LAYER = modules(
    {
        "attention.W_Q": "attention.self.query",
        "attention.W_K": "attention.self.key",
        "attention.W_V": "attention.self.value",
        "attention.W_O": "attention.output.dense",
        "around_attention.norm": "attention.output.LayerNorm",
        "feed_forward.inner": "intermediate.dense",
        "feed_forward.outer": "output.dense",
        "around_feed_forward.norm": "output.LayerNorm",
    }
)
WORDS_HEAD = modules(
    {
        "network.dense": "cls.predictions.transform.dense",
        "network.norm.0": "cls.predictions.transform.LayerNorm",
    }
)

PIECES = "embeddings.word_embeddings.weight"
BIAS = "cls.predictions.bias"

LEFT_OUT = (
    # the head for next-sentence prediction
    r"pooler\.(dense\.)?(weight|bias)",
    r"cls\.seq_relationship\.(weight|bias)",
    # position numbers, a buffer that some files hold
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
    "hidden_act": tuple(ACTIVATIONS),
}


def spec_of(folder: Folder) -> EncoderSpec:
    """config.json → [model]; the names of the weights show whether there is a head."""
    folder.check_switches(SWITCHES)
    has_head = any(name.startswith("cls.predictions.") for name in folder.tensor_names())
    return EncoderSpec(
        task="words" if has_head else "vectors",
        d_model=folder.setting(int, "hidden_size"),
        n_heads=folder.setting(int, "num_attention_heads"),
        d_hidden=folder.setting(int, "intermediate_size"),
        n_layers=folder.setting(int, "num_hidden_layers"),
        dropout=folder.setting(float, "hidden_dropout_prob"),
        attention_dropout=folder.setting(float, "attention_probs_dropout_prob"),
        feed_forward=ACTIVATIONS[folder.config.get("hidden_act", next(iter(ACTIVATIONS)))],
        norm_eps=folder.setting(float, "layer_norm_eps"),
        n_segments=folder.setting(int, "type_vocab_size"),
        # a text has a position for its begin token too
        max_len=folder.setting(int, "max_position_embeddings") - 1,
    )


def layout_of(folder: Folder, spec: EncoderSpec) -> Layout:
    """Every tensor."""
    embedding, has_head = "network.encoder.embedding.", spec.task == "words"
    tables = {"positions.P.weight": "position_embeddings.weight"}
    if spec.n_segments:
        tables["S.weight"] = "token_type_embeddings.weight"
    return Layout(
        {
            f"{embedding}E.weight": by_piece_with_bias(PIECES, BIAS)
            if has_head
            else by_piece(PIECES),
            **{
                f"{embedding}{ours}": PublishedTensor((f"embeddings.{theirs}",), same)
                for ours, theirs in tables.items()
            },
            **modules({f"{embedding}norm": "embeddings.LayerNorm"}),
            **stacked("network.encoder.layers.{i}.", "encoder.layer.{i}.", LAYER, spec.n_layers),
            **(WORDS_HEAD if has_head else {}),
        },
        LEFT_OUT,
        COPIES if has_head else {},
    )


def notes_on(folder: Folder) -> tuple[str, ...]:
    """Notes on tensors that are left out."""
    left = any("pooler." in name or "seq_relationship" in name for name in folder.tensor_names())
    return ("the pooler and the next-sentence head are left out",) if left else ()


BERT = Family(
    "bert",
    PREFIX,
    always(Roles(padding="[PAD]", begin="[CLS]", end="[SEP]", unknown="[UNK]", mask="[MASK]")),
    spec_of,
    layout_of,
    READS,
    notes_on,
)
