"""Connections: how many there may be, and how long the head of a request may take to come.

A connection over which no request comes holds a descriptor. Past the limit of descriptors nothing
can be accepted, so that connections are closed before: those that are too many at once, those on
which a head comes too slowly.
"""

import asyncio
from typing import final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment] # a module that is not there has no other type

HEAD_SECONDS = 10.0
"""How long the head of a request may take to come."""
MAX_CONNECTIONS = 2048
OWN_DESCRIPTORS = 128
"""Descriptors for the server's files, workers and uploads."""


@final
class TimedHeads(H11Protocol):
    """HTTP/1.1 that closes a connection on which a head comes too slowly."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The first head must come in time."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """What came may be a part of a head."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._rest()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._rest()
        elif self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def most_connections() -> int:
    """How many connections there may be; the limit of descriptors is raised to what is allowed."""
    # a module that is missing somewhere is None there
    if not resource:
        return MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + OWN_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, soft - OWN_DESCRIPTORS))
