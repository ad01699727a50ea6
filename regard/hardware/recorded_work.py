"""Replaying: a batch's work recorded once for each shape, and played again without Python.

A GPU outruns the Python that feeds it: an update of a base Transformer is a thousand kernels, and
calling them one by one takes longer than running them. A recording (a CUDA graph) holds them all.
Shapes return, since lengths are rounded up and a batch's rows follow from its length; the second
time a shape comes it is recorded, from the third time on it is played.
"""

from collections import Counter
from collections.abc import Callable
from typing import Protocol, final, runtime_checkable

import torch
from torch import Tensor

from regard.hardware.cuda_graphs import GraphPool

MOST = 256
"""How many shapes are recorded; later ones are worked through as ever. Fewer where memory was too
short for them."""

Work = Callable[..., Tensor]
"""Takes tensors of one device and gives one. Whatever else it changes, such as gradients, must stay
where it is in memory."""

Shape = tuple[torch.Size, ...]


@runtime_checkable
class Player(Protocol):
    """How work is done, and how it is recorded."""

    def play(self, work: Work, inputs: tuple[Tensor, ...]) -> Tensor:
        """Do it now."""

    def record(self, work: Work, inputs: tuple[Tensor, ...]) -> Work:
        """Do nothing yet; what comes back does the work for inputs of the same shapes."""

    def forget(self) -> None:
        """All recordings are gone; give their memory back."""


@final
class Recorder:
    """Does a batch's work, by a recording where there is one."""

    def __init__(self, work: Work, player: Player) -> None:
        self.work, self.player, self.most = work, player, MOST
        self.seen: Counter[Shape] = Counter()
        self.recordings: dict[Shape, Work] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Give the work's result, which the next call may overwrite."""
        shape = tuple(each.shape for each in inputs)
        if shape not in self.recordings:
            self.seen[shape] += 1
            if self.seen[shape] == 1 or len(self.recordings) >= self.most:
                return self.player.play(self.work, inputs)
            self.recordings[shape] = self.player.record(self.work, inputs)
        return self.recordings[shape](*inputs)

    def forget(self) -> bool:
        """Give the recordings' memory back; whether any was made, or begun.

        Half as many are made from now on, so that memory that is short stays free, and whoever asks
        again and again is told no in the end. If there were none, they were not to blame, and as
        many as ever may be made.
        """
        tried = min(self.most, sum(times > 1 for times in self.seen.values()))
        self.most = tried // 2 if tried else MOST
        self.recordings.clear()
        self.seen.clear()
        self.player.forget()
        return tried > 0


@final
class Eager:
    """Does the work as it is, and never records."""

    def __init__(self, work: Work) -> None:
        self.work = work

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Do it."""
        return self.work(*inputs)

    def forget(self) -> bool:
        """There is nothing to forget."""
        return False


@final
class CudaGraphs:
    """Records CUDA graphs, which share one room in memory since no two play at once."""

    def __init__(self, device: torch.device) -> None:
        # a graph's gradients must have been made on the stream that records it
        self.stream = torch.cuda.Stream(device)
        self.room = GraphPool()

    def play(self, work: Work, inputs: tuple[Tensor, ...]) -> Tensor:
        """On the stream that records."""
        current = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            result = work(*inputs)
        current.wait_stream(self.stream)
        return result

    def record(self, work: Work, inputs: tuple[Tensor, ...]) -> Work:
        """One graph, with inputs and result at fixed places."""
        kept = [each.clone() for each in inputs]
        with self.room.recording(self.stream) as graph:
            result = work(*kept)

        def replay(*given: Tensor) -> Tensor:
            for place, each in zip(kept, given, strict=True):
                place.copy_(each, non_blocking=True)
            graph.replay()
            return result

        return replay

    def forget(self) -> None:
        """Start a new room, and give the old one back."""
        self.room = GraphPool()
        torch.cuda.empty_cache()
