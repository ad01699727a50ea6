"""Recorded steps: the graphs of a search's steps over batches of one shape, made and replayed."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, TypeVar, final, runtime_checkable

import torch
from torch import Tensor

from regard.decoding.gpu.batch_sizes import padded_length
from regard.decoding.gpu.state_trees import copied, form_of, leaves
from regard.decoding.search_steps import PlainSteps, SearchStep, StepwiseSearch, answers_of
from regard.decoding.sentences import Follower, Sentence, SentenceBatch, cut_short
from regard.decoding.trellis import Hypothesis, SearchState
from regard.models.stepper import Stepper

STEPS_BETWEEN_CHECKS = 4
"""How often a replayed search checks whether all sentences are done, as the GPU then waits."""
TOLERANCE = 1e-2
"""The largest difference of a replayed answer's score from the plain search's, as a share of it
where that is above 1. What two roundings differ by is less, and a wrong recording is far off."""
MAX_APART = 0.25
"""The largest share of answers that may differ by more in half precision, where roundings decide
between answers that are nearly as likely."""
HALF = (torch.float16, torch.bfloat16)

T = TypeVar("T")
Key = tuple[Any, ...]


@runtime_checkable
class GraphCapture(Protocol):
    """The interface: captures the steps of one search."""

    def has_room(self) -> bool:
        """Whether enough memory is free for the caches of one more shape."""

    def free(self) -> None:
        """Give the memory of all captures back, once they are deleted."""

    def capture_graph(self, work: Callable[[], T]) -> tuple[T, Callable[[], object]]:
        """The results of some work, at fixed addresses, and a function that computes them again."""


@final
class SearchReader:
    """A search and a model on a device: what a batch gives to the steps.

    `model` reads the sources, and `writer` takes the steps; a model's album holds its pictures.
    """

    def __init__(
        self,
        search: StepwiseSearch,
        model: Stepper,
        writer: Stepper,
        longest: int,
        device: torch.device,
    ) -> None:
        self.search, self.model, self.writer, self.device = search, model, writer, device
        self.longest = longest
        """The most tokens that the model reads."""
        self.captures_reading = getattr(model, "is_capturable", False)
        """Whether the model's `read` has no branches that depend on numbers."""

    def batch(self, sentences: Sequence[Sentence]) -> SentenceBatch:
        """The sentences as tensors of a size that batches share."""
        batch = self.search.batch(sentences, self.device)
        length = batch.source.shape[1]
        return batch.wider(padded_length(length, self.longest) - length)

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
            hash(self.search.steps_key)
        except TypeError as error:
            raise TypeError(
                "the search has rules that are no tuple, or cannot be hashed"
            ) from error
        kind = self.device.type
        products = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind)
        return (self.search.steps_key, products, *map(form_of, leaves(given)))

    def rehearsed(self, sentences: Sequence[Sentence], capture: GraphCapture) -> "Recording":
        """A recording that gives the answers of the plain search, or an error."""
        alone = [replace(sentence, follower=None) for sentence in sentences]
        batch = self.batch(alone)
        given = self.given(batch)
        # kernels are chosen and compiled for each shape here, which cannot be captured
        plain = PlainSteps(self.search, self.model, alone, batch, may_leave=False)
        want = answers_of(self.search, plain)
        recording = Recording(self, alone, given, capture)
        n_steps = -(-plain.n_taken // STEPS_BETWEEN_CHECKS) * STEPS_BETWEEN_CHECKS
        for t in range(1, min(n_steps, batch.longest) + 1):
            recording.step(t)

        def never(error: Exception) -> None:
            raise error

        steps = RecordedSteps(self, recording, alone, batch, given, never, lambda: None)
        found = answers_of(self.search, steps)
        _check_equal(found, want, MAX_APART if recording.is_coarse else 0.0)
        return recording


@final
class Recording:
    """The graphs of every step of a search; each reads the results of the one before.

    They are captured with other numbers than those given, so that a graph that keeps the numbers of
    its capture gives other answers than the plain search.
    """

    def __init__(
        self,
        reader: SearchReader,
        sentences: Sequence[Sentence],
        given: tuple[Any, ...],
        capture: GraphCapture,
    ) -> None:
        self._capture, self._given = capture, copied(given, {})
        batch, state = self._given
        _scramble(batch, self._given)
        self.most: Tensor = batch.most
        self._advance = reader.search.advance(sentences, batch)
        self._writer = reader.writer
        self._steps: list[tuple[SearchStep, Callable[[], object]]] = []
        self._read: Callable[[], object] = lambda: None
        if state is None:

            def read() -> SearchState:
                model: Any = reader.model
                started = model.read(batch.source, is_full=batch.is_full)
                return reader.search.begin(model, batch, started)

            state, self._read = self._captured(read)
            self._read()
        self._start: SearchState = state

    def begin(self, given: tuple[Any, ...]) -> None:
        """Begin with another batch of the same shape."""
        for mine, new in zip(leaves(self._given), leaves(given), strict=True):
            if isinstance(mine, Tensor):
                mine.copy_(new)
        self._read()

    @property
    def is_coarse(self) -> bool:
        """Whether the state is in half precision."""
        kept = leaves(self.before(len(self._steps) + 1).state)
        return any(isinstance(x, Tensor) and x.dtype in HALF for x in kept)

    def before(self, t: int) -> SearchState:
        """The state before step t."""
        return self._steps[t - 2][0].after if t > 1 else self._start

    def step(self, t: int) -> SearchStep:
        """Replay step t, which is captured if it has not been yet."""
        if t > len(self._steps):
            before = self.before(t)
            self._steps.append(self._captured(lambda: self._advance(self._writer, before, t)))
        found, replay = self._steps[t - 1]
        replay()
        return found

    def plain_step(self, before: SearchState, t: int) -> SearchStep:
        """Step t without a graph."""
        return self._advance(self._writer, before, t)

    def _captured(self, work: Callable[[], T]) -> tuple[T, Callable[[], object]]:
        with _no_kept_casts():
            return self._capture.capture_graph(work)


@final
class RecordedSteps:
    """Steps that replay a recording; finished sentences keep their places in the batch."""

    def __init__(
        self,
        reader: SearchReader,
        recording: Recording,
        sentences: Sequence[Sentence],
        batch: SentenceBatch,
        given: tuple[Any, ...],
        give_up: Callable[[Exception], object],
        release: Callable[[], object],
    ) -> None:
        """`give_up` is told why a step could not be recorded; `release` lets others replay."""
        self.sentences, self.longest = sentences, batch.longest
        self._recording, self._give_up, self._release = recording, give_up, release
        self._min_tokens = reader.search.limits.min_tokens
        self._state: SearchState | None = None
        """The state from which the plain search goes on, once a step could not be recorded."""
        try:
            recording.begin(given)
        except BaseException:
            self.close()
            raise

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
        """Let the next search replay a recording."""
        self._release()


def _scramble(batch: SentenceBatch, given: tuple[Any, ...]) -> None:
    """Put other numbers in place, which a model can read as well."""
    # half a token is in the vocabulary, and no padding
    for tokens in (batch.source, batch.forced):
        tokens.sub_(tokens // 2)
    for leaf in leaves(given):
        if isinstance(leaf, Tensor) and leaf.is_floating_point() and leaf.dim():
            leaf.copy_(leaf.flip(-1))


def _check_equal(
    found: list[list[Hypothesis]], want: list[list[Hypothesis]], most_apart: float
) -> None:
    """Refuse a recording whose scores are not those of the plain search.

    `most_apart` is the share of the sentences that may have others.
    """
    pairs = [(ours[0].score, plain[0].score) for ours, plain in zip(found, want, strict=True)]
    apart = [
        (ours, plain)
        for ours, plain in pairs
        # NaN fails this comparison
        if not abs(ours - plain) <= TOLERANCE * max(1.0, abs(plain))
    ]
    if len(apart) > most_apart * len(pairs):
        ours, plain = apart[0]
        raise RuntimeError(
            f"the recording answers otherwise than the plain search: a score of {ours:.4f} in "
            f"place of {plain:.4f}"
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
