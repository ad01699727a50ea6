"""Recordings: the steps of a search as CUDA graphs, which later batches of its shape replay.

A step of a search is hundreds of small operations, and on a GPU launching each takes longer than
running it. Batches of one shape run the same operations, so that one call launches a whole step,
and one the reading of the sources if that can be captured. Batches are padded to a few sizes.

    first batch of a shape     the plain search
    second                     searched plainly, recorded with its sentences in reverse, replayed in
                               their own order, and used from here on if both answers agree
    later ones                 replayed

What cannot be recorded, or answers otherwise, is searched plainly, and `Recordings.said` says why.

Cost: the memory of the longest answer's caches for each of at most `MAX_RECORDINGS` shapes, until
half of the GPU's memory is taken; all is given back when memory runs out. About a second for the
capture, and the plain search once more.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import final

import torch

from regard.decoding.gpu.recorded_steps import (
    GraphCapture,
    Key,
    RecordedSteps,
    Recording,
    SearchReader,
)
from regard.decoding.search_steps import (
    SearchSteps,
    StepwiseSearch,
)
from regard.decoding.sentences import Sentence
from regard.errors import counted
from regard.hardware.cuda_graphs import GraphPool
from regard.hardware.memory import lacks_memory
from regard.models.stepper import Stepper

FEW_SENTENCES = 32
"""Batches are padded to powers of 2 up to so many sentences, and to multiples of it beyond."""
MAX_RECORDINGS = 32
"""How many shapes of a model are recorded."""
RECORDED = "recorded"
"""What is said of a batch that was replayed."""


GRAPH_CAPTURES: Mapping[str, Callable[[], GraphCapture]] = {"cuda": GraphPool}
"""The capture of each kind of device that has graphs."""


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
        self._made: dict[Key, Recording] = {}
        self._refused: dict[Key, str] = {}

    def ready(self, key: Key, rehearse: Callable[[GraphCapture], Recording]) -> Recording | None:
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
        reader = SearchReader(search, self.model, device)
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
        return RecordedSteps(
            reader, found, filled, batch, given, lambda why: self.recordings.give_up(key, why)
        )


def recorded(model: Stepper, device: torch.device) -> Stepper:
    """The model, with recorded searches where the device has graphs."""
    capture = GRAPH_CAPTURES.get(device.type)
    return model if capture is None else RecordedModel(model, Recordings(capture))


def _filled(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences, and copies of the last one up to a size that batches share."""
    n = len(sentences)
    size = (
        1 << (n - 1).bit_length() if n < FEW_SENTENCES else -(-n // FEW_SENTENCES) * FEW_SENTENCES
    )
    return [*sentences, *[replace(sentences[-1], follower=None)] * (size - n)]
