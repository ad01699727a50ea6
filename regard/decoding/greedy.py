"""Greedy search: always the likeliest next token, until the end token or the length limit.

    y[t] = argmax p(y | source, y[:t])

`walked`, which sampling uses too, decodes rows independently.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding.beam import Beam
from regard.decoding.length_penalties import NoPenalty
from regard.decoding.rules import GeneratedTokens, Rule
from regard.decoding.search_engine import Decodable, SearchEngine
from regard.decoding.sentences import Follower, Limits, Sentence, SentenceBatch, cut_short
from regard.decoding.token_scores import BestTokens, Scorer
from regard.decoding.trellis import Chosen, Hypothesis, Trellis
from regard.errors import SettingError
from regard.models.stepper import BOS, EOS, PAD, Stepper

Walk = Generator[Int[Tensor, " r"], None, list[list[Hypothesis]]]
"""The tokens of every step of all rows that are left, and the answers at the end."""


@final
@dataclass(frozen=True, kw_only=True)
class Greedy:
    """Greedy search with limits and rules."""

    limits: Limits = field(default_factory=Limits)
    rules: Sequence[Rule] = ()

    @torch.inference_mode()
    def __call__(
        self, model: Decodable, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """One answer for each sentence."""
        if not sentences:
            return []
        refuse_constraints("greedy", sentences)
        if isinstance(model, SearchEngine):
            return model.search_beam(self.as_beam(), sentences)
        return walk(self._walked(model, sentences, device))

    def stream(
        self, model: Stepper, sentence: Sentence, *, device: torch.device | str = "cpu"
    ) -> Iterator[int]:
        """The tokens of the answer to one sentence, each as soon as it is known."""
        refuse_constraints("greedy", [sentence])
        yield from first_row(self._walked(model, [sentence], device))

    def _walked(
        self, model: Stepper, sentences: Sequence[Sentence], device: torch.device | str
    ) -> Walk:
        batch = SentenceBatch.of(sentences, self.limits, torch.device(device))
        scorer = Scorer(batch.rules(self.rules), self.limits.min_tokens)
        followers = [one.follower for one in sentences]
        return walked(
            model, batch, 1, lambda logits, written: scorer.best(logits, written, 1), followers
        )

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


def walk(steps: Walk) -> list[list[Hypothesis]]:
    """The answers at the end of a walk."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast(list[list[Hypothesis]], end.value)


def first_row(steps: Walk) -> Iterator[int]:
    """The tokens of the first row, without its end token."""
    while True:
        # the mode ends with each step, so that the caller is never in it
        with torch.inference_mode():
            tokens = next(steps, None)
        if tokens is None or (token := int(tokens[0])) == EOS:
            return
        yield token


def walked(
    model: Stepper,
    batch: SentenceBatch,
    n_each: int,
    pick: Callable[[Tensor, GeneratedTokens], BestTokens],
    followers: Sequence[Follower | None],
) -> Walk:
    """Decode `n_each` independent rows of every sentence, and yield the tokens of every step.

    `pick` gives one token for each row, and may overwrite the logits. The answers come at the end,
    in the order of the rows.
    """
    device, n = batch.source.device, len(batch.source)
    trellis, state = Trellis(n), model.start(batch.source)
    itself = torch.arange(n_each, device=device)
    state = model.branch(state, torch.zeros(n, n_each, dtype=torch.int64, device=device))
    rows = torch.arange(n, device=device).repeat_interleave(n_each)
    written, most = GeneratedTokens.nothing(n, device).keep(rows), batch.most
    tokens = torch.full((n * n_each, 1), BOS, device=device)
    total = torch.zeros(n, n_each, device=device)
    for t in range(1, batch.longest + 1):
        present = [followers[place] for place in trellis.sentences]
        most = cut_short(most, present, t)
        logits, state = model.step(state, tokens)
        best = pick(logits[:, -1], written)
        token, own, score = (x.view(total.shape) for x in (best.tokens, best.own, best.scores))
        # a finished row is an empty row
        total = total + score
        if n_each == 1:
            _tell(present, token, total)
        ends = ((token == EOS) | (most <= t)[:, None]) & (total > -torch.inf)
        trellis.record(Chosen(token, itself.expand(token.shape), own, total), ends)
        yield token.flatten()
        total = total.masked_fill(ends, -torch.inf)
        is_over = (total == -torch.inf).all(1).tolist()
        if all(is_over):
            break
        written = written.then(torch.arange(token.numel(), device=device), token.flatten())
        if left := trellis.drop(is_over):
            stay = torch.tensor(left, device=device)
            rows = (stay[:, None] * n_each + itself).flatten()
            state, written = model.select(state, rows), written.keep(rows)
            token, total, most = token[stay], total[stay], most[stay]
        tokens = token.reshape(-1, 1)
    return trellis.every()


def _tell(
    followers: Sequence[Follower | None], token: Int[Tensor, "b 1"], total: Float[Tensor, "b 1"]
) -> None:
    """Tell each follower the token of its answer, unless that has ended before."""
    if not any(followers):
        return
    lives = (total > -torch.inf).flatten().tolist()
    for follower, each, is_live in zip(followers, token.flatten().tolist(), lives, strict=True):
        if follower is not None and is_live:
            follower.write(each)
