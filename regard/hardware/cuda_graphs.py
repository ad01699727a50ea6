"""CUDA graphs: capture a batch's work once for each shape, and replay it without Python.

An update of a base Transformer is a thousand kernels, which a GPU runs faster than Python calls
them. A CUDA graph holds them all. Shapes repeat, since lengths are rounded up and a batch's rows
follow from its length; a shape's graph is captured the second time, and replayed from then on.
"""

import gc
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar, final, runtime_checkable

import torch
from torch import Tensor

MAX_SHAPES = 256
"""How many shapes get a graph; the work of later ones runs without."""

Work = Callable[..., Tensor]
"""Takes tensors of one device and gives one. Other tensors that it changes, such as gradients, must
keep their addresses."""

Shape = tuple[torch.Size, ...]
T = TypeVar("T")


@final
class GraphPool:
    """Memory of one GPU that CUDA graphs share; no two of them may run at once."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        # torch's own stream for captures is on the GPU that was the first to capture
        self.stream = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()

    def has_room(self) -> bool:
        """Whether at least half of the GPU's memory holds no tensors."""
        free, total = torch.cuda.mem_get_info(self.device)
        reserved = torch.cuda.memory_reserved(self.device)
        return free + reserved - torch.cuda.memory_allocated(self.device) >= total / 2

    def capture_graph(self, work: Callable[[], T]) -> tuple[T, Callable[[], object]]:
        """The tensor of the work's result, and a function that replays the work.

        All tensors of the work must be on the device. Other threads may use it meanwhile.
        """
        collects = gc.isenabled()
        # a capture fails if the garbage collector frees an older graph meanwhile
        gc.disable()
        try:
            with torch.cuda.device(self.device):
                return self._captured(work)
        finally:
            if collects:
                gc.enable()

    def free(self) -> None:
        """Start a new pool, and give the old one back, whose graphs are deleted."""
        self.pool = torch.cuda.graph_pool_handle()
        # torch refuses while another thread captures, or after a capture that broke off
        with suppress(RuntimeError):
            torch.cuda.empty_cache()

    def _captured(self, work: Callable[[], T]) -> tuple[T, Callable[[], object]]:
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(
                graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"
            ):
                found = work()
        except BaseException:
            # a capture that fails leaves its own stream the current one
            torch.cuda.set_stream(before)
            # and torch 2.11 and 2.12 go on allocating for it; others have ended that, and refuse
            with suppress(RuntimeError):
                torch._C._cuda_endAllocateToPool(before.device_index, self.pool)
            raise
        return found, graph.replay


@runtime_checkable
class GraphBackend(Protocol):
    """The interface: runs work, and captures it as a graph."""

    def run(self, work: Work, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the work now."""

    def capture_graph(self, work: Work, inputs: tuple[Tensor, ...]) -> Work:
        """Capture the work; calling the result replays it for inputs of the same shapes."""

    def free(self) -> None:
        """Free the memory of all graphs, which are deleted."""


@final
class GraphedWork:
    """Runs a batch's work, by a graph if its shape has one; without a backend none has."""

    def __init__(self, work: Work, backend: GraphBackend | None = None) -> None:
        self.work, self.backend, self.max_shapes = work, backend, MAX_SHAPES
        self.seen: Counter[Shape] = Counter()
        self.graphs: dict[Shape, Work] = {}

    def __call__(self, *inputs: Tensor) -> Tensor:
        """Run the work; the next call may overwrite its result."""
        if self.backend is None:
            return self.work(*inputs)
        shape = tuple(each.shape for each in inputs)
        if shape not in self.graphs:
            self.seen[shape] += 1
            if self.seen[shape] == 1 or len(self.graphs) >= self.max_shapes:
                return self.backend.run(self.work, inputs)
            self.graphs[shape] = self.backend.capture_graph(self.work, inputs)
        return self.graphs[shape](*inputs)

    def free(self) -> bool:
        """Free the graphs' memory; True if any was made or begun.

        From then on half as many are made, so that memory stays free and a caller that keeps trying
        ends with none. If there were none, they did not use the memory, and the limit is reset.
        """
        tried = min(self.max_shapes, sum(times > 1 for times in self.seen.values()))
        self.max_shapes = tried // 2 if tried else MAX_SHAPES
        self.graphs.clear()
        self.seen.clear()
        if self.backend is not None:
            self.backend.free()
        return tried > 0


@final
class CudaGraphs:
    """Captures CUDA graphs, which share one pool of memory since no two run at once."""

    def __init__(self, device: torch.device) -> None:
        self.pool = GraphPool(device)

    def run(self, work: Work, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run on the stream that captures, as a graph's gradients must have been made on it."""
        stream = self.pool.stream
        current = torch.cuda.current_stream(stream.device)
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            result = work(*inputs)
        current.wait_stream(stream)
        return result

    def capture_graph(self, work: Work, inputs: tuple[Tensor, ...]) -> Work:
        """One graph, with inputs and result at fixed places."""
        places = [each.clone() for each in inputs]
        result, replay_graph = self.pool.capture_graph(lambda: work(*places))

        def replay(*given: Tensor) -> Tensor:
            for place, each in zip(places, given, strict=True):
                place.copy_(each, non_blocking=True)
            replay_graph()
            return result

        return replay

    def free(self) -> None:
        """Give the memory of the graphs back."""
        self.pool.free()
