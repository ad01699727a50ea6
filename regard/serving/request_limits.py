"""Request limits: how many requests are worked on at a time, and what a disconnection ends.

    event loop    immediate answers: health, metrics, names, files of the page
    Pools.read    `MAX_READING_REQUESTS` read files or tokenise texts, without a model
    Pools.run_on_model    one a run predicts or captions
    Pools.run_chapter     one runs a chapter of the course
    ComputeLimits    `MAX_QUICK_PIECES` quick pieces of maps, and one long one that pauses for them

Maps and records use Starlette's threads, as all other routes do. A request beyond a limit waits;
the queue has no bound, and only the client's disconnection ends the wait.

A client may disconnect meanwhile: a page cancels the tiles that scroll out of view. Its work is
then dropped, whether it waits or is under way.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import replace
from threading import Condition, Event, Lock, Semaphore
from typing import Protocol, TypeVar, final, runtime_checkable

import torch
from anyio import CapacityLimiter, to_thread
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.decoding import Decodable, Hypothesis, Search, Sentence

T = TypeVar("T")

CLIENT_CLOSED = 499
"""The status of a request whose client has disconnected; nginx uses the same."""
POLL_SECONDS = 0.05
"""How often, in seconds, waiting work checks whether its client is still connected."""
MAX_QUICK_PIECES = 2
"""Quick pieces at a time; each may use several cores."""
MAX_READING_REQUESTS = 8


@final
class ConnectedClient(Event):
    """The client of a request; the event is set once it has disconnected."""

    def __init__(self) -> None:
        super().__init__()
        self._on_leaving: list[Callable[[], object]] = []

    def when_gone(self, do: Callable[[], object]) -> None:
        """Call a function in the event loop once the client has disconnected, or now if it has."""
        self._on_leaving.append(do)
        if self.is_set():
            do()

    def set(self) -> None:
        """The client has disconnected."""
        super().set()
        for do in self._on_leaving:
            do()


_CLIENT: ContextVar[ConnectedClient | None] = ContextVar("client", default=None)


def current_client() -> ConnectedClient | None:
    """The client of the request that this task or thread answers."""
    return _CLIENT.get()


def check_client() -> None:
    """Raise if this thread's client has disconnected; do nothing in a thread without a request."""
    client = _CLIENT.get()
    if client is not None and client.is_set():
        raise HTTPException(CLIENT_CLOSED, "the client has gone")


@runtime_checkable
class Lockable(Protocol):
    """A lock or semaphore of `threading`."""

    def acquire(self, *, timeout: float) -> bool:
        """Take it; False if it was not free in time."""

    def release(self) -> None:
        """Give it back."""


@contextmanager
def held(lock: Lockable) -> Iterator[None]:
    """Hold a lock; raise if the client disconnects before it is free."""
    while not lock.acquire(timeout=POLL_SECONDS):
        check_client()
    try:
        check_client()
        yield
    finally:
        lock.release()


async def answer_while_there(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, has_body: bool = False
) -> None:
    """Let an application answer a request, and watch for the client's disconnection.

    The application reads a body part by part, so that a disconnection is noticed only after the
    body has ended.
    """
    client, end = ConnectedClient(), list[asyncio.Task[Message]]()
    _CLIENT.set(client)

    async def wait_for_end() -> Message:
        while (message := await receive())["type"] != "http.disconnect":
            pass
        client.set()
        return message

    async def take() -> Message:
        if end:
            # shielded: an application that stops waiting must not cancel the watch
            return await asyncio.shield(end[0])
        message = await receive()
        if message["type"] == "http.disconnect":
            client.set()
        elif not message.get("more_body", False):
            end.append(asyncio.create_task(wait_for_end()))
        return message

    # without a body, its single empty message is taken first, so that the watch can begin
    taken = [] if has_body else [await take()]

    async def next_message() -> Message:
        return taken.pop() if taken else await take()

    try:
        await app(scope, next_message, send)
    finally:
        for task in end:
            task.cancel()


@final
class Pools:
    """Threads for requests: work for a model does not block requests that need none.

    A run answers texts in the order in which their checks end: a short one may overtake.
    """

    def __init__(self, runs: Iterable[str]) -> None:
        self._reading = CapacityLimiter(MAX_READING_REQUESTS)
        self._of_run = {name: CapacityLimiter(1) for name in runs}
        self._course = CapacityLimiter(1)

    async def read(self, work: Callable[[], T]) -> T:
        """Run work that needs no model."""
        return await _in_thread(work, self._reading)

    async def run_on_model(self, run: str, work: Callable[[], T]) -> T:
        """Run work of a run's model, one request at a time."""
        return await _in_thread(work, self._of_run[run])

    async def run_chapter(self, work: Callable[[], T]) -> T:
        """Run a chapter of the course, one at a time."""
        return await _in_thread(work, self._course)


async def _in_thread(work: Callable[[], T], limiter: CapacityLimiter) -> T:
    """The result of the work; raises if the client disconnects before it starts."""

    def checked_work() -> T:
        check_client()
        return work()

    return await to_thread.run_sync(checked_work, limiter=limiter)


@final
class ComputeLimits:
    """Limits of concurrent work: `max_quick` quick pieces, and one long one."""

    def __init__(self, max_quick: int = MAX_QUICK_PIECES) -> None:
        self.max_quick = max_quick
        self._quick, self._long = Semaphore(max_quick), Lock()
        self._n_quick = 0
        """Quick pieces that are under way or waiting."""
        self._change = Condition()

    @contextmanager
    def quick(self) -> Iterator[None]:
        """A context for work that takes a moment."""
        with self._change:
            self._n_quick += 1
        try:
            with held(self._quick):
                yield
        finally:
            with self._change:
                self._n_quick -= 1
                self._change.notify_all()

    def long(self) -> AbstractContextManager[None]:
        """A context for work that takes seconds and calls `give_way` now and then."""
        return held(self._long)

    def give_way(self) -> None:
        """Wait until no quick piece is under way or waiting."""
        check_client()
        with self._change:
            while self._n_quick:
                self._change.wait(POLL_SECONDS)
                check_client()


@final
class WatchedSearch:
    """A search for one request that stops at its next step once the client has disconnected.

    A search engine, which takes no steps here, is asked only while the client is connected.
    It keeps what it found, so that each answer can be looked at as it was written. `busy` is held
    only while the model computes, so that other requests can tokenise meanwhile.
    """

    def __init__(self, search: Search, busy: Lockable) -> None:
        self.search, self.busy = search, busy
        self.found = list[list[Hypothesis]]()

    def __call__(
        self, model: Decodable, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """Search, and keep what is found."""
        with held(self.busy):
            # searches ask their followers before each step
            followed = [replace(one, follower=one.follower or CLIENT) for one in sentences]
            found = self.search(model, followed, device=device)
        self.found += found
        return found


@final
class _Client:
    """A follower that raises once the client has disconnected."""

    def wants_more(self) -> bool:
        """Raises if the client is gone."""
        check_client()
        return True

    def write(self, token: int) -> None:
        """The answer is sent at its end."""


CLIENT = _Client()
