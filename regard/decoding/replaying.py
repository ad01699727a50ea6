"""Replaying: on a GPU, the steps of a beam search are recorded once and played back afterwards.

A step of a search is hundreds of small operations, and telling the GPU of each takes longer than
doing it. Batches of one shape do the same operations, so that from the third such batch on a whole
step is started by one call. Batches are filled up to round sizes, to have few shapes.

Cost: the memory of the longest answer's caches for every shape seen; a second for its recording.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, final, runtime_checkable

import torch
from torch import Tensor

from regard.decoding.beam import Advanced, Beam, Carried, advance, begin
from regard.decoding.hypotheses import Hypothesis
from regard.decoding.sentences import Batch, Sentence
from regard.decoding.trellis import Trellis
from regard.models.stepping import PAD, Stepper

ROUND_SENTENCES, ROUND_TOKENS = 32, 8
"""Batches are filled up to multiples of these."""

LOOK = 4
"""Steps after which it is asked whether all sentences are done: asking makes the GPU wait."""


@final
class Replaying:
    """A beam search that gets faster with every batch of a shape that it has seen before.

    Where nothing can be recorded, as on a CPU, and for sentences that must contain phrases, it is
    the beam search as it is.
    """

    def __init__(self, search: Beam) -> None:
        self.search = search
        self._recordings: dict[tuple[Any, ...], _Recording | None] = {}

    @torch.inference_mode()
    def __call__(
        self, model: Stepper, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """The answers of each sentence."""
        has_wishes = any(sentence.must_contain for sentence in sentences)
        tape = TAPES.get(torch.device(device).type)
        if tape is None or has_wishes or not sentences:
            return self.search(model, sentences, device=device)
        filled = [*sentences, *[sentences[-1]] * (-len(sentences) % ROUND_SENTENCES)]
        batch = Batch.of(filled, self.search.limits, torch.device(device))
        missing = -batch.source.shape[1] % ROUND_TOKENS
        batch = batch._replace(
            source=torch.nn.functional.pad(batch.source, (0, missing), value=PAD)
        )
        return self._answers(model, filled, batch, tape)[: len(sentences)]

    def _answers(
        self,
        model: Stepper,
        sentences: Sequence[Sentence],
        batch: Batch,
        tape: Callable[[], "Tape"],
    ) -> list[list[Hypothesis]]:
        chooser = self.search.chooser(sentences, batch)

        def step(before: Carried, t: int) -> Advanced:
            return advance(self.search, model, chooser, before, t)

        start = begin(self.search, model, batch)
        key = (model, batch.longest, *(tuple(x.shape) for x in _tensors(start)))
        if key not in self._recordings or batch.forced.numel():
            # kernels are chosen and compiled the first time, which cannot be recorded
            self._recordings.setdefault(key, None)
            return _play(self.search, batch, start, step)
        recording = self._recordings[key] or _Recording(start, step, tape())
        self._recordings[key] = recording
        recording.load(start)
        return _play(self.search, batch, start, recording.step)


@runtime_checkable
class Tape(Protocol):
    """Records the steps of one search."""

    def record(self, work: Callable[[], Advanced]) -> tuple[Advanced, Callable[[], object]]:
        """What a step finds, at fixed places in memory, and what finds it once more."""


@final
class CudaTape:
    """Records each step as a CUDA graph; all of them share one room in memory."""

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()

    def record(self, work: Callable[[], Advanced]) -> tuple[Advanced, Callable[[], object]]:
        """Nothing is done yet, and nothing in the work may come from outside the device."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            found = work()
        return found, graph.replay


TAPES: Mapping[str, Callable[[], Tape]] = {"cuda": CudaTape}
"""Where steps can be recorded, and how."""


class _Recording:
    """Every step of a search; each goes on from the memory that the one before left."""

    def __init__(
        self, start: Carried, step: Callable[[Carried, int], Advanced], tape: Tape
    ) -> None:
        self._start, self._step, self._tape = start, step, tape
        self._steps: list[tuple[Advanced, Callable[[], object]]] = []

    def load(self, start: Carried) -> None:
        """Begin with another batch of the same shape."""
        for mine, new in zip(_tensors(self._start), _tensors(start), strict=True):
            mine.copy_(new)

    def step(self, before: Carried, t: int) -> Advanced:
        """Play step t, which is recorded if it has not been yet."""
        if t > len(self._steps):
            last = self._steps[-1][0].carried if self._steps else self._start
            self._steps.append(self._tape.record(lambda: self._step(last, t)))
        found, play = self._steps[t - 1]
        play()
        return found


def _play(
    search: Beam, batch: Batch, start: Carried, step: Callable[[Carried, int], Advanced]
) -> list[list[Hypothesis]]:
    n = len(batch.source)
    trellis, carried = Trellis(n), start
    for t in range(1, batch.longest + 1):
        found = step(carried, t)
        trellis.record(range(n), found.chosen, found.ends)
        carried = found.carried
        if t % LOOK == 0 and bool(found.done.all()):
            break
    return trellis.best(search.n_best, search.penalty)


def _tensors(tree: Any) -> Iterator[Tensor]:
    """The tensors of tuples in tuples, in order."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, tuple):
        for part in tree:
            yield from _tensors(part)
