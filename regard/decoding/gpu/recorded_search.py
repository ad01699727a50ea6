"""Recorded search: on a GPU, records the steps of a beam search as CUDA graphs and replays them.

A step of a search is hundreds of small operations, and launching each takes longer than running it.
Batches of one shape run the same operations, so that from the third such batch on one call launches
a whole step, and one the reading of the sources if that can be recorded. Batches are padded to
multiples of a few sizes, to have few shapes.

Cost: the memory of the longest answer's caches for every shape seen; a second for its recording.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast, final, runtime_checkable

import torch
from torch import Tensor

from regard.decoding.beam import Beam, BeamStep
from regard.decoding.sentences import Sentence, SentenceBatch
from regard.decoding.trellis import BeamState, Hypothesis, Trellis
from regard.hardware.recorded_work import GraphPool
from regard.models.stepper import Stepper
from regard.models.transformer import Transformer

ROUND_SENTENCES, ROUND_TOKENS = 32, 8
"""Batches are padded to multiples of these."""

LOOK = 4
"""Steps between checks whether all sentences are done, as a check makes the GPU wait."""

T = TypeVar("T")


@runtime_checkable
class Tape(Protocol):
    """Records the steps of one search."""

    def record(self, work: Callable[[], T]) -> tuple[T, Callable[[], object]]:
        """The results of some work, at fixed addresses, and a function that computes them again."""


TAPES: Mapping[str, Callable[[], Tape]] = {"cuda": GraphPool}
"""The recorder of each device that can record."""

Step = Callable[[BeamState, int], BeamStep]


@final
class Replaying:
    """A beam search that gets faster with every batch of a shape that it has seen before.

    On devices without recording, such as a CPU, and for sentences that must contain phrases, it
    runs the beam search unrecorded.
    """

    def __init__(self, search: Beam) -> None:
        self.search = search
        self._recordings: dict[tuple[Any, ...], _Recording | None] = {}
        self._is_recordable: dict[Stepper, bool] = {}
        """The models so far, and whether each can record the reading of its sources."""

    @torch.inference_mode()
    def __call__(
        self, model: Stepper, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """The answers of each sentence."""
        has_constraints = any(sentence.must_contain for sentence in sentences)
        tape = TAPES.get(torch.device(device).type)
        if tape is None or has_constraints or not sentences:
            return self.search(model, sentences, device=device)
        filled = [*sentences, *[sentences[-1]] * (-len(sentences) % ROUND_SENTENCES)]
        batch = SentenceBatch.of(filled, self.search.limits, torch.device(device))
        batch = batch.wider(-batch.source.shape[1] % ROUND_TOKENS)
        chooser = self.search.chooser(filled, batch)

        def step(before: BeamState, t: int) -> BeamStep:
            return self.search.advance(model, chooser, before, t)

        if model not in self._is_recordable:
            self._is_recordable[model] = getattr(model, "is_recordable", False)
        # the inputs that differ between batches of one shape: tensors in tuples
        given: tuple[Any, ...] = batch
        if not self._is_recordable[model]:
            given = self.search.begin(batch, model.start(batch.source))

        def start() -> BeamState:
            if given is not batch:
                return cast(BeamState, given)
            state = cast(Transformer, model).read(batch.source, is_full=batch.is_full)
            return self.search.begin(batch, state)

        shapes = [tuple(x.shape) for x in _tensors(given)]
        key = (model, batch.longest, batch.is_full, *shapes)
        if key not in self._recordings or batch.forced.numel():
            # kernels are chosen and compiled the first time, which cannot be recorded
            self._recordings.setdefault(key, None)
            return self._play(batch, start(), step)[: len(sentences)]
        recording = self._recordings[key]
        if recording is None:
            reads = start if self._is_recordable[model] else None
            recording = self._recordings[key] = _Recording(given, reads, step, tape())
        return self._play(batch, recording.start(given), recording.step)[: len(sentences)]

    def _play(self, batch: SentenceBatch, beam: BeamState, step: Step) -> list[list[Hypothesis]]:
        trellis, limits = Trellis(len(batch.source)), self.search.limits
        for t in range(1, batch.longest + 1):
            found = step(beam, t)
            trellis.record(found.chosen, found.ends)
            beam = found.after
            # before the shortest length no sentence can be done
            if t > limits.min_tokens and t % LOOK == 0 and bool(found.done.all()):
                break
        return trellis.best(self.search.n_best, self.search.penalty)


class _Recording:
    """Recordings of every step of a search; each reads the results of the one before."""

    def __init__(
        self,
        given: tuple[Any, ...],
        reads: Callable[[], BeamState] | None,
        step: Step,
        tape: Tape,
    ) -> None:
        self._given, self._step, self._tape = given, step, tape
        self._start = cast(BeamState, given)
        self._read: Callable[[], object] = lambda: None
        if reads is not None:
            self._start, self._read = tape.record(reads)
        self._steps: list[tuple[BeamStep, Callable[[], object]]] = []

    def start(self, given: tuple[Any, ...]) -> BeamState:
        """Begin with another batch of the same shape."""
        for mine, new in zip(_tensors(self._given), _tensors(given), strict=True):
            mine.copy_(new)
        self._read()
        return self._start

    def step(self, before: BeamState, t: int) -> BeamStep:
        """Play step t, which is recorded if it has not been yet."""
        if t > len(self._steps):
            last = self._steps[-1][0].after if self._steps else self._start
            self._steps.append(self._tape.record(lambda: self._step(last, t)))
        found, play = self._steps[t - 1]
        play()
        return found


def _tensors(tree: Any) -> Iterator[Tensor]:
    """The tensors of tuples in tuples, in order."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, tuple):
        for part in tree:
            yield from _tensors(part)
