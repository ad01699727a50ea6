"""Language model: the encoder's layers under a causal mask write what comes next.

    logits[t] = layers(embed(tokens[:t])) Eᵀ

Paper: Radford et al. 2018; Liu et al. 2018 (T-D), section 4.2.1.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast, final

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import KeyValues, all_of, padding
from regard.attention.patterns.causal import CausalPattern
from regard.layers import EncoderLayer
from regard.models.embedding import Embedding
from regard.models.stepping import PAD

CAUSAL = CausalPattern()


class LanguageState(NamedTuple):
    """What decoding remembers: every layer's cache."""

    caches: tuple[KeyValues | None, ...]
    length: int


@final
class LanguageModel(nn.Module):
    """One stack; no token sees a later one."""

    def __init__(
        self,
        *,
        embedding: Embedding,
        layers: Sequence[EncoderLayer],
        norm: nn.Module,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.embedding, self.layers = embedding, nn.ModuleList(layers)
        self.norm, self.output = norm, output

    def forward(self, tokens: Int[Tensor, "b n"]) -> Float[Tensor, "b n v"]:
        """Logits for the token after each token."""
        x, mask = self.embedding(tokens), all_of(CAUSAL, padding(tokens != PAD))
        for layer in self.layers:
            x = layer(x, mask=mask)
        return self.output(self.norm(x))

    def start(self, source: Int[Tensor, "b s"]) -> LanguageState:
        """Read a prefix, all of whose rows have the same length."""
        empty = LanguageState((None,) * len(self.layers), 0)
        return self.step(empty, source)[1] if source.shape[1] else empty

    def step(
        self, state: LanguageState, tokens: Int[Tensor, "b t"]
    ) -> tuple[Float[Tensor, "b t v"], LanguageState]:
        """Logits after each new token; earlier ones are in the state."""
        x, caches = self.embedding(tokens, past=state.length), []
        for layer, past in zip(
            cast(list[EncoderLayer], list(self.layers)), state.caches, strict=True
        ):
            x, longer = layer.step(x, past, CAUSAL)
            caches.append(longer)
        return self.output(self.norm(x)), LanguageState(
            tuple(caches), state.length + tokens.shape[1]
        )

    def select(self, state: LanguageState, rows: Int[Tensor, " r"]) -> LanguageState:
        """The state of some rows, in a new order."""
        caches = tuple(None if past is None else past.select(rows) for past in state.caches)
        return LanguageState(caches, state.length)
