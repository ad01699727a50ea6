"""Batching: cuts many sentences into batches, and gives the answers of each batch as it is done.

Sentences of similar length are decoded together, the longest first: a batch that does not fit in
memory fails at once, and little of a batch is padding. The answer of a sentence does not depend on
its batch.
"""

from collections.abc import Callable, Iterator, Sequence
from operator import mul
from typing import Protocol, runtime_checkable

import torch

from regard.decoding.gpu.recordings import RecordedModel
from regard.decoding.search_engine import Decodable
from regard.decoding.sentences import Sentence
from regard.decoding.trellis import Hypothesis
from regard.errors import check_least

BATCH_TOKENS = 4096
"""Source tokens in a batch, padding included."""


@runtime_checkable
class Search(Protocol):
    """Greedy search, beam search or sampling, with all its settings."""

    def __call__(
        self, model: Decodable, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """The answers of each sentence of one batch."""


def decode_each(
    model: Decodable,
    sentences: Sequence[Sentence],
    search: Search,
    *,
    batch_tokens: int = BATCH_TOKENS,
    device: torch.device | str = "cpu",
) -> Iterator[tuple[int, list[Hypothesis]]]:
    """The index of each sentence and its answers, batch by batch.

    `batch_tokens` counts source tokens, padding included; a longer sentence goes alone.
    """
    size = model.batch_tokens if isinstance(model, RecordedModel) else mul
    for batch in batches(sentences, batch_tokens, size):
        found = search(model, [sentences[i] for i in batch], device=device)
        yield from zip(batch, found, strict=True)


def batches(
    sentences: Sequence[Sentence],
    batch_tokens: int,
    size: Callable[[int, int], int] = mul,
) -> Iterator[list[int]]:
    """Cut the sentences, the longest first, into batches of so many source tokens.

    `size` gives the source tokens of a batch of so many sentences of a length.

    >>> list(batches([Sentence([5]), Sentence([5, 6, 7]), Sentence([5, 6])], 4))
    [[1], [2, 0]]
    """
    check_least("decoding: batch_tokens", batch_tokens, 1)
    order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i].source))
    batch: list[int] = []
    longest = 0
    for i in order:
        if batch and size(len(batch) + 1, longest) > batch_tokens:
            yield batch
            batch = []
        if not batch:
            longest = max(1, len(sentences[i].source))
        batch.append(i)
    if batch:
        yield batch
