"""Beam search: keeps the likeliest answers at each step, and gives the best one that is finished.

    score(y) = log p(y | source) / penalty(|y|)

At each step the `width` likeliest continuations survive; a finished one keeps its place in the
beam. A sentence ends when none of its unfinished hypotheses can still beat its finished ones: a
log-probability never rises, so log p / penalty(longest) bounds an unfinished one's score. A beam of
one is greedy search.

Paper: Sutskever, Vinyals & Le 2014, section 3.2; Huang, Zhao & Ma 2017 (when to stop).
Cost: `width` times greedy search; the source's keys and values are kept once for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.decoding.constraints import ConstrainedChooser
from regard.decoding.length_penalties import GnmtPenalty, LengthPenalty
from regard.decoding.rules import GeneratedTokens, Rule
from regard.decoding.search_engine import Decodable, SearchEngine
from regard.decoding.sentences import Limits, Sentence, SentenceBatch, cut_short
from regard.decoding.token_scores import Logits, Scorer
from regard.decoding.trellis import BeamState, Chooser, Chosen, Hypothesis, Trellis
from regard.errors import SettingError
from regard.models.stepper import BOS, EOS, Stepper, rows_of

MAX_BEAM_WIDTH = 2**31
"""The limit of a beam's width (exclusive)."""
DEFAULT_BEAM_WIDTH = 5
"""The width for the verbs and for a loaded run; `Beam()` itself takes the Transformer paper's 4."""


class BeamStep(NamedTuple):
    """The result of one step of the search."""

    chosen: Chosen
    ends: Bool[Tensor, "b w"]
    done: Bool[Tensor, " b"]
    """Sentences in which no unfinished row can beat the finished answers."""
    after: BeamState


@final
@dataclass(frozen=True, kw_only=True)
class Beam:
    """Beam search with a width, a length penalty, limits and rules."""

    width: int = 4
    """Hypotheses of a sentence at a time."""
    n_best: int = 1
    """How many answers are given, best first; at most as many as the beam is wide."""
    penalty: LengthPenalty = field(default_factory=GnmtPenalty)
    limits: Limits = field(default_factory=Limits)
    rules: Sequence[Rule] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= self.width < MAX_BEAM_WIDTH:
            raise SettingError(
                f"beam: expected 1 <= n_best <= width < {MAX_BEAM_WIDTH:,}, got "
                f"n_best = {self.n_best} and width = {self.width}."
            )

    @torch.inference_mode()
    def __call__(
        self, model: Decodable, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """The answers of each sentence."""
        if not sentences:
            return []
        if isinstance(model, SearchEngine):
            return model.search_beam(self, sentences)
        batch = SentenceBatch.of(sentences, self.limits, torch.device(device))
        choose = self.chooser(sentences, batch)
        trellis, beam = Trellis(len(sentences)), self.begin(batch, model.start(batch.source))
        for t in range(1, batch.longest + 1):
            followers = [sentences[place].follower for place in trellis.sentences]
            beam = beam._replace(most=cut_short(beam.most, followers, t))
            step = self.advance(model, choose, beam, t)
            trellis.record(step.chosen, step.ends)
            beam, is_done = step.after, step.done.tolist()
            if all(is_done):
                break
            if stay := trellis.drop(is_done):
                beam = _keep(model, beam, torch.tensor(stay, device=batch.source.device))
        return trellis.best(self.n_best, self.penalty)

    def chooser(self, sentences: Sequence[Sentence], batch: SentenceBatch) -> Chooser:
        """The function that decides which continuations survive."""
        scorer = Scorer(batch.rules(self.rules), self.limits.min_tokens)
        if any(sentence.must_contain for sentence in sentences):
            return ConstrainedChooser(self.width, scorer, sentences, batch.most.tolist())
        return partial(_likeliest, scorer, self.width)

    def begin(self, batch: SentenceBatch, state: Any) -> BeamState:
        """The state after the model has read the sources, before the first token."""
        device, n = batch.source.device, len(batch.source)
        return BeamState(
            state=state,
            tokens=torch.full((n, 1), BOS, device=device),
            written=GeneratedTokens.nothing(n, device),
            live=torch.zeros(n, 1, device=device),
            places=torch.full((n,), self.width, device=device),
            kept=torch.full((n, self.n_best), -torch.inf, device=device),
            most=batch.most,
        )

    def advance(self, model: Stepper, choose: Chooser, before: BeamState, t: int) -> BeamStep:
        """Write token t of every row, without waiting for the device."""
        logits, state = model.step(before.state, before.tokens)
        chosen = choose(logits[:, -1], before)
        ranks = torch.arange(chosen.token.shape[1], device=logits.device)
        survives = ranks < before.places[:, None]
        chosen = chosen._replace(score=chosen.score.where(survives, -torch.inf))
        ends = (chosen.token == EOS) | (before.most <= t)[:, None]
        ends = ends & (chosen.score > -torch.inf)
        ended = (chosen.score / self.penalty.divisor(float(t))).where(ends, -torch.inf)
        kept = torch.cat([before.kept, ended], 1).topk(self.n_best).values
        live = chosen.score.masked_fill(ends, -torch.inf)
        done = live.amax(1) / self.penalty.divisor(before.most.float()) <= kept[:, -1]
        rows = rows_of(chosen.parent, len(before.tokens))
        after = BeamState(
            state=model.branch(state, chosen.parent),
            tokens=chosen.token.reshape(-1, 1),
            written=before.written.then(rows, chosen.token.flatten()),
            live=live.masked_fill(done[:, None], -torch.inf),
            places=before.places - ends.sum(1),
            kept=kept,
            most=before.most,
        )
        return BeamStep(chosen, ends, done, after)


def _likeliest(scorer: Scorer, width: int, logits: Logits, before: BeamState) -> Chosen:
    """The `width` best continuations of each sentence, from the best ones of each of its rows."""
    best, live = scorer.best(logits, before.written, width), before.live
    (b, n_rows), each = live.shape, best.tokens.shape[1]
    # an empty row stays empty, whatever the model gives for it
    scores = live[..., None] + best.scores.view(b, n_rows, each)
    scores = scores.where(live[..., None] > -torch.inf, -torch.inf).flatten(1)
    score, at = scores.topk(min(width, n_rows * each))
    token, own = (x.view(b, -1).gather(1, at) for x in (best.tokens, best.own))
    return Chosen(token, at // each, own, score)


def _keep(model: Stepper, beam: BeamState, stay: Int[Tensor, " b"]) -> BeamState:
    """The state of some sentences, with all their rows."""
    width = beam.live.shape[1]
    rows = (stay[:, None] * width + torch.arange(width, device=stay.device)).flatten()
    return BeamState(
        state=model.select(beam.state, rows),
        tokens=beam.tokens[rows],
        written=beam.written.keep(rows),
        live=beam.live[stay],
        places=beam.places[stay],
        kept=beam.kept[stay],
        most=beam.most[stay],
    )
