"""Recordings: the steps of a search as CUDA graphs, which later batches of its shape replay.

A step of a search is hundreds of small operations, and on a GPU launching each takes longer than
running it. Batches of one shape run the same operations, so that one call launches a whole step,
and one the reading of the sources if that can be captured. Batches are padded to a few sizes.

    first batch of a shape     the plain search
    second                     recorded with its sentences in reverse, replayed in their own order,
                               and used from here on if it gives the answers of the plain search
    later ones                 replayed

What cannot be recorded, or answers otherwise, is searched plainly, and `Recordings.said` says why.

Cost: the memory of the longest answer's caches for each of at most `MAX_RECORDINGS` shapes, until
half of the GPU's memory is taken; all is given back when memory runs out. About a second for the
capture, and the plain search once more.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeVar, final, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from regard.decoding.gpu.state_trees import copied, form_of, leaves
from regard.decoding.search_steps import (
    PlainSteps,
    SearchStep,
    SearchSteps,
    StepwiseSearch,
    answers_of,
)
from regard.decoding.sentences import Follower, Sentence, SentenceBatch, cut_short
from regard.decoding.trellis import Hypothesis, SearchState
from regard.errors import counted
from regard.hardware.cuda_graphs import GraphPool
from regard.hardware.memory import lacks_memory
from regard.models.stepper import Stepper

FEW_SENTENCES, ROUND_TOKENS = 32, 8
"""Batches are padded to powers of 2 up to so many sentences and to multiples of it beyond, and to
multiples of so many tokens."""
STEPS_BETWEEN_CHECKS = 4
"""How often a replayed search checks whether all sentences are done, as the GPU then waits."""
MAX_RECORDINGS = 32
"""How many shapes of a model are recorded."""
TOLERANCE = 1e-2
"""The largest difference of a replayed answer's score from the plain search's, as a share of it
where that is above 1. What two roundings differ by is less, and a wrong recording is far off."""
RECORDED = "recorded"
"""What is said of a batch that was replayed."""

T = TypeVar("T")
Key = tuple[Any, ...]


@runtime_checkable
class GraphCapture(Protocol):
    """The interface: captures the steps of one search."""

    def has_room(self) -> bool:
        """Whether enough memory is free for the caches of one more shape."""

    def capture_graph(self, work: Callable[[], T]) -> tuple[T, Callable[[], object]]:
        """The results of some work, at fixed addresses, and a function that computes them again."""


GRAPH_CAPTURES: Mapping[str, Callable[[], GraphCapture]] = {"cuda": GraphPool}
"""The capture of each kind of device that has graphs."""


@runtime_checkable
class ReadsWithoutWaiting(Protocol):
    """A model whose reading of the sources can be captured, if it says so."""

    @property
    def is_capturable(self) -> bool:
        """Whether the reading has no branches that depend on numbers."""

    def read(self, source: Int[Tensor, "b s"], *, is_full: bool) -> Any:
        """The same as `start`, told whether the sources have no padding."""


@final
class Recordings:
    """The recordings of one model, by search and shape."""

    def __init__(self, capture: Callable[[], GraphCapture]) -> None:
        self.said = ""
        """How the last batch was searched for: `RECORDED`, or "plain" and the reason."""
        self.counts = Counter[str]()
        """How many batches were searched for in each way."""
        self._make_capture, self._capture = capture, capture()
        self._seen = Counter[Key]()
        self._made: dict[Key, _Recording] = {}
        self._refused: dict[Key, str] = {}

    def ready(
        self, key: Key, rehearse: "Callable[[GraphCapture], _Recording]"
    ) -> "_Recording | None":
        """The recording for a key, made the second time; None if the batch is searched plainly."""
        self._seen[key] += 1
        why = self._why_not(key)
        if why is None and key not in self._made:
            try:
                self._made[key] = rehearse(self._capture)
            except Exception as error:
                why = self.give_up(key, error)
        if why is not None:
            self.refuse(why)
            return None
        self._note(RECORDED)
        return self._made[key]

    def _why_not(self, key: Key) -> str | None:
        if key in self._made:
            is_busy = self._made[key].is_busy
            return "another search replays the same recording" if is_busy else None
        if key in self._refused:
            return self._refused[key]
        if self._seen[key] == 1:
            return "the first batch of its shape"
        if len(self._made) >= MAX_RECORDINGS:
            return f"no more than {counted(MAX_RECORDINGS, 'shape')} of a run are recorded"
        if not self._capture.has_room():
            return "recordings and weights hold half of the memory already"
        return None

    def give_up(self, key: Key, error: Exception) -> str:
        """Keep no recording for a key, and none at all if memory ran out; the reason in words."""
        why = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        self._made.pop(key, None)
        self._refused[key] = why
        # its frames hold the tensors of the search
        error.with_traceback(None)
        if lacks_memory(error):
            self._made.clear()
            self._capture = self._make_capture()
            torch.cuda.empty_cache()
        return why

    def refuse(self, why: str) -> None:
        """Note why a batch is searched for plainly."""
        self._note(f"plain: {why}")

    def _note(self, way: str) -> None:
        self.said = way
        self.counts[way] += 1


@final
class RecordedModel:
    """A model on which every search replays the steps that it has recorded."""

    def __init__(self, model: Stepper, recordings: Recordings) -> None:
        self.model, self.recordings = model, recordings
        self.start, self.step = model.start, model.step
        self.select, self.branch = model.select, model.branch

    def reading(self, wrap: Callable[[Stepper], Stepper]) -> "RecordedModel":
        """The same recordings for a model that reads its sources in another way."""
        return RecordedModel(wrap(self.model), self.recordings)

    def steps_of(
        self, search: StepwiseSearch, sentences: Sequence[Sentence], device: torch.device
    ) -> SearchSteps:
        """Recorded steps if there are any for batches like this one, else plain ones."""
        reader = _Reader(search, self.model, device)
        if any(sentence.must_contain for sentence in sentences):
            self.recordings.refuse("answers that must hold phrases")
            return reader.plain(sentences, search.batch(sentences, device))
        filled = _filled(sentences)
        batch = reader.batch(filled)
        given = reader.given(batch)
        try:
            key = reader.key(given)
        except TypeError as error:
            self.recordings.refuse(str(error))
            return reader.plain(filled, batch, given[1])
        found = self.recordings.ready(key, lambda capture: reader.rehearsed(filled, capture))
        if found is None:
            return reader.plain(filled, batch, given[1])
        return _RecordedSteps(
            reader, found, filled, batch, given, lambda why: self.recordings.give_up(key, why)
        )


def recorded(model: Stepper, device: torch.device) -> Stepper:
    """The model, with recorded searches where the device has graphs."""
    capture = GRAPH_CAPTURES.get(device.type)
    return model if capture is None else RecordedModel(model, Recordings(capture))


@final
class _Reader:
    """A search and a model on a device: what a batch gives to the steps."""

    def __init__(self, search: StepwiseSearch, model: Stepper, device: torch.device) -> None:
        self.search, self.model, self.device = search, model, device
        self.captures_reading = isinstance(model, ReadsWithoutWaiting) and model.is_capturable

    def batch(self, sentences: Sequence[Sentence]) -> SentenceBatch:
        """The sentences as tensors of a size that batches share."""
        batch = self.search.batch(sentences, self.device)
        length = batch.source.shape[1]
        # a lone number may stand for a picture
        return batch.wider(-length % ROUND_TOKENS if length > 1 else 0)

    def plain(
        self,
        sentences: Sequence[Sentence],
        batch: SentenceBatch,
        begun: SearchState | None = None,
    ) -> PlainSteps:
        """Steps without a recording."""
        return PlainSteps(self.search, self.model, sentences, batch, begun)

    def given(self, batch: SentenceBatch) -> tuple[Any, ...]:
        """What differs between batches of one shape: tensors in tuples."""
        same = batch._replace(longest=0)
        if self.captures_reading:
            return (same, None)
        return (same, self.search.begin(self.model, batch, self.model.start(batch.source)))

    def key(self, given: tuple[Any, ...]) -> Key:
        """What batches must have in common to share a recording."""
        try:
            hash(self.search)
        except TypeError as error:
            raise TypeError(
                "the search has rules that are no tuple, or cannot be hashed"
            ) from error
        kind = self.device.type
        products = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind)
        return (self.search, products, *map(form_of, leaves(given)))

    def rehearsed(self, sentences: Sequence[Sentence], capture: GraphCapture) -> "_Recording":
        """A recording that gives the answers of the plain search, or an error."""
        alone = [replace(sentence, follower=None) for sentence in sentences]
        back = self.batch(alone[::-1])
        recording = _Recording(self, alone[::-1], self.given(back), capture)
        batch = self.batch(alone)
        want = answers_of(self.search, self.plain(alone, batch))

        def never(error: Exception) -> None:
            raise error

        for order, one in ((alone[::-1], back), (alone, batch)):
            steps = _RecordedSteps(self, recording, order, one, self.given(one), never)
            found = answers_of(self.search, steps)
        _check_equal(found, want)
        return recording


@final
class _Recording:
    """The graphs of every step of a search; each reads the results of the one before."""

    def __init__(
        self,
        reader: _Reader,
        sentences: Sequence[Sentence],
        given: tuple[Any, ...],
        capture: GraphCapture,
    ) -> None:
        self.is_busy = False
        self._capture, self._given = capture, copied(given, {})
        batch, state = self._given
        self.most: Tensor = batch.most
        self._advance = reader.search.advance(sentences, batch)
        self._model = reader.model
        self._steps: list[tuple[SearchStep, Callable[[], object]]] = []
        self._read: Callable[[], object] = lambda: None
        if state is None:

            def read() -> SearchState:
                model: Any = reader.model
                started = model.read(batch.source, is_full=batch.is_full)
                return reader.search.begin(model, batch, started)

            state, self._read = self._captured(read)
        self._start: SearchState = state

    def begin(self, given: tuple[Any, ...]) -> None:
        """Begin with another batch of the same shape."""
        for mine, new in zip(leaves(self._given), leaves(given), strict=True):
            if isinstance(mine, Tensor):
                mine.copy_(new)
        self._read()

    def before(self, t: int) -> SearchState:
        """The state before step t."""
        return self._steps[t - 2][0].after if t > 1 else self._start

    def step(self, t: int) -> SearchStep:
        """Replay step t, which is captured if it has not been yet."""
        if t > len(self._steps):
            before = self.before(t)
            self._steps.append(self._captured(lambda: self._advance(self._model, before, t)))
        found, replay = self._steps[t - 1]
        replay()
        return found

    def plain_step(self, before: SearchState, t: int) -> SearchStep:
        """Step t without a graph."""
        return self._advance(self._model, before, t)

    def _captured(self, work: Callable[[], T]) -> tuple[T, Callable[[], object]]:
        with _no_kept_casts():
            return self._capture.capture_graph(work)


@final
class _RecordedSteps:
    """Steps that replay a recording; finished sentences keep their places in the batch."""

    def __init__(
        self,
        reader: _Reader,
        recording: _Recording,
        sentences: Sequence[Sentence],
        batch: SentenceBatch,
        given: tuple[Any, ...],
        give_up: Callable[[Exception], object],
    ) -> None:
        self.sentences, self.longest = sentences, batch.longest
        self._recording, self._give_up = recording, give_up
        self._min_tokens = reader.search.limits.min_tokens
        self._state: SearchState | None = None
        """The state from which the plain search goes on, once a step could not be recorded."""
        recording.is_busy = True
        recording.begin(given)

    def shorten(self, followers: Sequence[Follower | None], t: int) -> None:
        """End at step t the answers whose followers want no more."""
        most = self._recording.most
        most.copy_(cut_short(most, followers, t))

    def take(self, t: int) -> SearchStep:
        """Write token t of every row."""
        if self._state is None:
            try:
                return self._recording.step(t)
            except Exception as error:
                self._give_up(error)
                self._state = self._recording.before(t)
        step = self._recording.plain_step(self._state, t)
        self._state = step.after
        return step

    def done(self, step: SearchStep, t: int) -> list[bool]:
        """All sentences, once they are done; the GPU is not asked after every step."""
        is_time = t % STEPS_BETWEEN_CHECKS == 0 and t > self._min_tokens
        is_over = is_time and bool(step.done.all())
        return [True] * len(self.sentences) if is_over else []

    def keep(self, stay: Sequence[int]) -> None:
        """No sentence leaves: the shapes of the graphs are fixed."""

    def close(self) -> None:
        """Let the next search replay the recording."""
        self._recording.is_busy = False


def _filled(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences, and copies of the last one up to a size that batches share."""
    n = len(sentences)
    size = (
        1 << (n - 1).bit_length() if n < FEW_SENTENCES else -(-n // FEW_SENTENCES) * FEW_SENTENCES
    )
    return [*sentences, *[replace(sentences[-1], follower=None)] * (size - n)]


def _check_equal(found: list[list[Hypothesis]], want: list[list[Hypothesis]]) -> None:
    """Refuse a recording whose answers are worse or better than those of the plain search."""
    for ours, plain in zip(found, want, strict=True):
        difference = abs(ours[0].score - plain[0].score)
        if not difference <= TOLERANCE * max(1.0, abs(plain[0].score)):
            raise RuntimeError(
                f"the recording answers otherwise than the plain search: a score of "
                f"{ours[0].score:.4f} in place of {plain[0].score:.4f}"
            )


@contextmanager
def _no_kept_casts() -> Iterator[None]:
    """Casts are part of a graph: those that autocast keeps are freed when its context ends."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
