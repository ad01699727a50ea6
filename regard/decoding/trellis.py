"""Trellis: stores every step of a search on the device, and reads the answers from it at the end.

tokens of a hypothesis = token[t, slot], token[t - 1, parent[t, slot]], …
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.length_penalties import LengthPenalty, NoPenalty
from regard.decoding.rules import GeneratedTokens
from regard.errors import CheckpointError
from regard.models.stepper import EOS

DONE_SHARE = 1 / 8
"""Finished sentences leave the batch once they are this share of it, as each leaving is a copy."""


class Hypothesis(NamedTuple):
    """One answer with its score and log-probabilities."""

    tokens: tuple[int, ...]
    """Without begin and end."""
    score: float
    """The score in the search: after rules and length penalty."""
    log_probability: float
    """The model's log-probability, with the end token if it was written."""
    token_log_probabilities: Sequence[float]
    """The model's log-probabilities by token; with one for the end token if it was written."""
    has_ended: bool
    """Whether the end token was written; if not, the limit cut it."""


class Chosen(NamedTuple):
    """The rows with which each sentence goes on, or ends."""

    token: Int[Tensor, "b w"]
    parent: Int[Tensor, "b w"]
    """The sentence's old row that each one continues."""
    own: Float[Tensor, "b w"]
    """The token's log-probability by the model."""
    score: Float[Tensor, "b w"]
    """The whole row's log-probability after rules; minus infinity for an empty row."""


class SearchState(NamedTuple):
    """The state between steps of the search, with an entry for each sentence or row."""

    state: Any
    tokens: Int[Tensor, "r 1"]
    """The last token of every row."""
    written: GeneratedTokens
    live: Float[Tensor, "b w"]
    """The score of every row; minus infinity for an empty row."""
    places: Int[Tensor, " b"]
    """Rows that each sentence may still have."""
    kept: Float[Tensor, "b k"]
    """The scores of each sentence's best finished answers, best first."""
    most: Int[Tensor, " b"]
    """The most tokens each answer may have."""


Chooser = Callable[[Tensor, SearchState], Chosen]
"""Takes the logits of the next token of every row, which it may overwrite, and the state before it;
gives the rows to continue with, best first. Those beyond a sentence's `places` are not used."""


class _Ends(NamedTuple):
    """The ends of answers, as arrays of one length."""

    sentence: np.ndarray
    step: np.ndarray
    slot: np.ndarray
    score: np.ndarray

    def at(self, places: np.ndarray) -> "_Ends":
        return _Ends(*(column[places] for column in self))


_KINDS = {"token": np.int64, "parent": np.int64, "own": float, "score": float, "ends": bool}


class Trellis:
    """The chosen rows of each step; sentences that left the batch are absent from later steps."""

    def __init__(self, n_sentences: int) -> None:
        self._n_sentences = n_sentences
        self.sentences: Sequence[int] = range(n_sentences)
        """The sentences that are still in the batch."""
        self._steps: list[tuple[Sequence[int], dict[str, Tensor]]] = []

    def record(self, chosen: Chosen, ends: Bool[Tensor, "b w"]) -> None:
        """Store one step of the sentences that are still in the batch, without a copy."""
        self._steps.append((self.sentences, {**chosen._asdict(), "ends": ends}))

    def drop(self, is_done: Sequence[bool]) -> list[int]:
        """The indices of the sentences that stay; empty if too few are finished to leave."""
        if sum(is_done) < DONE_SHARE * len(is_done):
            return []
        stay = [i for i, over in enumerate(is_done) if not over]
        self.sentences = [self.sentences[i] for i in stay]
        return stay

    def best(self, count: int, penalty: LengthPenalty) -> list[list[Hypothesis]]:
        """The best answers of each sentence, best first."""
        table = self._table()
        ends = _ends(table, penalty)
        ends = ends.at(np.lexsort((-ends.score, ends.sentence)))
        first = np.searchsorted(ends.sentence, ends.sentence)
        return self._read(table, ends.at(np.arange(len(first)) - first < count))

    def every(self) -> list[list[Hypothesis]]:
        """All answers of each sentence, in the order of their rows."""
        table = self._table()
        ends = _ends(table, NoPenalty())
        return self._read(table, ends.at(np.lexsort((ends.slot, ends.sentence))))

    def _table(self) -> dict[str, np.ndarray]:
        """All steps as arrays of shape steps × sentences × width, moved from the device at once."""
        columns = {name: [step[name] for _, step in self._steps] for name in _KINDS}
        shapes = [ends.shape for ends in columns["ends"]]
        width = max(shape[1] for shape in shapes)
        if all(shape == (self._n_sentences, width) for shape in shapes):
            # the usual case: no sentence left the batch, and all columns are moved as they are
            return {name: torch.stack(column).cpu().numpy() for name, column in columns.items()}
        whole = {}
        for name, column in columns.items():
            whole[name] = np.zeros((len(shapes), self._n_sentences, width), _KINDS[name])
            flat = torch.cat([tensor.flatten() for tensor in column]).cpu().numpy()
            parts = np.split(flat, np.cumsum([tensor.numel() for tensor in column])[:-1])
            for t, (sentences, _) in enumerate(self._steps):
                lines = parts[t].reshape(shapes[t])
                whole[name][t, np.array(sentences), : lines.shape[1]] = lines
        return whole

    def _read(self, table: dict[str, np.ndarray], ends: _Ends) -> list[list[Hypothesis]]:
        """Follow the parents of each end."""
        tokens, own = _followed(table, ends)
        has_ended = tokens[np.arange(len(tokens)), ends.step] == EOS
        # whole columns become Python's numbers at once, which is faster
        columns = (ends.sentence, tokens, own, ends.step + 1, ends.score, own.sum(1), has_ended)
        found: list[list[Hypothesis]] = [[] for _ in range(self._n_sentences)]
        for sentence, words, each, length, score, total, ended in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            found[sentence].append(
                Hypothesis(
                    tuple(words[: length - ended]), score, total, tuple(each[:length]), ended
                )
            )
        if not all(found):
            raise CheckpointError(
                "decoding: the model gives no finite score to any answer. Its weights are damaged, "
                "or its training ran away; train it with a lower training.learning_rate."
            )
        return found


def _followed(table: dict[str, np.ndarray], ends: _Ends) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of each end and their log-probabilities, step by step; zeros behind it."""
    n_steps, _, width = table["ends"].shape
    token, parent, each = (table[name].reshape(n_steps, -1) for name in ("token", "parent", "own"))
    tokens = np.zeros((n_steps, len(ends.slot)), np.int64)
    own = np.zeros(tokens.shape)
    line, slot = ends.sentence * width, ends.slot
    for t in range(n_steps - 1, -1, -1):
        at, within = line + slot, ends.step >= t
        # plain columns of plain numbers: `take` is several times as fast as indices in a tuple
        token[t].take(at, out=tokens[t], mode="clip")
        own[t] = np.where(within, each[t].take(at), 0.0)
        slot = np.where(within, parent[t].take(at), slot)
    return tokens.T.copy(), own.T.copy()


def _ends(table: dict[str, np.ndarray], penalty: LengthPenalty) -> _Ends:
    step, sentence, slot = table["ends"].nonzero()
    lengths = np.array([penalty.divisor(float(t + 1)) for t in range(len(table["ends"]))])
    return _Ends(sentence, step, slot, table["score"][step, sentence, slot] / lengths[step])
