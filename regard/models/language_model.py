"""Language model: encoder layers under a causal mask predict the next token.

    logits[t] = layers(embed(tokens[:t])) Eᵀ

A source is a prefix: source and target are in one row (language/rows.py). Each layer may attend
in its own way; in decoding, keys that it can no longer see are dropped
(attention/cached_attention.py).

Paper: Radford et al. 2018; Liu et al. 2018 (T-D, T-DMCA), section 4.2.
"""

from collections.abc import Sequence
from typing import cast, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention import all_of, padding
from regard.attention.capture import captured
from regard.attention.dropout import Dropout
from regard.attention.links import Pattern
from regard.attention.patterns.causal import CausalPattern
from regard.layers import BranchedEncoderLayer, EncoderLayer
from regard.layers.mixtures.experts import imbalance, listening
from regard.models.by_length import rows_by_length
from regard.models.embedding import Embedding
from regard.models.hard_attention import hard_attention
from regard.models.language.rows import NOWHERE, ROWS, Rows, joined
from regard.models.language.spec import LanguageSpec
from regard.models.language.states import LanguageState, StatesByLength
from regard.models.language.token_maps import by_token, part_of
from regard.models.mask_checks import check_future, check_padding
from regard.models.model import Model
from regard.models.parts import Parts, scale_output_gain
from regard.models.shapes import (
    Logits,
    Maps,
    NewStates,
    NewTokens,
    SourceTokens,
    States,
    TargetTokens,
    Tokens,
)
from regard.models.spec import TransformerSpec
from regard.models.stepper import BOS, PAD, UNK
from regard.models.trainable import LossInputs

__all__ = ["LanguageModel", "LanguageState", "joined"]

CAUSAL: Pattern = CausalPattern()

State = LanguageState | StatesByLength
CachedLayer = EncoderLayer | BranchedEncoderLayer
"""A layer that can continue from a cache."""


@final
class LanguageModel(Model):
    """One stack; no token sees a later one, and padding (token 0) never leaks.

    Args:
        embedding: tokens and positions.
        layers: layers that can continue from a cache.
        norm: the last norm; identity if the layers are post-norm.
        output: its weight may be the embedding's.
        rows: how source and target are joined into one row.
        asks_all: whether the training loss counts the source's tokens too.
        is_movable: whether what a layer sees depends on distances alone, so that padding may stand
            in front of a row.
        word_dropout: share of the tokens that are read as unknown in training.
        output_dropout: on the output layer's input.
            balance: weight of the experts' load-balancing loss, per token.
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
        self, source: SourceTokens, target: TargetTokens | None = None
    ) -> Float[Tensor, "b n v"]:
        """Logits after each target token; of a row alone, after each of its tokens."""
        return self.output(self.read(source) if target is None else self.hidden(source, target))

    def read(self, tokens: Tokens) -> Float[Tensor, "b n m"]:
        """The output layer's input after each token of a row; padding is last."""
        if self.training and self.word_dropout:
            is_lost = torch.rand(tokens.shape, device=tokens.device) < self.word_dropout
            tokens = tokens.masked_fill(is_lost & (tokens != PAD), UNK)
        x = self.embedding(tokens)
        for layer in self.layers:
            # padding comes after every token, so that the causal mask hides it
            x = layer(x, mask=CAUSAL)
        return self.output_dropout(self.norm(x))

    @property
    def continues_source(self) -> bool:
        """Whether an answer continues the source, which may then be empty."""
        return self.rows.continues_source

    def hidden(self, source: SourceTokens, target: TargetTokens) -> States:
        """The output layer's input after each target token, with the source before it."""
        laid = self.rows.layout(source, target)
        states, at = self.read(laid.row), laid.predicting_positions.clamp(max=laid.row.shape[1] - 1)
        return states.gather(1, at[..., None].expand(-1, -1, states.shape[-1]))

    def queries(
        self, place: str, source: SourceTokens, target: TargetTokens
    ) -> Bool[Tensor, "b n"]:
        """True for the tokens of each row."""
        asks_all = self.asks_all and self.training
        return self.rows.joined(source, target, asks_all=asks_all)[0] != PAD

    def plain_loss_inputs(self, source: SourceTokens, target: TargetTokens) -> LossInputs:
        """Every target token is predicted from those before it; in training perhaps all tokens."""
        asks_all = self.asks_all and self.training
        read, gold = self.rows.joined(source, target, asks_all=asks_all)
        if not (self.balance and self.training):
            states = self.read(read)
            return (
                LossInputs(states, gold)
                if asks_all
                else _positions_with_loss(states, gold, target.shape[1])
            )
        with listening(self) as heard:
            states = self.read(read)
        # padding is routed too, but does not count in the balance
        is_real, n_tokens = (read != PAD).flatten(), (gold != PAD).sum()
        imbalances = [imbalance(one.shares[is_real], one.chosen[is_real]) for one in heard]
        uneven = torch.stack(imbalances).sum()
        return LossInputs(states, gold, lambda _: self.balance * n_tokens * uneven)

    def maps(self, source: SourceTokens, target: TargetTokens) -> Maps:
        """The map of each whole row, "sequence", and its parts, named as a Transformer's.

        A target row's weights in "decoder" and "cross" together sum to one. The weight of a memory
        slot is shared by the tokens that were merged into it.
        """
        laid = self.rows.layout(source, target)
        with captured(self) as found:
            self.read(laid.row)
        layers = [by_token(one) for one in found.values()]
        own, at = laid.source, laid.target
        predicting = laid.predicting_positions.masked_fill(target == PAD, NOWHERE)
        there = laid.row != PAD
        whole = (there.cumsum(1) - 1).masked_fill(~there, NOWHERE)[:, : int(there.sum(1).max())]
        kinds = {
            "sequence": (whole, whole),
            "encoder": (own, own),
            "decoder": (predicting, at),
            "cross": (predicting, own),
        }
        return {
            kind: tuple(part_of(one, rows, columns) for one in layers)
            for kind, (rows, columns) in kinds.items()
        }

    def in_one_row(self, source: SourceTokens, target: TargetTokens) -> list[tuple[str, int]]:
        """Which token of the first sentence, of "source" or "target", stands at each position."""
        laid = self.rows.layout(source, target)
        found = {
            position: (side, number)
            for side, places in (("source", laid.source), ("target", laid.target))
            for number, position in enumerate(places[0].tolist())
            if position != NOWHERE
        }
        return [found[position] for position in sorted(found)]

    def prompt(self, source: Sequence[int]) -> list[int]:
        """The source, and what stands between it and the answer."""
        prefix, first = self.rows.search_start(torch.tensor([source]))
        begin = BOS if first is None else int(first[0])
        return [*(token for token in prefix[0].tolist() if token != PAD), begin]

    def start(self, source: SourceTokens) -> State:
        """Read a prefix; rows may have different lengths, and padding stands at their ends."""
        prefix, first = self.rows.search_start(source)
        if self.is_movable:
            return self._start(prefix, first)
        groups = rows_by_length(prefix)
        states = tuple(
            self._start(prefix[rows, :length], None if first is None else first[rows])
            for rows, length in groups
        )
        rows = tuple(rows for rows, _ in groups)
        return states[0] if len(states) == 1 else StatesByLength(states, rows)

    def step(self, state: State, tokens: NewTokens) -> tuple[Logits, State]:
        """Logits after each new token; earlier ones are in the state."""
        if isinstance(state, LanguageState):
            return self._step(state, tokens)
        return state.each(lambda one, rows: self._step(one, tokens[rows]))

    def _start(self, prefix: Tensor, first: Tensor | None) -> LanguageState:
        missing = prefix == PAD
        # padding moves to the front, so that it never separates two tokens
        order = (~missing).long().argsort(dim=1, stable=True)
        valid = missing.new_zeros(len(prefix), 0) if bool(missing.any()) else None
        state = LanguageState((None,) * len(self.layers), 0, valid, missing.sum(1))
        if prefix.shape[1]:
            state = self._read_on(state, prefix.gather(1, order))[1]
        return state._replace(first=first)

    def _step(self, state: LanguageState, tokens: NewTokens) -> tuple[Logits, LanguageState]:
        if state.first is not None:
            tokens = torch.cat([state.first[:, None], tokens[:, 1:]], 1)
        x, after = self._read_on(state, tokens)
        return self.output(self.norm(x)), after

    def _read_on(self, state: LanguageState, tokens: NewTokens) -> tuple[NewStates, LanguageState]:
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


def _positions_with_loss(states: Float[Tensor, "b n m"], gold: Tokens, most: int) -> LossInputs:
    """The inputs at positions with a loss: at most `most` of a row, which are contiguous.

    The output layer is the most expensive part, and the positions of a long source need none of it.
    """
    last, has_loss = gold.shape[1] - 1, gold != PAD
    at = has_loss.int().argmax(1, keepdim=True) + torch.arange(most, device=gold.device)
    inside = at.clamp(max=last)
    answers = gold.gather(1, inside).masked_fill(at > last, PAD)
    return LossInputs(states.gather(1, inside[..., None].expand(-1, -1, states.shape[-1])), answers)


def build_language_model(spec: LanguageSpec | TransformerSpec, *, n_tokens: int) -> LanguageModel:
    """Make the decoder-only model: the encoder's layers under a causal mask.

    A Transformer's spec gives its number of decoder layers.
    """
    if isinstance(spec, TransformerSpec):
        spec = LanguageSpec.like(spec)
    parts = Parts(spec, is_causal=True)
    embedding = parts.embedding(n_tokens)
    model = LanguageModel(
        embedding=embedding,
        layers=parts.encoder_layers(spec.n_layers),
        norm=parts.last_norm(),
        output=parts.output(embedding),
        rows=ROWS[spec.rows],
        asks_all=spec.asks == "all",
        is_movable=spec.is_movable,
        word_dropout=spec.word_dropout,
        output_dropout=spec.output_dropout,
        balance=spec.experts.balance if spec.experts else 0.0,
    )
    model.hard = hard_attention(spec.draws)
    scale_output_gain(model, n_tokens)
    check_future(model, model.read, n_tokens)
    check_padding(model, model.read, n_tokens)
    return model


def build_writer(
    spec: LanguageSpec, *, n_source_tokens: int, n_target_tokens: int
) -> LanguageModel:
    """Make the language model for a corpus whose two sides share one vocabulary."""
    spec.check_vocabularies(n_source_tokens, n_target_tokens)
    return build_language_model(spec, n_tokens=n_target_tokens)
