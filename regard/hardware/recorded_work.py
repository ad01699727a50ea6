"""Recorded work: records a batch's work once for each shape, and replays it without Python.

An update of a base Transformer is a thousand kernels, which a GPU runs faster than Python calls
them. A recording (a CUDA graph) holds them all. Shapes repeat, since lengths are rounded up and a
batch's rows follow from its length; a shape is recorded the second time, and replayed from then on.
"""

import gc
from collections import Counter
from collections.abc import Callable
from typing import Protocol, TypeVar, final, runtime_checkable

import torch
from torch import Tensor

MAX_SHAPES = 256
"""How many shapes are recorded; the work of later ones runs unrecorded."""

Work = Callable[..., Tensor]
"""Takes tensors of one device and gives one. Other tensors that it changes, such as gradients, must
keep their addresses."""

Shape = tuple[torch.Size, ...]
T = TypeVar("T")


@final
class GraphPool:
    """Memory that CUDA graphs share; no two of them may play at once."""

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()

    def record(
        self, work: Callable[[], T], stream: torch.cuda.Stream | None = None
    ) -> tuple[T, Callable[[], object]]:
        """The tensor of the work's result, and a function that replays the work.

        All tensors of the work must be on the device.
        """
        graph, collects = torch.cuda.CUDAGraph(), gc.isenabled()
        # a recording fails if the garbage collector frees an older one meanwhile
        gc.disable()
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=stream):
                found = work()
        finally:
            if collects:
                gc.enable()
        return found, graph.replay


@runtime_checkable
class Player(Protocol):
    """The interface: runs work, and records it."""

    def play(self, work: Work, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the work now."""

    def record(self, work: Work, inputs: tuple[Tensor, ...]) -> Work:
        """Record the work; calling the result replays it for inputs of the same shapes."""

    def forget(self) -> None:
        """Free the memory of all recordings, which are deleted."""


@final
class Recorder:
    """Runs a batch's work, by a recording if there is one; without a player it records none."""

    def __init__(self, work: Work, player: Player | None = None) -> None:
        self.work, self.player, self.max_shapes = work, player, MAX_SHAPES
        self.seen: Counter[Shape] = Counter()
        self.recordings: dict[Shape, Work] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Run the work; the next call may overwrite its result."""
        if self.player is None:
            return self.work(*inputs)
        shape = tuple(each.shape for each in inputs)
        if shape not in self.recordings:
            self.seen[shape] += 1
            if self.seen[shape] == 1 or len(self.recordings) >= self.max_shapes:
                return self.player.play(self.work, inputs)
            self.recordings[shape] = self.player.record(self.work, inputs)
        return self.recordings[shape](*inputs)

    def forget(self) -> bool:
        """Free the recordings' memory; True if any was made or begun.

        From then on half as many are made, so that memory stays free and a caller that keeps trying
        ends with none. If there were none, they did not use the memory, and the limit is reset.
        """
        tried = min(self.max_shapes, sum(times > 1 for times in self.seen.values()))
        self.max_shapes = tried // 2 if tried else MAX_SHAPES
        self.recordings.clear()
        self.seen.clear()
        if self.player is not None:
            self.player.forget()
        return tried > 0


@final
class CudaGraphs:
    """Records CUDA graphs, which share one pool of memory since no two play at once."""

    def __init__(self, device: torch.device) -> None:
        # a graph's gradients must have been made on the stream that records it
        self.stream = torch.cuda.Stream(device)
        self.pool = GraphPool()

    def play(self, work: Work, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run on the stream that records."""
        current = torch.cuda.current_stream(self.stream.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            result = work(*inputs)
        current.wait_stream(self.stream)
        return result

    def record(self, work: Work, inputs: tuple[Tensor, ...]) -> Work:
        """One graph, with inputs and result at fixed places."""
        places = [each.clone() for each in inputs]
        result, play = self.pool.record(lambda: work(*places), self.stream)

        def replay(*given: Tensor) -> Tensor:
            for place, each in zip(places, given, strict=True):
                place.copy_(each, non_blocking=True)
            play()
            return result

        return replay

    def forget(self) -> None:
        """Start a new pool, and give the old one back."""
        self.pool = GraphPool()
        torch.cuda.empty_cache()
