"""Greedy search: always the likeliest next token, until the end token or the length limit.

y[t] = argmax p(y | source, y[:t])
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from jaxtyping import Int
from torch import Tensor

from regard.decoding.hypotheses import Hypothesis
from regard.decoding.rules import Rule, Written
from regard.decoding.sentences import Batch, Limits, Sentence, refuse_wishes
from regard.decoding.single_path import walk
from regard.decoding.token_scores import Best, best_next, judge
from regard.models.stepper import PAD, Stepper


@final
@dataclass(frozen=True, kw_only=True)
class Greedy:
    """Greedy search with limits and rules."""

    limits: Limits = field(default_factory=Limits)
    rules: Sequence[Rule] = ()

    @torch.inference_mode()
    def __call__(
        self, model: Stepper, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """One answer for each sentence."""
        if not sentences:
            return []
        refuse_wishes("greedy", sentences)
        batch = Batch.of(sentences, self.limits, torch.device(device))
        rules = batch.rules(self.rules)

        def likeliest(logits: Tensor, written: Written) -> Best:
            may_end = written.tokens.shape[1] >= self.limits.min_tokens
            if rules:
                return judge(logits, rules, written, may_end=may_end).best(1)
            return best_next(logits, 1, may_end=may_end)

        return walk(model, batch, 1, likeliest)


def greedy(
    model: Stepper, source: Int[Tensor, "b s"], *, max_tokens: int, rules: Sequence[Rule] = ()
) -> list[list[int]]:
    """The tokens of each row, without the end token. Finished rows leave the batch."""
    sentences = [Sentence([token for token in row if token != PAD]) for row in source.tolist()]
    search = Greedy(limits=Limits(max_tokens=max_tokens), rules=rules)
    found = search(model, sentences, device=source.device)
    return [list(answers[0].tokens) for answers in found]
