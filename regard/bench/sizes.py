"""Sizes of the raced models in each toolkit's configuration, and their training settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from regard.models import RecurrentSpec, Spec, TransformerSpec

DROPOUT, SMOOTHING, CLIP, RATE = 0.1, 0.1, 1.0, 3e-4
SEED = 1


@dataclass(frozen=True)
class TransformerSize:
    """An encoder-decoder with as many layers on either side, ReLU, tied embeddings."""

    model: ClassVar[str] = "transformer"
    d_model: int
    n_heads: int
    d_hidden: int
    n_layers: int
    n_tokens: int
    """The output layer's rows; at least the vocabulary."""
    batch_tokens: int = 4096
    """Target tokens of a batch of sentences, padding counted."""

    @property
    def d_embedding(self) -> int:
        """Width of the embeddings."""
        return self.d_model

    @property
    def described(self) -> str:
        """The size in words."""
        return (
            f"width {self.d_model}, {self.n_heads} heads, {self.n_layers} + {self.n_layers} "
            f"layers, inner width {self.d_hidden}, {self.n_tokens:,} tokens"
        )

    def spec(self) -> Spec:
        """The paper's Transformer."""
        return TransformerSpec(
            d_model=self.d_model,
            n_heads=self.n_heads,
            d_hidden=self.d_hidden,
            n_encoder_layers=self.n_layers,
            n_decoder_layers=self.n_layers,
            dropout=DROPOUT,
        )

    def joeynmt(self) -> tuple[dict[str, object], dict[str, object]]:
        """Encoder and decoder as Joey NMT's configuration has them."""
        half: dict[str, object] = {
            "type": "transformer",
            "num_layers": self.n_layers,
            "num_heads": self.n_heads,
            "hidden_size": self.d_model,
            "ff_size": self.d_hidden,
            "dropout": DROPOUT,
            "layer_norm": "post",
            "activation": "relu",
            "embeddings": {"embedding_dim": self.d_model, "scale": True, "dropout": DROPOUT},
        }
        return half, half


@dataclass(frozen=True)
class RecurrentSize:
    """LSTMs, the source read both ways, general score, input feeding, tied embeddings.

    Joey NMT reads a source both ways or not at all. It begins a decoder by one matrix for all
    layers, we by one for each vector of each layer: the only difference between the two models.
    """

    model: ClassVar[str] = "recurrent"
    d_hidden: int
    """Of a layer, in each direction; of an embedding too."""
    n_layers: int
    n_tokens: int
    """The output layer's rows; at least the vocabulary."""
    batch_tokens: int = 1024
    """Target tokens of a batch of sentences, padding counted."""

    @property
    def d_embedding(self) -> int:
        """Width of the embeddings."""
        return self.d_hidden

    @property
    def described(self) -> str:
        """The size in words."""
        return (
            f"{self.n_layers} + {self.n_layers} LSTM layers of {self.d_hidden}, the source read "
            f"both ways, general score, input feeding, {self.n_tokens:,} tokens"
        )

    def spec(self) -> Spec:
        """Luong's model over an encoder that reads both ways."""
        return RecurrentSpec(
            d_embedding=self.d_embedding,
            d_hidden=self.d_hidden,
            n_layers=self.n_layers,
            is_bidirectional=True,
            reverses_source=False,
            bridge="backward",
            attends_to_end=True,
            dropout=DROPOUT,
            tied="all",
            initialisation="scaled",
        )

    def joeynmt(self) -> tuple[dict[str, object], dict[str, object]]:
        """Encoder and decoder as Joey NMT's configuration has them."""
        half: dict[str, object] = {
            "type": "recurrent",
            "rnn_type": "lstm",
            "num_layers": self.n_layers,
            "hidden_size": self.d_hidden,
            "dropout": DROPOUT,
            "embeddings": {"embedding_dim": self.d_embedding, "scale": False, "dropout": DROPOUT},
        }
        decoder = {
            "attention": "luong",
            "input_feeding": True,
            "init_hidden": "bridge",
            # on what the readout reads, where we drop nothing
            "hidden_dropout": 0.0,
        }
        return {**half, "bidirectional": True}, {**half, **decoder}


Size = TransformerSize | RecurrentSize

MODELS: Mapping[str, type[Size]] = {each.model: each for each in (TransformerSize, RecurrentSize)}
"""Kinds of models that are raced."""

SMALL = TransformerSize(d_model=256, n_heads=4, d_hidden=1024, n_layers=3, n_tokens=8000)
"""The Transformer that is trained on the CPU."""

BASE = TransformerSize(
    d_model=512,
    n_heads=8,
    d_hidden=2048,
    n_layers=6,
    n_tokens=32768,
)
"""The Transformer that is trained on a GPU: its paper's base."""

LSTM = RecurrentSize(d_hidden=512, n_layers=2, n_tokens=8000)
"""The recurrent model that is trained on the CPU, on about 64 sentences at a time."""

LSTM_ON_A_GPU = RecurrentSize(d_hidden=512, n_layers=2, n_tokens=8000, batch_tokens=4096)
"""The same on a GPU."""
