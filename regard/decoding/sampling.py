"""Sampling: draws each next token by its probability, with temperature, top k and top p.

    p'(y) ∝ p(y)^(1/temperature) on the `top_k` likeliest tokens that together hold `top_p`

A sentence's draws depend on its own seed alone: not on its neighbours in the batch, nor on the
device.

Paper: Fan, Lewis & Dauphin 2018 (top k); Holtzman et al. 2020 (top p, the nucleus).
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.decoding.greedy import advance_apart, began_apart, refuse_constraints
from regard.decoding.rules import GeneratedTokens, Rule
from regard.decoding.search_engine import Decodable, SearchEngine
from regard.decoding.search_steps import Advance, answered, streamed
from regard.decoding.sentences import Limits, Sentence, SentenceBatch
from regard.decoding.token_scores import BestTokens, Scorer, TokenScores
from regard.decoding.trellis import Hypothesis, SearchState, Trellis
from regard.errors import SettingError
from regard.models.stepper import Stepper

ROUND_STEPS = 64
"""Random numbers are drawn for a multiple of this many steps."""

SEED_FACTOR = 1_000_003
"""Factor of a run's seed; seeds of sentences below it never collide between runs."""


@final
@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Ancestral sampling, several answers for each sentence, in the order drawn."""

    n_samples: int = 1
    temperature: float = 1.0
    """Below 1 likely tokens become likelier."""
    top_k: int | None = None
    """Draw among this many of the likeliest tokens."""
    top_p: float = 1.0
    """Draw among the fewest tokens that together have at least this probability."""
    seed: int = 0
    """Of the whole run; each sentence adds its own."""
    limits: Limits = field(default_factory=Limits)
    rules: Sequence[Rule] = ()

    def __post_init__(self) -> None:
        for name, value, is_good, wants in (
            ("n_samples", self.n_samples, self.n_samples >= 1, "be at least 1"),
            ("temperature", self.temperature, self.temperature > 0, "be above 0"),
            ("top_k", self.top_k, self.top_k is None or self.top_k >= 1, "be at least 1"),
            ("top_p", self.top_p, 0 < self.top_p <= 1, "lie in (0, 1]"),
        ):
            if not is_good:
                raise SettingError(f"sampling: {name} must {wants}, got {value}.")

    def __call__(
        self, model: Decodable, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """`n_samples` answers for each sentence."""
        if not sentences:
            return []
        if isinstance(model, SearchEngine):
            raise SettingError(
                f"sampling: {model.engine_name} draws by numbers of its own, which no seed "
                "repeats here. Answers are drawn with torch: leave --engine out, or --sample."
            )
        return answered(self, model, sentences, device)

    def stream(
        self, model: Stepper, sentence: Sentence, *, device: torch.device | str = "cpu"
    ) -> Iterator[int]:
        """The tokens of the first answer to one sentence, each as soon as it is drawn."""
        yield from streamed(replace(self, n_samples=1), model, sentence, device)

    @property
    def is_told(self) -> bool:
        """Of several samples none is the answer while they are drawn."""
        return self.n_samples == 1

    @property
    def steps_key(self) -> Hashable:
        """The seed is in the numbers of a batch alone."""
        return replace(self, seed=0)

    def batch(self, sentences: Sequence[Sentence], device: torch.device) -> SentenceBatch:
        """The sentences as tensors, with their random numbers."""
        refuse_constraints("sampling", sentences)
        batch = SentenceBatch.of(sentences, self.limits, device)
        # few shapes, whatever the limit of a batch
        n_steps = -(-batch.longest // ROUND_STEPS) * ROUND_STEPS
        chances = torch.stack([self._chances(sentence, n_steps) for sentence in sentences])
        return batch._replace(chances=chances.to(device))

    def begin(self, model: Stepper, batch: SentenceBatch, state: Any) -> SearchState:
        """The state after the model has read the sources; a sentence has a row a sample."""
        return began_apart(model, batch, state, self.n_samples)

    def advance(self, sentences: Sequence[Sentence], batch: SentenceBatch) -> Advance:
        """The step of the search over these sentences."""
        scorer = Scorer(batch.rules(self.rules), self.limits.min_tokens)

        def draw(logits: Tensor, written: GeneratedTokens) -> BestTokens:
            assert batch.chances is not None
            sample = torch.arange(len(logits), device=logits.device) % self.n_samples
            chance = batch.chances[written.sentence, sample, written.tokens.shape[1]]
            return self._drawn(scorer.every(logits, written), chance)

        return partial(advance_apart, draw)

    def answers(self, trellis: Trellis) -> list[list[Hypothesis]]:
        """All samples of each sentence, in the order drawn."""
        return trellis.every()

    def _chances(self, sentence: Sentence, n_steps: int) -> Float[Tensor, "n t"]:
        """The sentence's random numbers, one for each sample and step, whatever the batch."""
        seed = (self.seed * SEED_FACTOR + sentence.seed) % 2**63
        generator = torch.Generator().manual_seed(seed)
        # step by step, so that a longer limit draws the same numbers first
        drawn = torch.rand(n_steps, self.n_samples, generator=generator, dtype=torch.float64)
        return drawn.T

    def _drawn(self, every: TokenScores, chance: Float[Tensor, " r"]) -> BestTokens:
        """The token at which the sum of probabilities, largest first, passes the random number."""
        scores, tokens = every.scores.sort(descending=True, stable=True)
        scores, tokens = scores[:, : self.top_k], tokens[:, : self.top_k]
        p = (scores.double() / self.temperature).softmax(-1)
        summed = p.cumsum(-1)
        p = p.where(summed - p < self.top_p, 0.0)
        summed = p.cumsum(-1)
        at = (summed <= chance[:, None] * summed[:, -1:]).sum(-1, keepdim=True)
        # a token of probability 0 is never drawn, even by the largest random number
        token = tokens.gather(1, at.minimum((p > 0).sum(-1, keepdim=True) - 1))
        return BestTokens(token, every.scores.gather(1, token), every.own.gather(1, token))
