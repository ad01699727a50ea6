"""Clients of a real server, for tests of what happens between requests."""

import json
import socket
import time
import urllib.request
from contextlib import closing, contextmanager
from http.client import HTTPResponse
from threading import Event, RLock
from urllib.parse import urlsplit

PATIENCE = 30
"""Seconds after which a test gives up; what is waited for takes a moment."""


class SeenLock:
    """A lock that tells when a thread first asks for it."""

    def __init__(self):
        self._lock, self.wanted = RLock(), Event()

    def acquire(self, blocking=True, timeout=-1):
        self.wanted.set()
        return self._lock.acquire(blocking, timeout)

    def release(self):
        self._lock.release()

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *error):
        self.release()

    @contextmanager
    def taken(self):
        """Held by the test, before any request asks for it."""
        self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()


class SeenModel:
    """A stepper that waits in its second step until the test lets it go on."""

    def __init__(self, model):
        self.model = model
        self.select, self.branch, self.start = model.select, model.branch, model.start
        self.steps, self.is_writing, self.goes_on = 0, Event(), Event()

    def step(self, state, tokens):
        self.steps += 1
        if self.steps == 2:
            self.is_writing.set()
            self.goes_on.wait(PATIENCE)
        return self.model.step(state, tokens)


def get(address, path, timeout=PATIENCE):
    """The content of an address, as text."""
    with urllib.request.urlopen(f"{address}{path}", timeout=timeout) as answer:
        return answer.read().decode()


def head_of(path, length, kind="application/json"):
    """The head of a request that announces a body of this length."""
    lines = (f"POST /{path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Type: {kind}")
    return "".join(f"{line}\r\n" for line in (*lines, f"Content-Length: {length}", "")).encode()


@contextmanager
def connected(address):
    """A connection to the server."""
    where = urlsplit(address)
    with closing(socket.create_connection((where.hostname, where.port), PATIENCE)) as connection:
        yield connection


def post(connection, path, asked):
    """Send a request with a body of JSON, or of bytes, and wait for nothing."""
    body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
    connection.sendall(head_of(path, len(body)) + body)


def answer_to(connection):
    """The status and the JSON of the answer that comes next."""
    connection.settimeout(PATIENCE)
    answer = HTTPResponse(connection)
    answer.begin()
    return answer.status, json.loads(answer.read())


def came(happened):
    """Whether something happens before the test gives up."""
    end = time.monotonic() + PATIENCE
    while not happened() and time.monotonic() < end:
        time.sleep(0.01)
    return happened()
