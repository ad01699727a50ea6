"""Greedy search: always the likeliest next token, until the end token or the length limit.

    y[t] = argmax p(y | source, y[:t])

`advance_apart`, which sampling uses too, decodes rows independently.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Int
from torch import Tensor

from regard.decoding.beam import Beam
from regard.decoding.length_penalties import NoPenalty
from regard.decoding.rules import GeneratedTokens, Rule
from regard.decoding.search_engine import Decodable, SearchEngine
from regard.decoding.search_steps import Advance, SearchStep, answered, began, streamed
from regard.decoding.sentences import Limits, Sentence, SentenceBatch
from regard.decoding.token_scores import BestTokens, Scorer
from regard.decoding.trellis import Chosen, Hypothesis, SearchState, Trellis
from regard.errors import SettingError
from regard.models.stepper import EOS, PAD, Stepper

Pick = Callable[[Tensor, GeneratedTokens], BestTokens]
"""Gives one token for each row; it may overwrite the logits."""


@final
@dataclass(frozen=True, kw_only=True)
class Greedy:
    """Greedy search with limits and rules."""

    limits: Limits = field(default_factory=Limits)
    rules: Sequence[Rule] = ()

    def __call__(
        self, model: Decodable, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """One answer for each sentence."""
        if not sentences:
            return []
        refuse_constraints("greedy", sentences)
        if isinstance(model, SearchEngine):
            return model.search_beam(self.as_beam(), sentences)
        return answered(self, model, sentences, device)

    def stream(
        self, model: Stepper, sentence: Sentence, *, device: torch.device | str = "cpu"
    ) -> Iterator[int]:
        """The tokens of the answer to one sentence, each as soon as it is known."""
        refuse_constraints("greedy", [sentence])
        yield from streamed(self, model, sentence, device)

    @property
    def is_told(self) -> bool:
        """A token is never taken back."""
        return True

    @property
    def steps_key(self) -> Hashable:
        """Equal settings make equal steps."""
        return self

    def batch(self, sentences: Sequence[Sentence], device: torch.device) -> SentenceBatch:
        """The sentences as tensors."""
        return SentenceBatch.of(sentences, self.limits, device)

    def begin(self, model: Stepper, batch: SentenceBatch, state: Any) -> SearchState:
        """The state after the model has read the sources; a sentence has one row."""
        return began_apart(model, batch, state, 1)

    def advance(self, sentences: Sequence[Sentence], batch: SentenceBatch) -> Advance:
        """The step of the search over these sentences."""
        scorer = Scorer(batch.rules(self.rules), self.limits.min_tokens)
        return partial(advance_apart, lambda logits, written: scorer.best(logits, written, 1))

    def answers(self, trellis: Trellis) -> list[list[Hypothesis]]:
        """The one answer of each sentence."""
        return trellis.every()

    def as_beam(self) -> Beam:
        """The same search as a beam of one."""
        return Beam(width=1, penalty=NoPenalty(), limits=self.limits, rules=self.rules)


def greedy(
    model: Stepper, source: Int[Tensor, "b s"], *, max_tokens: int, rules: Sequence[Rule] = ()
) -> list[list[int]]:
    """The tokens of each row, without the end token. Finished rows leave the batch."""
    sentences = [Sentence([token for token in row if token != PAD]) for row in source.tolist()]
    search = Greedy(limits=Limits(max_tokens=max_tokens), rules=rules)
    found = search(model, sentences, device=source.device)
    return [list(answers[0].tokens) for answers in found]


def refuse_constraints(who: str, sentences: Sequence[Sentence]) -> None:
    """Refuse required phrases: a search with independent rows cannot meet them."""
    if any(sentence.must_contain for sentence in sentences):
        raise SettingError(
            f"{who}: phrases that an answer must contain need a beam of at least 2. Take one, or "
            "leave the phrases out."
        )


def began_apart(model: Stepper, batch: SentenceBatch, state: Any, n_each: int) -> SearchState:
    """The state before the first token of `n_each` independent rows of every sentence."""
    n, device = len(batch.source), batch.source.device
    one = began(batch, state, n_each, 0)
    rows = torch.arange(n, device=device).repeat_interleave(n_each)
    return one._replace(
        state=model.branch(state, torch.zeros(n, n_each, dtype=torch.int64, device=device)),
        tokens=one.tokens[rows],
        written=one.written.keep(rows),
        live=torch.zeros(n, n_each, device=device),
    )


def advance_apart(pick: Pick, model: Stepper, before: SearchState, t: int) -> SearchStep:
    """Write token t of every row; each row goes on by itself."""
    logits, state = model.step(before.state, before.tokens)
    best = pick(logits[:, -1], before.written)
    token, own, score = (x.view(before.live.shape) for x in (best.tokens, best.own, best.scores))
    # a finished row is an empty row
    total = before.live + score
    ends = ((token == EOS) | (before.most <= t)[:, None]) & (total > -torch.inf)
    live = total.masked_fill(ends, -torch.inf)
    itself = torch.arange(token.shape[1], device=token.device).expand(token.shape)
    after = before._replace(
        state=state,
        tokens=token.reshape(-1, 1),
        written=before.written.longer(token.flatten()),
        live=live,
        places=before.places - ends.sum(1),
    )
    return SearchStep(Chosen(token, itself, own, total), ends, (live == -torch.inf).all(1), after)
