"""Recordings: the steps of a search as CUDA graphs, which later batches of its shape replay.

A step of a search is hundreds of small operations, and on a GPU launching each takes longer than
running it. Batches of one shape run the same operations, so that one call launches a whole step,
and one the reading of the sources if that can be captured. Batches are padded to a few sizes.

    first batch of a shape     the plain search
    second                     searched plainly, recorded with other numbers, replayed with its own,
                               and used from here on if both answers agree
    later ones                 replayed

What cannot be recorded, or answers otherwise, is searched plainly, and `Recordings.said` says why.
So is a batch while another search replays, as all recordings of a model share one memory.

Cost: the memory of the longest answer's caches for each of at most `MAX_RECORDINGS` shapes, until
half of the GPU's memory is taken; all is given back when memory runs out. About a second for the
capture, and the plain search once more.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from threading import Lock
from typing import final

import torch
from torch import nn

from regard.decoding.gpu.batch_sizes import filled_sentences, padded_length
from regard.decoding.gpu.recorded_steps import (
    GraphCapture,
    Key,
    RecordedSteps,
    Recording,
    SearchReader,
)
from regard.decoding.search_steps import SearchSteps, StepwiseSearch
from regard.decoding.sentences import Sentence
from regard.errors import counted
from regard.hardware.cuda_graphs import GraphPool
from regard.hardware.memory import lacks_memory
from regard.models.stepper import Stepper

MAX_RECORDINGS = 32
"""How many shapes of a model are recorded."""
MAX_SEEN = 4096
"""How many shapes are remembered; with more, all are seen for the first time again."""
RECORDED = "recorded"
"""What is said of a batch that was replayed."""


GRAPH_CAPTURES: Mapping[str, Callable[[torch.device], GraphCapture]] = {"cuda": GraphPool}
"""The capture of each kind of device that has graphs."""


@final
class Recordings:
    """The recordings of one model, by search and shape."""

    def __init__(self, model: Stepper, capture: GraphCapture) -> None:
        self.model, self._capture = model, capture
        self.said = ""
        """How the last batch was searched for: `RECORDED`, or "plain" and the reason."""
        self.counts = Counter[str]()
        """How many batches were searched for in each way."""
        self._in_use = Lock()
        self._seen = Counter[Key]()
        self._made: dict[Key, Recording] = {}
        self._refused: dict[Key, str] = {}
        # an ensemble has several
        models = getattr(model, "models", (model,))
        self._modules = [one for one in models if isinstance(one, nn.Module)]
        self._weights = self._places()

    def ready(self, key: Key, rehearse: Callable[[GraphCapture], Recording]) -> Recording | None:
        """The recording for a key, made the second time; None if the batch is searched plainly.

        No other is given out before the search that replays it calls `release`.
        """
        if not self._in_use.acquire(blocking=False):
            self.refuse("another search replays a recording")
            return None
        found = None
        try:
            found = self._found(key, rehearse)
        finally:
            if found is None:
                self.release()
        return found

    def release(self) -> None:
        """Let the next search replay a recording."""
        self._in_use.release()

    def free(self) -> None:
        """Give the memory of all recordings back."""
        self._made.clear()
        self._seen.clear()
        self._capture.free()

    def give_up(self, key: Key, error: Exception) -> str:
        """Keep no recording for a key, and none at all if memory ran out; the reason in words."""
        why = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        self._made.pop(key, None)
        self._refused[key] = why
        # its frames hold the tensors of the search
        error.with_traceback(None)
        if lacks_memory(error):
            self.free()
        return why

    def refuse(self, why: str) -> None:
        """Note why a batch is searched for plainly."""
        self._note(f"plain: {why}")

    def _found(self, key: Key, rehearse: Callable[[GraphCapture], Recording]) -> Recording | None:
        if self._weights != (weights := self._places()):
            # graphs read the memory that the weights had
            self.free()
            self._refused.clear()
            self._weights = weights
        if len(self._seen) >= MAX_SEEN:
            self._seen.clear()
            self._refused.clear()
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
            return None
        if key in self._refused:
            return self._refused[key]
        if self._seen[key] == 1:
            return "the first batch of its shape"
        if len(self._made) >= MAX_RECORDINGS:
            return f"no more than {counted(MAX_RECORDINGS, 'shape')} of a run are recorded"
        if not self._capture.has_room():
            return "recordings and weights hold half of the memory already"
        return None

    def _places(self) -> list[tuple[int, torch.dtype]]:
        """Where the weights are in memory."""
        weights = chain.from_iterable((*one.parameters(), *one.buffers()) for one in self._modules)
        return [(weight.data_ptr(), weight.dtype) for weight in weights]

    def _note(self, way: str) -> None:
        self.said = way
        self.counts[way] += 1


@final
class RecordedModel:
    """A model on which every search replays the steps that it has recorded."""

    def __init__(self, model: Stepper, recordings: Recordings, longest: int) -> None:
        self.model, self.recordings = model, recordings
        self.longest = longest
        """The most tokens that the model reads."""
        self.start, self.step = model.start, model.step
        self.select, self.branch = model.select, model.branch

    def reading(self, wrap: Callable[[Stepper], Stepper]) -> "RecordedModel":
        """The same recordings for a model that reads its sources in another way."""
        return RecordedModel(wrap(self.recordings.model), self.recordings, self.longest)

    def batch_tokens(self, n_sentences: int, length: int) -> int:
        """How many source tokens a batch has once it is filled up."""
        return filled_sentences(n_sentences) * padded_length(length, self.longest)

    def steps_of(
        self, search: StepwiseSearch, sentences: Sequence[Sentence], device: torch.device
    ) -> SearchSteps:
        """Recorded steps if there are any for batches like this one, else plain ones."""
        recordings = self.recordings
        reader = SearchReader(search, self.model, recordings.model, self.longest, device)
        if any(sentence.must_contain for sentence in sentences):
            recordings.refuse("answers that must hold phrases")
            return reader.plain(sentences, search.batch(sentences, device))
        filled = _filled(sentences)
        batch = reader.batch(filled)
        given = reader.given(batch)
        try:
            key = reader.key(given)
        except TypeError as error:
            recordings.refuse(str(error))
            return reader.plain(filled, batch, given[1])
        found = recordings.ready(key, lambda capture: reader.rehearsed(filled, capture))
        if found is None:
            return reader.plain(filled, batch, given[1])
        return RecordedSteps(
            reader, found, filled, batch, given,
            lambda why: recordings.give_up(key, why), recordings.release,
        )  # fmt: skip


def recorded(model: Stepper, device: torch.device, longest: int) -> Stepper:
    """The model, with recorded searches where the device has graphs.

    `longest` is the most tokens that the model reads: no source is padded beyond.
    """
    capture = GRAPH_CAPTURES.get(device.type)
    if capture is None:
        return model
    return RecordedModel(model, Recordings(model, capture(device)), longest)


def _filled(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences, and copies of the last one up to a size that batches share."""
    count = filled_sentences(len(sentences)) - len(sentences)
    return [*sentences, *[replace(sentences[-1], follower=None)] * count]
