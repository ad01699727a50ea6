"""Language model: the encoder's layers under a causal mask write what comes next.

    logits[t] = layers(embed(tokens[:t])) Eᵀ

A source is a prefix: source and target stand in one row (language/rows.py). Each layer may attend
in its own way; what it can no longer see is forgotten while it writes (attention/looking_back.py).

Paper: Radford et al. 2018; Liu et al. 2018 (T-D, T-DMCA), section 4.2.
"""

from collections.abc import Sequence
from typing import Protocol, cast, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import AttentionMap, all_of, padding
from regard.attention.caches import Past
from regard.attention.capture import captured
from regard.attention.dropout import Dropout
from regard.attention.links import Pattern
from regard.attention.patterns.causal import CausalPattern
from regard.layers.mixtures.experts import imbalance, listening
from regard.models.embedding import Embedding
from regard.models.language.rows import NOWHERE, ROWS, Rows, joined
from regard.models.language.states import Apart, LanguageState, by_length
from regard.models.language.token_maps import by_token, part_of
from regard.models.learner import Lesson, LessonWithExtra
from regard.models.model import Model
from regard.models.stepper import PAD, UNK, rows_of

__all__ = ["LanguageModel", "LanguageState", "joined"]

CAUSAL: Pattern = CausalPattern()

State = LanguageState | Apart


class CachedLayer(Protocol):
    """A layer that can go on from what it remembers."""

    def step(
        self, x: Float[Tensor, "b n m"], past: Past | None, mask: Pattern
    ) -> tuple[Float[Tensor, "b n m"], Past]:
        """The next positions, and what is remembered after them."""


@final
class LanguageModel(Model):
    """One stack; no token sees a later one, and padding (token 0) never leaks.

    Args:
        embedding: tokens and positions.
        layers: map `b n m` to `b n m`, given a mask, and can go on from a past.
        norm: the last norm; identity if the layers are post-norm.
        output: maps `b n m` to logits; its weight may be the embedding's.
        rows: how source and target stand in one row.
        asks_all: whether training asks for the source's tokens too.
        is_movable: whether what a layer sees depends on distances alone, so that padding may stand
            in front of a row.
        word_dropout: share of the tokens that are read as unknown in training.
        output_dropout: on what the output layer reads.
        balance: what it costs, per token, that experts are asked unequally often.
    """

    def __init__(
        self,
        *,
        embedding: Embedding,
        layers: Sequence[nn.Module],
        norm: nn.Module,
        output: nn.Linear,
        rows: Rows = ROWS["separated"],
        asks_all: bool = False,
        is_movable: bool = True,
        word_dropout: float = 0.0,
        output_dropout: float = 0.0,
        balance: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding, self.layers = embedding, nn.ModuleList(layers)
        self.norm, self.output = norm, output
        self.rows, self.asks_all, self.is_movable = rows, asks_all, is_movable
        self.word_dropout, self.output_dropout = word_dropout, Dropout(output_dropout)
        self.balance = balance

    def forward(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"] | None = None
    ) -> Float[Tensor, "b n v"]:
        """Logits after each target token; of a row alone, after each of its tokens."""
        return self.output(self.read(source) if target is None else self.hidden(source, target))

    def read(self, tokens: Int[Tensor, "b n"]) -> Float[Tensor, "b n m"]:
        """What the output layer reads after each token of a row; padding stands last."""
        if self.training and self.word_dropout:
            is_lost = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            tokens = tokens.masked_fill(is_lost & (tokens != PAD), UNK)
        x = self.embedding(tokens)
        for layer in self.layers:
            # padding is later than every token, and so it is hidden as the future is
            x = layer(x, mask=CAUSAL)
        return self.output_dropout(self.norm(x))

    @property
    def continues_source(self) -> bool:
        """Whether an answer goes on with the text that is read, which may then be empty."""
        return self.rows.continues_source

    def hidden(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t m"]:
        """What the output layer reads after each target token, the source before it."""
        laid = self.rows.laid(source, target)
        states, at = self.read(laid.row), laid.says.clamp(max=laid.row.shape[1] - 1)
        return states.gather(1, at[..., None].expand(-1, -1, states.shape[-1]))

    def lesson(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Lesson:
        """Every target token is asked for after those before it; in training perhaps all tokens."""
        asks_all = self.asks_all and self.training
        read, gold = self.rows.joined(source, target, asks_all=asks_all)
        if not (self.balance and self.training):
            states = self.read(read)
            return Lesson(states, gold) if asks_all else _asked(states, gold, target.shape[1])
        with listening(self) as heard:
            states = self.read(read)
        # padding is sent somewhere too, but whom it asks costs nothing
        is_real, n_asked = (read != PAD).flatten(), (gold != PAD).sum()
        asked = [imbalance(one.shares[is_real], one.chosen[is_real]) for one in heard]
        uneven = torch.stack(asked).sum()
        return LessonWithExtra(states, gold, lambda _: self.balance * n_asked * uneven)

    def maps(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> dict[str, tuple[AttentionMap, ...]]:
        """Where each row's source and target look: three parts of one map, as a Transformer's.

        What a target's row gives to "decoder" and to "cross" sums to one. The weight of a memory's
        slot is shared by the tokens that were merged into it.
        """
        laid = self.rows.laid(source, target)
        with captured(self) as found:
            self.read(laid.row)
        layers = [by_token(one) for one in found.values()]
        own, at = laid.source, laid.target
        says = laid.says.masked_fill(target == PAD, NOWHERE)
        kinds = {"encoder": (own, own), "decoder": (says, at), "cross": (says, own)}
        return {
            kind: tuple(part_of(one, rows, columns) for one in layers)
            for kind, (rows, columns) in kinds.items()
        }

    def start(self, source: Int[Tensor, "b s"]) -> State:
        """Read a prefix; rows may have different lengths, and padding stands at their ends."""
        prefix, first = self.rows.opened(source)
        if self.is_movable:
            return self._start(prefix, first)
        lengths = (prefix != PAD).sum(1).tolist()
        rows = tuple(torch.tensor(group, device=source.device) for group in by_length(lengths))
        states = tuple(
            self._start(prefix[own, : lengths[own[0]]], None if first is None else first[own])
            for own in rows
        )
        return states[0] if len(states) == 1 else Apart(states, rows)

    def step(
        self, state: State, tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t v"], State]:
        """Logits after each new token; earlier ones are in the state."""
        if isinstance(state, LanguageState):
            return self._step(state, tokens)
        return state.each(lambda one, rows: self._step(one, tokens[rows]))

    def select(self, state: State, rows: Int[Tensor, " r"]) -> State:
        """The state of some rows, each with its own prefix."""
        return state.select(rows)

    def branch(self, state: State, parents: Int[Tensor, "b w"]) -> State:
        """Go on in w rows a sentence; a prefix is part of its row, and moves along."""
        n_rows = (
            len(state.skipped) if isinstance(state, LanguageState) else sum(map(len, state.rows))
        )
        return state.branch(rows_of(parents, n_rows))

    def _start(self, prefix: Tensor, first: Tensor | None) -> LanguageState:
        missing = prefix == PAD
        # padding moves to the front, where it stands between no two tokens
        order = (~missing).long().argsort(dim=1, stable=True)
        valid = missing.new_zeros(len(prefix), 0) if bool(missing.any()) else None
        state = LanguageState((None,) * len(self.layers), 0, valid, missing.sum(1))
        if prefix.shape[1]:
            state = self._read_on(state, prefix.gather(1, order))[1]
        return state._replace(first=first)

    def _step(
        self, state: LanguageState, tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t v"], LanguageState]:
        if state.first is not None:
            tokens = torch.cat([state.first[:, None], tokens[:, 1:]], 1)
        x, after = self._read_on(state, tokens)
        return self.output(self.norm(x)), after

    def _read_on(
        self, state: LanguageState, tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t m"], LanguageState]:
        """The layers' states of new tokens, before the last norm."""
        length, caches = state.length + tokens.shape[1], []
        at = torch.arange(state.length, length, device=tokens.device)
        x = self.embedding(tokens, at=(at - state.skipped[:, None]).clamp(min=0))
        valid = None if state.valid is None else torch.cat([state.valid, tokens != PAD], 1)
        mask = CAUSAL if valid is None else all_of(CAUSAL, padding(valid))
        for layer, past in zip(
            cast(list[CachedLayer], list(self.layers)), state.caches, strict=True
        ):
            x, longer = layer.step(x, past, mask)
            caches.append(longer)
        return x, LanguageState(tuple(caches), length, valid, state.skipped)


def _asked(states: Float[Tensor, "b n m"], gold: Int[Tensor, "b n"], most: int) -> Lesson:
    """Only where something is asked: at most so many places of a row, which lie together.

    The output layer is the dearest part, and what it would say after a long source is not asked.
    """
    last, is_asked = gold.shape[1] - 1, gold != PAD
    at = is_asked.int().argmax(1, keepdim=True) + torch.arange(most, device=gold.device)
    inside = at.clamp(max=last)
    asked = gold.gather(1, inside).masked_fill(at > last, PAD)
    return Lesson(states.gather(1, inside[..., None].expand(-1, -1, states.shape[-1])), asked)
