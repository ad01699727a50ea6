"""Reading ahead: inputs become windows, the next of which is read while one is worked on.

    inputs → collected as they arrive → windows, read by a thread → the caller

At most three windows are held, and as many inputs as a fourth, so that inputs may be endless.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

In = TypeVar("In")
Out = TypeVar("Out")

PAUSE_SECONDS = 0.01
"""How long a window waits for more inputs after its first."""
LOOK_SECONDS = 0.1
"""How often a thread that waits for the caller checks whether it has gone."""


def windows(inputs: Iterable[In], read: Callable[[list[In]], Out], most: int) -> Iterator[Out]:
    """Windows of the inputs that have arrived, each read; it waits only for the first of each.

    An error in taking the inputs is raised after the windows of those before it, and one in reading
    in place of its window.

    >>> sum(windows(range(5), sum, 5))
    10
    """
    arrived: queue.Queue[Any] = queue.Queue(maxsize=most)
    ready: queue.Queue[Any] = queue.Queue(maxsize=1)
    has_gone = threading.Event()

    def put(place: queue.Queue[Any], thing: object) -> bool:
        while not has_gone.is_set():
            try:
                place.put(thing, timeout=LOOK_SECONDS)
            except queue.Full:
                continue
            return True
        return False

    def collect() -> None:
        try:
            for one in inputs:
                if not put(arrived, (one,)):
                    return
        except BaseException as error:
            put(arrived, error)
        put(arrived, None)

    def first() -> Any:
        while not has_gone.is_set():
            try:
                return arrived.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                continue
        return None

    def gather() -> None:
        # an input in a tuple, or an error; None at the end, and () where no input follows at once
        found: Any = ()
        while found is not None:
            found, window = first(), list[In]()
            end = time.monotonic() + PAUSE_SECONDS
            try:
                while found and isinstance(found, tuple):
                    window.append(found[0])
                    left = max(0.0, end - time.monotonic())
                    found = arrived.get(timeout=left) if len(window) < most else ()
            except queue.Empty:
                found = ()
            try:
                if window and not put(ready, (read(window),)):
                    return
            except BaseException as error:
                put(ready, error)
            if isinstance(found, BaseException):
                put(ready, found)
        put(ready, None)

    for work in (collect, gather):
        threading.Thread(target=work, daemon=True).start()
    try:
        while (found := ready.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield found[0]
    finally:
        has_gone.set()
