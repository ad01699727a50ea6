"""The running process: uvicorn serves an app on a bound port until it is stopped.

What happens to a request is in app.py (routes), guard.py (checks before the body is read) and
request_limits.py (how many are worked on at a time).
"""

import errno
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from regard.errors import SettingError
from regard.hardware.threads import asked_by, use_threads

MAX_WAITING_CLIENTS = 128
GRACE_SECONDS = 3
"""How long a shutdown waits for requests in progress."""


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


def address_of(listening: socket.socket) -> str:
    """The URL to type into a browser."""
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
    """Serve until Ctrl-C; with `opens`, open the page in a browser."""
    server = _server(app)

    def show_page() -> None:
        _wait(server)
        open_page(address_of(listening))

    if opens:
        threading.Thread(target=show_page, daemon=True).start()
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        # uvicorn has shut down cleanly and raises the interrupt again
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
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE_SECONDS,
        lifespan="off", ws="none",
    )  # fmt: skip
    return uvicorn.Server(config)


def _wait(server: uvicorn.Server) -> None:
    while not server.started and not server.should_exit:
        time.sleep(0.01)
