"""Threads for requests: what waits for a model keeps none from what is answered at once.

    event loop    what is at hand: health, metrics, names, files of the page
    reading       what reads files or cuts texts, and waits for no model
    one a run     predictions and captions: one at a time

The texts of several requests are checked at once, and a run answers in the order in which the
checks end: a short text may overtake a long one that came before it. A request waits for its thread
in the event loop, where it takes nothing but its own memory. Maps and records of answers have the
threads that Starlette gives to all other routes.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar, final

from anyio import CapacityLimiter, to_thread

from regard.serving.turns import check_asker

T = TypeVar("T")

MAX_READING_REQUESTS = 8
"""How many requests read files or cut texts at a time."""


@final
class Pool:
    """Some threads.

    Args:
        n_threads: how many requests have one at a time.
    """

    def __init__(self, n_threads: int) -> None:
        self._limiter = CapacityLimiter(n_threads)

    async def run(self, work: Callable[[], T]) -> T:
        """Do a piece of work, unless the client goes before its turn comes."""
        return await to_thread.run_sync(partial(_unless_gone, work), limiter=self._limiter)


def _unless_gone(work: Callable[[], T]) -> T:
    check_asker()
    return work()


@final
class Pools:
    """The threads of one server.

    Args:
        runs: the names of its runs.
    """

    def __init__(self, runs: Iterable[str]) -> None:
        self.reading = Pool(MAX_READING_REQUESTS)
        self.of_run = {name: Pool(1) for name in runs}
