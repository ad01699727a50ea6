"""Beam search: keeps the likeliest answers at each step, and gives the best one that is finished.

    score(y) = log p(y | source) / penalty(|y|)

At each step the `width` likeliest continuations survive; a finished one keeps its place in the
beam. A sentence ends when none of its unfinished hypotheses can still beat its finished ones: a
log-probability never rises, so log p / penalty(longest) bounds an unfinished one's score. A beam of
one is greedy search.

Paper: Sutskever, Vinyals & Le 2014, section 3.2; Huang, Zhao & Ma 2017 (when to stop).
Cost: `width` times greedy search; the source's keys and values are kept once for all.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import torch

from regard.decoding.constraints import ConstrainedChooser
from regard.decoding.length_penalties import GnmtPenalty, LengthPenalty
from regard.decoding.rules import Rule
from regard.decoding.search_engine import Decodable, SearchEngine
from regard.decoding.search_steps import Advance, SearchStep, answered, began
from regard.decoding.sentences import Limits, Sentence, SentenceBatch
from regard.decoding.token_scores import Logits, Scorer, is_short
from regard.decoding.trellis import Chooser, Chosen, Hypothesis, SearchState, Trellis
from regard.errors import SettingError
from regard.models.stepper import EOS, Stepper, rows_of

MAX_BEAM_WIDTH = 2**31
"""The limit of a beam's width (exclusive)."""
DEFAULT_BEAM_WIDTH = 5
"""The width for the verbs and for a loaded run; `Beam()` itself takes the Transformer paper's 4."""


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

    def __call__(
        self, model: Decodable, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """The answers of each sentence."""
        if not sentences:
            return []
        if isinstance(model, SearchEngine):
            return model.search_beam(self, sentences)
        return answered(self, model, sentences, device)

    @property
    def is_told(self) -> bool:
        """A beam may take back every token but its last."""
        return False

    @property
    def steps_key(self) -> Hashable:
        """Equal settings make equal steps."""
        return self

    def batch(self, sentences: Sequence[Sentence], device: torch.device) -> SentenceBatch:
        """The sentences as tensors."""
        return SentenceBatch.of(sentences, self.limits, device)

    def begin(self, model: Stepper, batch: SentenceBatch, state: Any) -> SearchState:
        """The state after the model has read the sources; each sentence begins with one row."""
        return began(batch, state, self.width, self.n_best)

    def advance(self, sentences: Sequence[Sentence], batch: SentenceBatch) -> Advance:
        """The step of the search over these sentences."""
        return partial(self._advance, self.chooser(sentences, batch))

    def answers(self, trellis: Trellis) -> list[list[Hypothesis]]:
        """The best answers of each sentence."""
        return trellis.best(self.n_best, self.penalty)

    def chooser(self, sentences: Sequence[Sentence], batch: SentenceBatch) -> Chooser:
        """The function that decides which continuations survive."""
        scorer = Scorer(batch.rules(self.rules), self.limits.min_tokens)
        if any(sentence.must_contain for sentence in sentences):
            return ConstrainedChooser(self.width, scorer, sentences, batch.most.tolist())
        return partial(_likeliest, scorer, self.width)

    def _advance(self, choose: Chooser, model: Stepper, before: SearchState, t: int) -> SearchStep:
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
        after = SearchState(
            state=model.branch(state, chosen.parent),
            tokens=chosen.token.reshape(-1, 1),
            written=before.written.then(rows, chosen.token.flatten()),
            live=live.masked_fill(done[:, None], -torch.inf),
            places=before.places - ends.sum(1),
            kept=kept,
            most=before.most,
        )
        return SearchStep(chosen, ends, done, after)


def _likeliest(scorer: Scorer, width: int, logits: Logits, before: SearchState) -> Chosen:
    """The `width` best continuations of each sentence."""
    live = before.live
    is_empty = (live == -torch.inf)[..., None]
    if is_short(logits, width):
        # of a short vocabulary the best of all rows together are found faster than those of each
        every = scorer.every(logits, before.written, live.view(-1, 1))
        # an empty row stays empty, whatever the model gives for it
        scores = every.scores.view(*live.shape, -1).masked_fill_(is_empty, -torch.inf)
        score, at = scores.flatten(1).topk(min(width, scores[0].numel()))
        own = every.own.view(len(live), -1).gather(1, at)
        return Chosen(at % logits.shape[1], at // logits.shape[1], own, score)
    best = scorer.best(logits, before.written, width)
    (b, n_rows), each = live.shape, best.tokens.shape[1]
    scores = live[..., None] + best.scores.view(b, n_rows, each)
    scores = scores.masked_fill(is_empty, -torch.inf).flatten(1)
    score, at = scores.topk(min(width, n_rows * each))
    token, own = (x.view(b, -1).gather(1, at) for x in (best.tokens, best.own))
    return Chosen(token, at // each, own, score)
