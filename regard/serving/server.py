"""The running process: uvicorn serves an app on a bound port until it is stopped.

What happens to a request is in app.py (routes), guard.py (checks before the body is read) and
request_limits.py (how many are worked on at a time).
"""

import asyncio
import errno
import signal
import socket
import ssl
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, final

import uvicorn
from starlette.types import ASGIApp

from regard.errors import RunError, SettingError
from regard.hardware.memory import spare_loaded_objects
from regard.hardware.threads import asked_by, use_threads
from regard.runs.trained import Trained
from regard.serving.connections import TimedHeads, most_connections
from regard.serving.registry import Served
from regard.serving.services import Services

MAX_WAITING_CLIENTS = 128
GRACE_SECONDS = 3
"""How long a shutdown waits for requests in progress, beside the time to drain the queues."""


class TlsFiles(NamedTuple):
    """The files of a certificate, for a server that speaks TLS itself."""

    certificate: Path
    """The chain, in PEM."""
    key: Path | None = None
    """Its key; in the file of the certificate unless given."""

    def check(self) -> None:
        """Refuse files that hold no certificate with its key."""
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*self)
        except (OSError, ssl.SSLError) as error:
            raise SettingError(
                f"serve: --certificate '{self.certificate}' and its key cannot be used: {error}. "
                "Give the chain in PEM, and with --key its key."
            ) from error


@final
@dataclass(frozen=True)
class Lifecycle:
    """What signals do to the services of a server."""

    services: Services
    drain_seconds: float
    """How long a server that was told to stop goes on answering what it took."""
    reopen: Callable[[Served], Trained]
    """Loads a run again."""

    async def reload(self) -> None:
        """Load all runs again, and tell on standard error what became of them."""
        said = await self.services.reload(self.reopen)
        spare_loaded_objects()
        for line in said:
            sys.stderr.write(f"serve: {line}\n")

    async def stop(self) -> None:
        """Answer what was taken, then refuse what is left."""
        await asyncio.gather(
            *(one.drain(self.drain_seconds) for one in self.services.runs.values())
        )
        for service in self.services.runs.values():
            service.abort()


@final
class StoppableServer(uvicorn.Server):
    """A server that is not ready from the first signal on, and ends at once at the second.

    SIGTERM and SIGINT end it, SIGHUP loads its runs again.
    """

    def __init__(self, config: uvicorn.Config, life: Lifecycle | None) -> None:
        super().__init__(config)
        self._life = life
        self._tasks = set[asyncio.Task[None]]()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop, or stop now."""
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True
        if self._life is not None:
            self._life.services.is_draining = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and listen for SIGHUP."""
        await super().startup(sockets)
        if self._life is not None:
            spare_loaded_objects()
        if self._life is not None and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGHUP, self._begin, self._life.reload
            )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, drain, and close."""
        if self._life is not None:
            self._begin(self._life.stop)
        await super().shutdown(sockets)

    def _begin(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        task = asyncio.create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def take_one_thread() -> None:
    """Let torch use one thread per request, unless the user chose a number of threads.

    Requests are answered outside the main thread, where torch's threads hardly help each other: 50
    answers of a small model took 19.1 s on two threads, and 4.7 s on one.
    """
    if asked_by() is None:
        use_threads(1)


def bind(host: str, port: int) -> socket.socket:
    """Listen on a port; a port in use raises a `SettingError`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; without it the body of an answer
    # waits 40 ms until the client acknowledges its head
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        # clients that connect before the server answers wait in this queue
        listening.listen(MAX_WAITING_CLIENTS)
    except OSError as error:
        listening.close()
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            raise SettingError(
                f"serve: '{host}' is no address of this machine ({error.strerror or error}). Give "
                "another with --host, or leave --host out for 127.0.0.1."
            ) from error
        raise SettingError(
            f"serve: cannot listen on {host}, port {port}: {error.strerror or error}. Give another "
            "with --port, or --port 0 for any that is free."
        ) from error
    return listening


def address_of(listening: socket.socket, scheme: str = "http") -> str:
    """The URL to type into a browser."""
    host, port = listening.getsockname()[:2]
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
    named = everywhere.get(host, f"[{host}]" if ":" in host else host)
    return f"{scheme}://{named}:{port}/"


def run_server(
    app: ASGIApp,
    listening: socket.socket,
    *,
    opens: bool = False,
    open_page: Callable[[str], object] = webbrowser.open,
    life: "Lifecycle | None" = None,
    tls: TlsFiles | None = None,
) -> None:
    """Serve until Ctrl-C or SIGTERM; with `opens`, open the page in a browser."""
    server = _server(app, life, tls)

    def show_page() -> None:
        _wait(server, threading.main_thread())
        open_page(address_of(listening))

    if opens:
        threading.Thread(target=show_page, daemon=True).start()
    try:
        server.run(sockets=[listening])
    finally:
        if life is not None:
            # after a second signal the application has not ended them
            life.services.end_workers()


@contextmanager
def running(app: ASGIApp, host: str = "127.0.0.1") -> Iterator[str]:
    """A server on a free port in a thread of its own, and its address; for tests and notebooks."""
    listening = bind(host, 0)
    server = _server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        _wait(server, thread)
        yield address_of(listening)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _server(
    app: ASGIApp, life: "Lifecycle | None" = None, tls: TlsFiles | None = None
) -> uvicorn.Server:
    grace = GRACE_SECONDS + (0 if life is None else int(life.drain_seconds))
    config = uvicorn.Config(
        app, log_level="error", access_log=False, timeout_graceful_shutdown=grace,
        lifespan="on", ws="none", http=TimedHeads, limit_concurrency=most_connections(),
        server_header=False, ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )  # fmt: skip
    return StoppableServer(config, life)


def _wait(server: uvicorn.Server, thread: threading.Thread) -> None:
    while not server.started and not server.should_exit:
        if not thread.is_alive():
            raise RunError("serve: the server ended before it began to listen. Its log says why.")
        time.sleep(0.01)
