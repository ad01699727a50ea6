"""Many sentences → batches → their answers, in the order in which they were asked.

Sentences of nearly one length are decoded together, the longest first: what does not fit in memory
is then known at once, and little of a batch is padding. What a sentence's answer is does not depend
on its batch.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch

from regard.decoding.hypotheses import Hypothesis
from regard.decoding.sentences import Sentence
from regard.errors import SettingError
from regard.models.stepper import Stepper

BATCH_TOKENS = 4096
"""Source tokens in a batch, padding included."""


@runtime_checkable
class Search(Protocol):
    """Greedy search, beam search or sampling, with all its settings."""

    def __call__(
        self, model: Stepper, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """The answers of each sentence of one batch."""


class Answered(NamedTuple):
    """One sentence's answers."""

    place: int
    """Which of the sentences asked, counted from 0."""
    hypotheses: list[Hypothesis]


def decode_all(
    model: Stepper,
    sentences: Sequence[Sentence],
    search: Search,
    *,
    batch_tokens: int = BATCH_TOKENS,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The answers of each sentence, in order."""
    answers: list[list[Hypothesis]] = [[] for _ in sentences]
    for done in decode_each(model, sentences, search, batch_tokens=batch_tokens, device=device):
        answers[done.place] = done.hypotheses
    return answers


def decode_each(
    model: Stepper,
    sentences: Sequence[Sentence],
    search: Search,
    *,
    batch_tokens: int = BATCH_TOKENS,
    device: torch.device | str = "cpu",
) -> Iterator[Answered]:
    """The answers as they come, batch by batch; a bar may count them.

    Args:
        model: what writes.
        sentences: what is asked; an empty source is a source too.
        search: how the answers are found.
        batch_tokens: source tokens in a batch, padding included; a longer sentence goes alone.
        device: where the model is.
    """
    for batch in batches(sentences, batch_tokens):
        found = search(model, [sentences[i] for i in batch], device=device)
        for place, hypotheses in zip(batch, found, strict=True):
            yield Answered(place, hypotheses)


def batches(sentences: Sequence[Sentence], batch_tokens: int) -> Iterator[list[int]]:
    """Cut the sentences, the longest first, into batches of so many source tokens.

    >>> list(batches([Sentence([5]), Sentence([5, 6, 7]), Sentence([5, 6])], 4))
    [[1], [2, 0]]
    """
    if batch_tokens < 1:
        raise SettingError(f"decoding: batch_tokens must be at least 1, got {batch_tokens}.")
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i].source))
    batch: list[int] = []
    for i in order:
        longest = max(1, len(sentences[batch[0]].source)) if batch else 0
        if batch and longest * (len(batch) + 1) > batch_tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
