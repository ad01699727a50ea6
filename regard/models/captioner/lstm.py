"""The decoder of Show, Attend and Tell: an LSTM that attends to the picture for every word.

    ā = mean of a[i],   h[0] = f_h(ā),   c[0] = f_c(ā),   f(x) = tanh(W relu(W' x))
    z[t] = context of h[t-1],   h[t], c[t] = LSTM([E y[t-1]; z[t]], h[t-1], c[t-1])
    logits = L_o tanh(E y[t-1] + L_h h[t] + L_z z[t] + b)

The old state attends; the output layer reads the new one and the context. U a[i] of the score is
computed once for a picture, and the words' part of the gates once for a caption.

An LSTM that remembers an object after one step writes its other words from memory, with arbitrary
attention. Three choices, none of them in the paper, make each word depend on its own context:

    look = "after"       z[t] is the context of h[t], and the LSTM reads none (attention_cell.py)
    readout = "seen"     logits = L_o tanh(E y[t-1] + L_z z[t] + b), without the state
    state_dropout = p    in training the output layer reads m[t] h[t], m[t] ~ Bernoulli(1 - p), the
                         whole vector or none of it: of many redundant numbers, ordinary dropout
                         always lets some through

Dropout is inside f, on h[t] for the output layer, and on the tanh, as in the authors' code;
docs/captions.md tells where that differs from the paper.

Paper: Xu et al. 2015, sections 3.1.2 and 4.2.1, equations 1 to 7; Neverova et al. 2016, section 3.3
(leaving out a whole input).
Cost: time O(t · l · d_attention) for a caption, beside an LSTM's.
"""

from collections.abc import Iterator
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import attend
from regard.attention.dropout import Dropout
from regard.models.captioner.attention_cell import AttentionLstmCell, AttentionStep
from regard.models.captioner.focus import CaptionLooks, Draw
from regard.models.captioner.spec import CaptionerSpec
from regard.models.shapes import Annotations, Maps, NewStates, NewTokens, States, TargetTokens
from regard.models.stepper import PAD, DecodingState, at_rows
from regard.models.trainable import LossInputs, shifted


@final
class StateDropout(nn.Module):
    """Zeros whole vectors at random in training; the others stay unscaled."""

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        self.p = p

    def forward(self, state: Float[Tensor, "*b n"]) -> Float[Tensor, "*b n"]:
        """Each vector unchanged or all zeros."""
        if not self.training or not self.p:
            return state
        draws = torch.rand(*state.shape[:-1], 1, device=state.device)
        return state * (draws >= self.p).to(state.dtype)


@final
class LstmDecoder(nn.Module):
    """Writes a caption, attending to the picture once for each word."""

    def __init__(self, spec: CaptionerSpec, embedding: nn.Embedding, d_annotation: int) -> None:
        super().__init__()
        self.embedding, self.dropout = embedding, Dropout(spec.dropout)
        self.f_h, self.f_c = (
            nn.Sequential(
                nn.Linear(d_annotation, d_annotation),
                nn.ReLU(),
                Dropout(spec.dropout),
                nn.Linear(d_annotation, spec.d_hidden),
                nn.Tanh(),
            )
            for _ in range(2)
        )
        self.cell = AttentionLstmCell(spec, d_annotation)
        self.state_dropout = StateDropout(spec.state_dropout)
        has_state, m = spec.readout == "deep", spec.d_embedding
        self.L_h = nn.Linear(spec.d_hidden, m, bias=False) if has_state else None
        self.L_z = nn.Linear(d_annotation, m)

    def hidden(self, annotations: Annotations, target: TargetTokens) -> States:
        """The input of the output layer."""
        return self.step(self.start(annotations), target)[0]

    def loss_inputs(self, annotations: Annotations, target: TargetTokens) -> LossInputs:
        """Every target token is predicted; in training the loss may depend on the weights too."""
        if not self.training:
            return LossInputs(self.hidden(annotations, shifted(target)), target)
        focus, state = self.cell.focus, self.start(annotations)
        gold = target.repeat_interleave(focus.n_readings, 0)
        each = torch.arange(len(target), device=target.device).repeat_interleave(focus.n_readings)
        word = self.embedding(shifted(gold))
        steps = self._steps(word, state._replace(rows=at_rows(state.rows, each)))
        return LossInputs(self._readout(word, steps), gold, focus.extra(_watched(steps, gold)))

    def maps(self, annotations: Annotations, target: TargetTokens) -> Maps:
        """The softmax of every step's scores, under "cross"; of hard focus it is the same."""
        steps = self._steps(self.embedding(target), self.start(annotations))
        query, value = torch.stack([step.query for step in steps], 1)[:, None], annotations[:, None]
        return {"cross": (attend(query, value, value, score=self.cell.score).map,)}

    def gates(self, annotations: Annotations, target: TargetTokens) -> Float[Tensor, "b t"]:
        """β: near 0 where a word needs no look."""
        steps = self._steps(self.embedding(target), self.start(annotations))
        return torch.cat([step.gate for step in steps], 1)

    def start(self, annotations: Annotations) -> DecodingState:
        """Read the picture: project its keys and make the LSTM's first state."""
        mean = annotations.mean(1)
        return DecodingState(self.cell.remember(annotations), ((self.f_h(mean), self.f_c(mean)),))

    def step(self, state: DecodingState, tokens: NewTokens) -> tuple[NewStates, DecodingState]:
        """The output layer's input after each new token."""
        word = self.embedding(tokens)
        steps = self._steps(word, state)
        return self._readout(word, steps), DecodingState(state.source, steps[-1].cells)

    def repeated(self) -> Iterator[nn.Module]:
        """The LSTM's step, which is compiled."""
        yield self.cell

    def _steps(self, word: NewStates, state: DecodingState) -> list[AttentionStep]:
        (memory, cells, _), ahead, done = state, self.cell.cells.steps(word), []
        expected = self.cell.focus.expectation_rows(len(word), word.device)
        for now in ahead:
            done.append(self.cell(cells, memory, expected, now))
            cells = done[-1].cells
            ahead.saw(done[-1].read)
        return done

    def _readout(self, word: NewStates, steps: list[AttentionStep]) -> NewStates:
        """The deep output of all steps at once."""
        # drawn even where the state is unused, so that a seed gives the same draws afterwards
        state = self.state_dropout(self.dropout(torch.stack([step.state for step in steps], 1)))
        seen = torch.stack([step.seen for step in steps], 1)
        known = word if self.L_h is None else word + self.L_h(state)
        return self.dropout((known + self.L_z(seen)).tanh())


def _watched(steps: list[AttentionStep], gold: NewTokens) -> CaptionLooks:
    """The attention weights of captions, without the steps after their ends."""
    drawn = zip(*(step.focused.chance for step in steps if step.focused.chance), strict=True)
    chance = [torch.stack(each, 1) for each in drawn]
    return CaptionLooks(
        torch.stack([step.focused.likely for step in steps], 1),
        Draw(*chance) if chance else None,
        gold != PAD,
    )
