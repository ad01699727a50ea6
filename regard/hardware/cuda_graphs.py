"""Recording: kernels caught in a CUDA graph, which plays them again without Python.

Python's garbage collector waits meanwhile. An older recording among the garbage would be taken down
by the driver, and no recording outlives that.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import torch


@final
class GraphPool:
    """A room in memory that recordings share; no two of them may play at once."""

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()

    @contextmanager
    def recording(self, stream: torch.cuda.Stream | None = None) -> Iterator[torch.cuda.CUDAGraph]:
        """The graph of all that is launched within; nothing of it is done yet."""
        graph = torch.cuda.CUDAGraph()
        with _uncollected(), torch.cuda.graph(graph, pool=self.pool, stream=stream):
            yield graph


@contextmanager
def _uncollected() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
