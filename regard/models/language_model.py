"""Language model: the encoder's layers under a causal mask write what comes next.

    logits[t] = layers(embed(tokens[:t])) Eᵀ

A source is a prefix: the row is source, begin token, target. The begin token separates the two
as T-D's delta does, and stands first where there is no source.

Paper: Radford et al. 2018; Liu et al. 2018 (T-D), section 4.2.1, which also learns the prefix.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol, cast, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention import KeyValues, all_of, padding
from regard.attention.caches import reordered
from regard.attention.links import Pattern
from regard.attention.patterns.causal import CausalPattern
from regard.models.embedding import Embedding
from regard.models.learning import Lesson
from regard.models.stepping import BOS, PAD, rows_of

CAUSAL = CausalPattern()


class CachedLayer(Protocol):
    """A layer that can go on from a cache."""

    def step(
        self, x: Float[Tensor, "b n m"], past: KeyValues | None, mask: Pattern
    ) -> tuple[Float[Tensor, "b n m"], KeyValues]:
        """The next positions, and the longer cache."""


class LanguageState(NamedTuple):
    """What decoding remembers: every layer's cache, and what in it is padding."""

    caches: tuple[KeyValues | None, ...]
    length: int
    """Positions read so far, padding counted."""
    valid: Bool[Tensor, "r k"] | None
    """The positions that hold a token; None if all do, which the fastest kernels want to know."""
    skipped: Int[Tensor, " r"]
    """How many positions before a row's first token are padding."""


@final
class LanguageModel(nn.Module):
    """One stack; no token sees a later one, and padding (token 0) never leaks.

    Args:
        embedding: tokens and positions.
        layers: map `b n m` to `b n m`, given a mask, and can go on from a cache.
        norm: the last norm; identity if the layers are post-norm.
        output: maps `b n m` to logits; its weight may be the embedding's.
    """

    def __init__(
        self,
        *,
        embedding: Embedding,
        layers: Sequence[nn.Module],
        norm: nn.Module,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.embedding, self.layers = embedding, nn.ModuleList(layers)
        self.norm, self.output = norm, output

    def forward(self, tokens: Int[Tensor, "b n"]) -> Float[Tensor, "b n v"]:
        """Logits for the token after each token."""
        return self.output(self.hidden(tokens))

    def hidden(self, tokens: Int[Tensor, "b n"]) -> Float[Tensor, "b n m"]:
        """What the output layer reads."""
        x, mask = self.embedding(tokens), all_of(CAUSAL, padding(tokens != PAD))
        for layer in self.layers:
            x = layer(x, mask=mask)
        return self.norm(x)

    def lesson(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Lesson:
        """Every target token is asked for, after the source and the target tokens before it."""
        read, gold = joined(source, target)
        return Lesson(self.hidden(read), gold)

    def start(self, source: Int[Tensor, "b s"]) -> LanguageState:
        """Read a prefix; rows may have different lengths, and padding stands at their ends."""
        missing = source == PAD
        # padding moves to the front, where it stands between no two tokens
        order = (~missing).long().argsort(dim=1, stable=True)
        valid = missing.new_zeros(len(source), 0) if bool(missing.any()) else None
        state = LanguageState((None,) * len(self.layers), 0, valid, missing.sum(1))
        return self.step(state, source.gather(1, order))[1] if source.shape[1] else state

    def step(
        self, state: LanguageState, tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t v"], LanguageState]:
        """Logits after each new token; earlier ones are in the state."""
        length, caches = state.length + tokens.shape[1], []
        at = torch.arange(state.length, length, device=tokens.device)
        x = self.embedding(tokens, at=(at - state.skipped[:, None]).clamp(min=0))
        valid = None if state.valid is None else torch.cat([state.valid, tokens != PAD], 1)
        mask = CAUSAL if valid is None else all_of(CAUSAL, padding(valid))
        layers = cast(list[CachedLayer], list(self.layers))
        for layer, past in zip(layers, state.caches, strict=True):
            x, longer = layer.step(x, past, mask)
            caches.append(longer)
        after = LanguageState(tuple(caches), length, valid, state.skipped)
        return self.output(self.norm(x)), after

    def select(self, state: LanguageState, rows: Int[Tensor, " r"]) -> LanguageState:
        """The state of some rows, each with its own prefix."""
        caches = tuple(None if past is None else past.select(rows) for past in state.caches)
        valid = None if state.valid is None else state.valid[rows]
        return LanguageState(caches, state.length, valid, state.skipped[rows])

    def branch(self, state: LanguageState, parents: Int[Tensor, "b w"]) -> LanguageState:
        """Go on in w rows a sentence; a prefix is part of its row, and moves along."""
        rows = rows_of(parents, len(state.skipped))
        pasts = [past for past in state.caches if past is not None]
        caches = tuple(reordered(pasts, rows)) if pasts else state.caches
        valid = None if state.valid is None else state.valid[rows]
        return LanguageState(caches, state.length, valid, state.skipped[rows])


def joined(
    source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
) -> tuple[Int[Tensor, "b s+t"], Int[Tensor, "b s+t"]]:
    """What is read and what is asked for: one row of source, begin and target, padding last.

    >>> read, gold = joined(torch.tensor([[7, 2, 0], [8, 9, 2]]), torch.tensor([[5, 2], [6, 2]]))
    >>> read
    tensor([[7, 2, 1, 5, 0],
            [8, 9, 2, 1, 6]])
    >>> gold
    tensor([[0, 0, 5, 2, 0],
            [0, 0, 0, 6, 2]])
    """
    rows = torch.cat([source, torch.full_like(target[:, :1], BOS), target], 1)
    asked = torch.cat([torch.zeros_like(source), pad(target, (1, 0), value=PAD)], 1)
    order = (rows == PAD).long().argsort(dim=1, stable=True)
    rows, gold = rows.gather(1, order), asked.gather(1, order)[:, 1:]
    # a row's end token stands before its padding, and is nothing to read on from
    return rows[:, :-1].masked_fill(rows[:, 1:] == PAD, PAD), gold
