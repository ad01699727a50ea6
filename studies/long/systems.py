"""What the study of long sequences compares: systems that differ in how far a token looks.

    full                causal attention to everything before
    window              causal, the last 256 tokens
    BigBird             causal: neighbouring blocks, the first block, and three drawn at random
    T-DMCA              causal: blocks of 256 and memory-compressed layers in turn
    full, both ways     an encoder that guesses hidden words
    Linformer           the same over 256 slots; every slot mixes all positions, so it cannot write
    LSTM                six layers with as many weights as the four of the others; timed only

All have width 256, 4 heads and 4 layers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.choices import Choice
from regard.layers import Norm
from regard.models import LanguageSpec, TransformerSpec, build_language_model
from regard.models.bert import Encoder, MaskedLanguageModel
from regard.models.parts import Parts
from regard.models.self_attention import needs_length
from regard.models.trainable import LossInputs, shifted

LENGTHS = (512, 2048, 8192, 16384)
"""Tokens of a row, for models that learn."""
TIMED = (*LENGTHS, 65536)
"""The same, for models that are timed."""
SIZES: Mapping[str, Any] = {
    "d_model": 256, "n_heads": 4, "d_hidden": 1024, "dropout": 0.1, "norm": "pre_norm",
    "feed_forward": "gelu", "tied": "output",
}  # fmt: skip
N_LAYERS, N_CELLS = 4, 6


@dataclass(frozen=True)
class System:
    """One way to look, and the kind of model that has it."""

    kind: str
    attends: tuple[str, ...] = ()
    """How each layer looks: the first, the second, … and from the start again."""
    longest: int = TIMED[-1]
    """Longer rows would take too long to be timed."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The same as the models' specs have it."""
        return tuple(map(Choice.parse, self.attends))


SYSTEMS: Mapping[str, System] = {
    "full": System("causal", ("full",)),
    "window": System("causal", ("sliding_window:size=256",)),
    "BigBird": System("causal", ("big_bird:block=64,n_random=3",)),
    "T-DMCA": System("causal", ("blocks:size=256", "memory_compressed:stride=3")),
    "full, both ways": System("masked", ("full",)),
    "Linformer": System("masked", ("linformer:slots=256",)),
    "LSTM": System("recurrent", longest=16384),
}


class RecurrentWriter(nn.Module):
    """An LSTM that guesses each token from those before it.

    Args:
        n_tokens: size of the vocabulary.
    """

    def __init__(self, n_tokens: int) -> None:
        super().__init__()
        width, dropout = SIZES["d_model"], SIZES["dropout"]
        self.embedding = nn.Embedding(n_tokens, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.cells = nn.LSTM(width, width, N_CELLS, batch_first=True, dropout=dropout)
        self.output = nn.Linear(width, n_tokens, bias=False)
        self.output.weight = self.embedding.weight

    def read(self, tokens: Int[Tensor, "b n"]) -> Float[Tensor, "b n m"]:
        """What the output layer reads after each token."""
        return self.cells(self.embedding(tokens))[0].to(self.output.weight.dtype)

    def loss_inputs(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> LossInputs:
        """Every target token is asked for; the source is not read."""
        return LossInputs(self.read(shifted(target)), target)


def spec_of(system: System, length: int) -> LanguageSpec | TransformerSpec:
    """Sizes and choices of a model for rows of this length."""
    if system.kind == "masked":
        return TransformerSpec(
            **SIZES, n_encoder_layers=N_LAYERS, encoder_attends=system.choices, max_len=length
        )
    # a source and a target together are as long as the row
    return LanguageSpec(
        **SIZES, n_layers=N_LAYERS, attends=system.choices or (Choice("full"),), rows="running",
        asks="all", max_len=length // 2,
    )  # fmt: skip


def _causal(system: System, length: int, n_tokens: int) -> nn.Module:
    return build_language_model(spec_of(system, length), n_tokens=n_tokens)


def _masked(system: System, length: int, n_tokens: int) -> nn.Module:
    spec = spec_of(system, length)
    assert isinstance(spec, TransformerSpec)
    parts = Parts(spec)
    embedding = parts.embedding(n_tokens)
    embedding.norm = Norm(parts.dims, eps=1e-12)
    encoder = Encoder(
        embedding=embedding,
        layers=parts.encoder_layers(spec.n_encoder_layers, spec.encoder_attends),
        norm=parts.last_norm(),
        is_by_length=needs_length(spec.encoder_attends),
    )
    return MaskedLanguageModel(parts.dims, encoder=encoder, output=parts.output(embedding))


def _recurrent(system: System, length: int, n_tokens: int) -> nn.Module:
    return RecurrentWriter(n_tokens)


MODELS: Mapping[str, Callable[[System, int, int], nn.Module]] = {
    "causal": _causal,
    "masked": _masked,
    "recurrent": _recurrent,
}
READ_BEFORE: Mapping[str, int] = {"causal": 0, "masked": 1, "recurrent": 0}
"""Positions of a row that no token of the text takes: an encoder's begin token."""
TAUGHT = {name: system for name, system in SYSTEMS.items() if system.kind != "recurrent"}
"""Systems that learn."""
