"""Whose turn it is to compute: a few quick pieces at a time, and one long one that gives way.

Whoever asked may have gone meanwhile: a page that is moved gives up what has left its sight. Then
nothing is computed for them any more, whether it waited for its turn or was under way.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Condition, Event
from typing import Protocol, final, runtime_checkable

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

GONE = 499
"""What an answer to nobody is called among servers."""
PATIENCE = 0.05
"""Seconds after which somebody who waits looks whether anybody still wants the answer."""
AT_ONCE = 2
"""Quick pieces; each of them may use several cores."""


@final
class Asker:
    """Somebody who asked, and may go."""

    def __init__(self) -> None:
        self._gone = Event()

    @property
    def is_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._gone.is_set()

    def go(self) -> None:
        """They are gone."""
        self._gone.set()


_ASKER: ContextVar[Asker | None] = ContextVar("asker", default=None)


def check_asker() -> None:
    """Stop here if whoever asked has gone; in a thread that answers nobody, go on."""
    asker = _ASKER.get()
    if asker is not None and asker.is_gone:
        raise HTTPException(GONE, "nobody waits for this answer any more")


@runtime_checkable
class Lockable(Protocol):
    """A lock of `threading`, whether or not its thread may take it twice."""

    def acquire(self, *, timeout: float) -> bool:
        """Take it; False if it was not free in time."""

    def release(self) -> None:
        """Give it back."""


@contextmanager
def held(lock: Lockable) -> Iterator[None]:
    """Hold a lock, unless the client goes before it is free."""
    while not lock.acquire(timeout=PATIENCE):
        check_asker()
    try:
        check_asker()
        yield
    finally:
        lock.release()


async def answer_while_there(
    app: ASGIApp, scope: Scope, receive: Receive, send: Send, *, has_body: bool = False
) -> None:
    """Let an application answer a request, and notice when its asker goes.

    Args:
        app: what answers.
        scope: of the request.
        receive: gives what comes from the asker; the end of the connection too.
        send: takes the answer.
        has_body: whether the application is to take a body, part by part; the asker's going is
            noticed as soon as the body has ended.
    """
    coming = _RequestMessages(receive)
    _ASKER.set(coming.asker)
    if not has_body:
        await coming.begin()
    try:
        await app(scope, coming.receive, send)
    finally:
        coming.stop()


class _RequestMessages:
    """What comes from an asker: the parts of a body as they are taken, and then the end."""

    def __init__(self, receive: Receive) -> None:
        self.asker = Asker()
        self._receive = receive
        self._first: Message | None = None
        self._end: asyncio.Task[Message] | None = None

    async def begin(self) -> None:
        """Take the message that stands for an empty body, and listen from now on."""
        self._first = await self._next()

    async def receive(self) -> Message:
        """The next message for the application."""
        if self._first is not None:
            message, self._first = self._first, None
            return message
        if self._end is not None:
            # an application that stops waiting does not end the listening
            return await asyncio.shield(self._end)
        return await self._next()

    def stop(self) -> None:
        """Listen no longer."""
        if self._end is not None:
            self._end.cancel()

    async def _next(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self.asker.go()
        elif not message.get("more_body", False):
            self._end = asyncio.create_task(self._listen())
        return message

    async def _listen(self) -> Message:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.asker.go()
                return message


@final
class Turns:
    """How much is computed at a time.

    Args:
        at_once: how many quick pieces.
    """

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self.at_once = at_once
        self._change = Condition()
        self._n_quick = self._n_waiting = 0
        self._is_long_under_way = False

    @contextmanager
    def quick(self) -> Iterator[None]:
        """Around what takes a moment."""
        with self._change:
            self._n_waiting += 1
            try:
                self._wait(lambda: self._n_quick < self.at_once)
                self._n_quick += 1
            finally:
                self._n_waiting -= 1
        try:
            yield
        finally:
            with self._change:
                self._n_quick -= 1
                self._change.notify_all()

    @contextmanager
    def long(self) -> Iterator[None]:
        """Around what takes seconds; it calls `give_way` now and then."""
        with self._change:
            self._wait(lambda: not self._is_long_under_way)
            self._is_long_under_way = True
        try:
            yield
        finally:
            with self._change:
                self._is_long_under_way = False
                self._change.notify_all()

    def give_way(self) -> None:
        """Wait until nothing quick is under way or waiting."""
        with self._change:
            self._wait(lambda: not self._n_quick and not self._n_waiting)

    def _wait(self, is_my_turn: Callable[[], bool]) -> None:
        check_asker()
        while not is_my_turn():
            self._change.wait(PATIENCE)
            check_asker()
