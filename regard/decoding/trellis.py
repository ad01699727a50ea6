"""Trellis: every step of a search, kept on the device and read backwards once, at the end.

tokens of a hypothesis = token[t, slot], token[t - 1, parent[t, slot]], …
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.hypotheses import Hypothesis
from regard.decoding.lengths import LengthPenalty
from regard.errors import CheckpointError
from regard.models.stepper import EOS


class Chosen(NamedTuple):
    """The rows with which each sentence goes on, or ends."""

    token: Int[Tensor, "b w"]
    parent: Int[Tensor, "b w"]
    """The sentence's old row that each one continues."""
    own: Float[Tensor, "b w"]
    """The token's log-probability, as the model has it."""
    score: Float[Tensor, "b w"]
    """The whole row's, as the rules changed it; minus infinity for a row that is none."""


class _Step(NamedTuple):
    lines: slice | np.ndarray
    """Which sentences they are."""
    chosen: Chosen
    ends: Bool[Tensor, "b w"]


class _Ends(NamedTuple):
    """Where answers end, all as arrays of one length."""

    sentence: np.ndarray
    step: np.ndarray
    slot: np.ndarray
    score: np.ndarray


class Trellis:
    """What was chosen at each step; sentences that left a batch are in none of the later steps."""

    def __init__(self, n_sentences: int) -> None:
        self._n_sentences = n_sentences
        self._steps: list[_Step] = []

    def record(self, sentences: Sequence[int], chosen: Chosen, ends: Bool[Tensor, "b w"]) -> None:
        """Keep one step of the sentences that are still there; nothing is copied."""
        lines = slice(None) if len(sentences) == self._n_sentences else np.array(sentences)
        self._steps.append(_Step(lines, chosen, ends))

    def best(self, count: int, penalty: LengthPenalty) -> list[list[Hypothesis]]:
        """The best answers of each sentence, best first."""
        table = self._table()
        ends = _ends(table, penalty)
        order = np.lexsort((-ends.score, ends.sentence))
        return self._read(table, _Ends(*(column[order] for column in ends)), count)

    def every(self, penalty: LengthPenalty) -> list[list[Hypothesis]]:
        """All answers of each sentence, in the order of their rows."""
        table = self._table()
        ends = _ends(table, penalty)
        order = np.lexsort((ends.slot, ends.sentence))
        return self._read(table, _Ends(*(column[order] for column in ends)), len(order))

    def _table(self) -> dict[str, np.ndarray]:
        """All steps as arrays of shape steps × sentences × width, moved from the device at once."""
        if self._is_whole():
            # the usual case: nobody left the batch, and all columns are moved as they are
            return {name: torch.stack(self._column(name)).cpu().numpy() for name in _KINDS}
        width = max(step.ends.shape[1] for step in self._steps)
        shape = (len(self._steps), self._n_sentences, width)
        whole = {name: np.zeros(shape, kind) for name, kind in _KINDS.items()}
        parts = {name: self._moved(name) for name in _KINDS}
        for t, step in enumerate(self._steps):
            for name, moved in parts.items():
                lines = moved[t].reshape(step.ends.shape)
                whole[name][t, step.lines, : lines.shape[1]] = lines
        return whole

    def _moved(self, name: str) -> list[np.ndarray]:
        """One column of every step."""
        tensors = self._column(name)
        flat = torch.cat([tensor.flatten() for tensor in tensors]).cpu().numpy()
        return np.split(flat, np.cumsum([tensor.numel() for tensor in tensors])[:-1])

    def _column(self, name: str) -> list[Tensor]:
        if name == "ends":
            return [step.ends for step in self._steps]
        return [getattr(step.chosen, name) for step in self._steps]

    def _is_whole(self) -> bool:
        shape = self._steps[0].ends.shape
        return all(
            isinstance(step.lines, slice) and step.ends.shape == shape for step in self._steps
        )

    def _read(
        self, table: dict[str, np.ndarray], ends: _Ends, count: int
    ) -> list[list[Hypothesis]]:
        """Follow the parents of each sentence's first `count` ends."""
        first = np.searchsorted(ends.sentence, ends.sentence)
        wanted = np.arange(len(first)) - first < count
        ends = _Ends(*(column[wanted] for column in ends))
        tokens, own = self._followed(table, ends)
        found: list[list[Hypothesis]] = [[] for _ in range(self._n_sentences)]
        for sentence, answer in zip(
            ends.sentence.tolist(), _hypotheses(tokens, own, ends), strict=True
        ):
            found[sentence].append(answer)
        if not all(found):
            raise CheckpointError(
                "decoding: the model gives no finite score to any answer. Its weights are damaged, "
                "or its training ran away; train it with a lower training.learning_rate."
            )
        return found

    def _followed(self, table: dict[str, np.ndarray], ends: _Ends) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of each end and their log-probabilities, step by step; zeros behind it."""
        n_steps, _, width = table["ends"].shape
        token, parent, each = (table[name].reshape(n_steps, -1) for name in _FOLLOWED)
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


_FOLLOWED = ("token", "parent", "own")
_KINDS = {"token": np.int64, "parent": np.int64, "own": float, "score": float, "ends": bool}


def _ends(table: dict[str, np.ndarray], penalty: LengthPenalty) -> _Ends:
    step, sentence, slot = table["ends"].nonzero()
    lengths = np.array([penalty.divisor(float(t + 1)) for t in range(len(table["ends"]))])
    return _Ends(sentence, step, slot, table["score"][step, sentence, slot] / lengths[step])


def _hypotheses(tokens: np.ndarray, own: np.ndarray, ends: _Ends) -> list[Hypothesis]:
    """One answer for each end; whole columns become Python's numbers at once, which is faster."""
    has_ended = tokens[np.arange(len(tokens)), ends.step] == EOS
    columns = (tokens, own, ends.step + 1, ends.score, own.sum(1), has_ended)
    return [
        Hypothesis(tuple(words[: length - ended]), score, total, tuple(each[:length]), ended)
        for words, each, length, score, total, ended in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]
