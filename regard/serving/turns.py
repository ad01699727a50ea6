"""Whose turn it is to compute: a few quick pieces at a time, and one long one that gives way.

Whoever asked may have gone meanwhile: a page that is moved gives up what has left its sight. Then
nothing is computed for them any more, whether it waited for its turn or was under way.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Condition, Event
from typing import final

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


async def answer_while_there(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Let an application answer a request without a body, and notice when its asker goes.

    Args:
        app: what answers.
        scope: of the request.
        receive: gives what comes from the asker; the end of the connection too.
        send: takes the answer.
    """
    asker, messages = Asker(), asyncio.Queue[Message]()
    _ASKER.set(asker)

    async def listen() -> None:
        while not asker.is_gone:
            message = await receive()
            if message["type"] == "http.disconnect":
                asker.go()
            messages.put_nowait(message)

    listening = asyncio.create_task(listen())
    try:
        await app(scope, messages.get, send)
    finally:
        listening.cancel()


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
