"""Beam search: the few likeliest beginnings go on, and the best answer among their ends is given.

    score(y) = log p(y | source) / penalty(|y|)

At each step the `width` likeliest continuations survive; one that writes the end token keeps its
place. A sentence ends only when none of its living hypotheses can still beat those it keeps: a
log-probability never rises, so log p / penalty(longest) is the most a living one can reach. A beam
of one is greedy search.

Paper: Sutskever, Vinyals & Le 2014, section 3.2; Huang, Zhao & Ma 2017 (when to stop).
Cost: `width` times greedy search; the source's keys and values are kept once for all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.decoding.choosers import Chooser, Likeliest, Ruled
from regard.decoding.constraints import Wishes
from regard.decoding.hypotheses import Hypothesis
from regard.decoding.lengths import LengthPenalty, PaperPenalty
from regard.decoding.rules import Rule, Written
from regard.decoding.sentences import Batch, Limits, Sentence
from regard.decoding.trellis import Chosen, Trellis
from regard.errors import SettingError
from regard.models.stepper import BOS, EOS, Stepper, rows_of

MAX_BEAM_WIDTH = 2**31
"""What the width of a beam stays below."""
WORTHWHILE = 1 / 8
"""Finished sentences leave the batch once they are this share of it: leaving costs a copy."""


@final
@dataclass(frozen=True, kw_only=True)
class Beam:
    """Beam search with a width, a length penalty, limits and rules."""

    width: int = 4
    """How many hypotheses a sentence has at a time."""
    n_best: int = 1
    """How many answers are given, best first; at most as many as the beam is wide."""
    penalty: LengthPenalty = field(default_factory=PaperPenalty)
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
        self, model: Stepper, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """The answers of each sentence."""
        if not sentences:
            return []
        batch = Batch.of(sentences, self.limits, torch.device(device))
        return _search(self, model, batch, self.chooser(sentences, batch))

    def chooser(self, sentences: Sequence[Sentence], batch: Batch) -> Chooser:
        """What decides which continuations survive."""
        rules, least = batch.rules(self.rules), self.limits.min_tokens
        if any(sentence.must_contain for sentence in sentences):
            return Wishes(self.width, least, rules, sentences, batch.most.tolist())
        return Ruled(self.width, least, rules) if rules else Likeliest(self.width, least)


class Carried(NamedTuple):
    """What one step of the search hands to the next; a line for each sentence, but for the rows."""

    state: Any
    tokens: Int[Tensor, "r 1"]
    """What every row wrote last."""
    written: Written
    live: Float[Tensor, "b w"]
    """The score of every row; minus infinity for a row that is none."""
    places: Int[Tensor, " b"]
    """Rows that each sentence may still have."""
    kept: Float[Tensor, "b k"]
    """The scores of each sentence's best ends, best first."""
    most: Int[Tensor, " b"]
    """The most tokens each answer may have."""


class Advanced(NamedTuple):
    """What one step of the search found."""

    chosen: Chosen
    ends: Bool[Tensor, "b w"]
    done: Bool[Tensor, " b"]
    """Sentences of which no living row can beat what is kept."""
    carried: Carried


def _search(search: Beam, model: Stepper, batch: Batch, choose: Chooser) -> list[list[Hypothesis]]:
    n = len(batch.source)
    trellis, sentences = Trellis(n), list(range(n))
    carried = begin(search, batch, model.start(batch.source))
    for t in range(1, batch.longest + 1):
        step = advance(search, model, choose, carried, t)
        trellis.record(sentences, step.chosen, step.ends)
        carried, is_done = step.carried, step.done.tolist()
        if all(is_done):
            break
        if sum(is_done) >= WORTHWHILE * len(is_done):
            stay = [i for i, over in enumerate(is_done) if not over]
            sentences = [sentences[i] for i in stay]
            carried = _without(model, carried, torch.tensor(stay, device=batch.source.device))
    return trellis.best(search.n_best, search.penalty)


def begin(search: Beam, batch: Batch, state: Any) -> Carried:
    """The model has read the sources; nothing is written yet."""
    device, n = batch.source.device, len(batch.source)
    return Carried(
        state=state,
        tokens=torch.full((n, 1), BOS, device=device),
        written=Written.nothing(n, device),
        live=torch.zeros(n, 1, device=device),
        places=torch.full((n,), search.width, device=device),
        kept=torch.full((n, search.n_best), -torch.inf, device=device),
        most=batch.most,
    )


def advance(search: Beam, model: Stepper, choose: Chooser, before: Carried, t: int) -> Advanced:
    """Write token t of every row; nothing in here waits for the device."""
    logits, state = model.step(before.state, before.tokens)
    chosen = choose(logits[:, -1], before.live, before.places, before.written)
    ranks = torch.arange(chosen.token.shape[1], device=logits.device)
    survives = ranks < before.places[:, None]
    chosen = chosen._replace(score=chosen.score.where(survives, -torch.inf))
    ends = (chosen.token == EOS) | (before.most <= t)[:, None]
    ends = ends & (chosen.score > -torch.inf)
    ended = (chosen.score / search.penalty.divisor(float(t))).where(ends, -torch.inf)
    kept = torch.cat([before.kept, ended], 1).topk(search.n_best).values
    live = chosen.score.masked_fill(ends, -torch.inf)
    done = live.amax(1) / search.penalty.divisor(before.most.float()) <= kept[:, -1]
    rows = rows_of(chosen.parent, len(before.tokens))
    carried = Carried(
        state=model.branch(state, chosen.parent),
        tokens=chosen.token.reshape(-1, 1),
        written=before.written.then(rows, chosen.token.flatten()),
        live=live.masked_fill(done[:, None], -torch.inf),
        places=before.places - ends.sum(1),
        kept=kept,
        most=before.most,
    )
    return Advanced(chosen, ends, done, carried)


def _without(model: Stepper, carried: Carried, stay: Int[Tensor, " b"]) -> Carried:
    """Only some sentences, with all their rows."""
    width = carried.live.shape[1]
    rows = (stay[:, None] * width + torch.arange(width, device=stay.device)).flatten()
    return Carried(
        state=model.select(carried.state, rows),
        tokens=carried.tokens[rows],
        written=carried.written.keep(rows),
        live=carried.live[stay],
        places=carried.places[stay],
        kept=carried.kept[stay],
        most=carried.most[stay],
    )
