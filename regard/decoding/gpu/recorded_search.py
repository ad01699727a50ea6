"""Replaying: on a GPU, the steps of a beam search are recorded once and played back afterwards.

A step of a search is hundreds of small operations, and telling the GPU of each takes longer than
doing it. Batches of one shape do the same operations, so that from the third such batch on a whole
step is started by one call, and so is the reading of the sources where the model can be told all it
needs. Batches are filled up to round sizes, to have few shapes.

Cost: the memory of the longest answer's caches for every shape seen; a second for its recording.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, cast, final, runtime_checkable

import torch
from torch import Tensor

from regard.decoding.beam import Advanced, Beam, Carried, advance, begin
from regard.decoding.hypotheses import Hypothesis
from regard.decoding.sentences import Batch, Sentence
from regard.decoding.trellis import Trellis
from regard.hardware.cuda_graphs import GraphPool
from regard.models.stepper import ReadsUnasked, Stepper

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
        self._readers: dict[Stepper, ReadsUnasked | None] = {}
        """The models that were seen, each as what reads its sources unasked, if it can."""

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
        batch = batch.wider(-batch.source.shape[1] % ROUND_TOKENS)
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

        opening = self._opening(model, batch)
        shapes = [tuple(x.shape) for x in _tensors(opening.given)]
        key = (model, batch.longest, batch.is_full, *shapes)
        if key not in self._recordings or batch.forced.numel():
            # kernels are chosen and compiled the first time, which cannot be recorded
            self._recordings.setdefault(key, None)
            return _play(self.search, batch, opening.start(), step)
        recording = self._recordings[key] or _Recording(opening, step, tape())
        self._recordings[key] = recording
        return _play(self.search, batch, recording.start(opening), recording.step)

    def _opening(self, model: Stepper, batch: Batch) -> "_Opening":
        """Recorded with the steps, if the model needs no look at the sources to read them."""
        if model not in self._readers:
            can = isinstance(model, ReadsUnasked) and model.is_recordable
            self._readers[model] = cast(ReadsUnasked, model) if can else None
        reader = self._readers[model]
        if reader is None:
            return _Read(begin(self.search, batch, model.start(batch.source)))

        def read(batch: Batch) -> Carried:
            return begin(self.search, batch, reader.read(batch.source, is_full=batch.is_full))

        return _Unread(batch, read)


T = TypeVar("T")


@runtime_checkable
class Tape(Protocol):
    """Records the steps of one search."""

    def record(self, work: Callable[[], T]) -> tuple[T, Callable[[], object]]:
        """What some work finds, at fixed places in memory, and what finds it once more."""


@final
class CudaTape:
    """Records each step as a CUDA graph; all of them share one room in memory."""

    def __init__(self) -> None:
        self.room = GraphPool()

    def record(self, work: Callable[[], T]) -> tuple[T, Callable[[], object]]:
        """Nothing is done yet, and nothing in the work may come from outside the device."""
        with self.room.recording() as graph:
            found = work()
        return found, graph.replay


TAPES: Mapping[str, Callable[[], Tape]] = {"cuda": CudaTape}
"""Where steps can be recorded, and how."""


@runtime_checkable
class _Opening(Protocol):
    """How a search begins."""

    @property
    def given(self) -> tuple[Any, ...]:
        """What differs from batch to batch of one shape: tensors in tuples."""

    def start(self) -> Carried:
        """What the first step goes on from."""

    def recorded(self, tape: Tape) -> tuple[Carried, Callable[[], object]]:
        """The same at a fixed place, and what brings it up to date once `given` has changed."""


class _Unread(NamedTuple):
    """The sources are still to be read, which can be recorded."""

    given: Batch
    read: Callable[[Batch], Carried]

    def start(self) -> Carried:
        return self.read(self.given)

    def recorded(self, tape: Tape) -> tuple[Carried, Callable[[], object]]:
        return tape.record(self.start)


class _Read(NamedTuple):
    """The sources were read as they came; nothing is left to do."""

    given: Carried

    def start(self) -> Carried:
        return self.given

    def recorded(self, tape: Tape) -> tuple[Carried, Callable[[], object]]:
        return self.given, lambda: None


class _Recording:
    """Every step of a search; each goes on from the memory that the one before left."""

    def __init__(
        self, opening: _Opening, step: Callable[[Carried, int], Advanced], tape: Tape
    ) -> None:
        self._given, self._step, self._tape = opening.given, step, tape
        self._start, self._begin = opening.recorded(tape)
        self._steps: list[tuple[Advanced, Callable[[], object]]] = []

    def start(self, opening: _Opening) -> Carried:
        """Begin with another batch of the same shape."""
        for mine, new in zip(_tensors(self._given), _tensors(opening.given), strict=True):
            mine.copy_(new)
        self._begin()
        return self._start

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
        # before the shortest length there is nothing to see
        if t > search.limits.min_tokens and t % LOOK == 0 and bool(found.done.all()):
            break
    return trellis.best(search.n_best, search.penalty)


def _tensors(tree: Any) -> Iterator[Tensor]:
    """The tensors of tuples in tuples, in order."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, tuple):
        for part in tree:
            yield from _tensors(part)
