"""A server that runs until it is told to stop, on a port that was free when it began."""

import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from regard.errors import SettingError

WAITING = 128
"""How many may wait to be let in."""
GRACE = 3
"""Seconds that requests in progress are waited for at the end."""


def bind(host: str, port: int) -> socket.socket:
    """Take a port; one that is taken is the caller's mistake."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only where the protocol is named; without it the body of an answer
    # waits 40 ms until the client acknowledges its head
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        # who asks before the first answer waits for it
        listening.listen(WAITING)
    except OSError as error:
        listening.close()
        raise SettingError(
            f"serve: cannot listen on {host}, port {port}: {error.strerror or error}. Give another "
            "with --port, or --port 0 for any that is free."
        ) from error
    return listening


def address_of(listening: socket.socket) -> str:
    """What to type into a browser."""
    host, port = listening.getsockname()[:2]
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}
    named = everywhere.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{named}:{port}/"


def run_server(
    app: ASGIApp,
    listening: socket.socket,
    *,
    opens: bool = False,
    open_page: Callable[[str], object] = webbrowser.open,
) -> None:
    """Answer until Ctrl-C.

    Args:
        app: what answers.
        listening: where.
        opens: whether a browser is shown the page.
        open_page: how.
    """
    server = _server(app)
    if opens:
        threading.Thread(
            target=_open, args=(server, address_of(listening), open_page), daemon=True
        ).start()
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        # uvicorn has ended cleanly by now; it raises what it was stopped by
        return


@contextmanager
def running(app: ASGIApp, host: str = "127.0.0.1") -> Iterator[str]:
    """A server on a free port in a thread of its own, and its address; for tests and notebooks."""
    listening = bind(host, 0)
    server = _server(app)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        _wait(server)
        yield address_of(listening)
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _server(app: ASGIApp) -> uvicorn.Server:
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE, lifespan="off",
        ws="none",
    )  # fmt: skip
    return uvicorn.Server(config)


def _open(server: uvicorn.Server, address: str, open_page: Callable[[str], object]) -> None:
    _wait(server)
    open_page(address)


def _wait(server: uvicorn.Server) -> None:
    while not server.started and not server.should_exit:
        time.sleep(0.01)
