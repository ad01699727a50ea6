"""Access checks: foreign hosts and origins are refused, bodies limited, security headers added.

A page of another site can make a browser send requests to this server. The browser states the host
that it addresses (Host) and the page's origin (Origin, Sec-Fetch-Site), so these must be this
server's own; following a link from another site to the studio is allowed.
"""

import asyncio
import ipaddress
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.access import Access, Refusal
from regard.serving.request_limits import answer_while_there

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
MAX_BYTES = 2_000_000
MAX_PICTURE_BYTES = 32_000_000
PICTURES = "/caption"
"""The end of the paths that receive pictures."""
FOREIGN_SITES = frozenset({"cross-site", "same-site"})
"""Sec-Fetch-Site of pages from other servers; "same-site" is another port of this host."""
DISCONNECT_MESSAGE: Message = {"type": "http.disconnect"}
MAX_LENGTH_DIGITS = 18
MAX_BYTES_COMING = 256_000_000
"""The bodies of all requests under way, together, as they were announced."""
BODY_SECONDS = 60.0
"""How long the body of a request may take to come."""


@final
@dataclass(frozen=True)
class AllowedHosts:
    """The host names by which clients address this server."""

    allowed: frozenset[str] = LOCAL
    may_be_any_address: bool = False
    """Whether any numeric address is allowed: DNS cannot redirect one to another machine."""

    @classmethod
    def of(cls, host: str, others: Iterable[str] = ()) -> "AllowedHosts":
        """The hosts of a server that is bound to one, and other names by which it is reached."""
        is_everywhere = _is_address(host) and ipaddress.ip_address(host).is_unspecified
        names = {host.lower(), *(other.lower() for other in others)}
        return cls(LOCAL | names, may_be_any_address=is_everywhere)

    def holds(self, host: str) -> bool:
        """Whether a Host header names this server.

        >>> AllowedHosts().holds("localhost:8000"), AllowedHosts().holds("evil.example:8000")
        (True, False)
        """
        name = _name(host)
        return name in self.allowed or (self.may_be_any_address and _is_address(name))


def _name(host: str) -> str:
    """A host without its port and brackets."""
    bare = host.strip().lower()
    return bare[1:].partition("]")[0] if bare.startswith("[") else bare.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def error_body(kind: str, message: str) -> dict[str, dict[str, str]]:
    """The JSON form of all errors: a kind, and a message with the cause and the remedy."""
    return {"error": {"kind": kind, "message": message}}


@final
class Guard:
    """ASGI middleware that checks each request to a server of these hosts."""

    def __init__(self, app: ASGIApp, hosts: AllowedHosts, access: Access | None = None) -> None:
        self.app, self.hosts, self.access = app, hosts, access or Access()
        self._bytes_coming = 0
        """What the bodies of requests under way may have together."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1")
                   for name, value in scope["headers"]}  # fmt: skip
        is_picture = headers.get("content-type", "").startswith("image/")
        takes_pictures = scope["path"].endswith(PICTURES) or is_picture
        limit = MAX_PICTURE_BYTES if takes_pictures else MAX_BYTES
        refusal = (
            self._foreign(headers)
            or self.access.cookie_for(scope)
            or self.access.refusal(scope, headers)
            or self._too_much(headers, limit)
        )
        if refusal is not None:
            await _refuse(send, refusal)
            return
        counted = _Counted(receive, send, limit)
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        size = int(headers.get("content-length", limit)) if has_body else 0
        self._bytes_coming += size
        try:
            await answer_while_there(
                self.app, scope, counted.receive, counted.send, has_body=has_body
            )
        finally:
            self._bytes_coming -= size

    def _foreign(self, headers: dict[str, str]) -> Refusal | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.hosts.holds(host):
            return Refusal(403, "foreign_host",
                f"serve: this server is not '{host}'. Ask it as "
                f"{', '.join(sorted(self.hosts.allowed))}; to serve others, start it with --host "
                "or --allow-host."
            )  # fmt: skip
        origins = (f"http://{host.lower()}", f"https://{host.lower()}")
        if origin is not None and origin.lower() not in origins:
            return Refusal(403, "foreign_origin",
                f"serve: a page of '{origin}' may not ask this server. Open the page that it "
                "serves itself."
            )  # fmt: skip
        is_led_here = headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site") in FOREIGN_SITES and not is_led_here:
            return Refusal(403, "foreign_origin",
                "serve: a page of another site may not ask this server. Open the page that it "
                "serves itself."
            )  # fmt: skip
        return None

    def _too_much(self, headers: dict[str, str], limit: int) -> Refusal | None:
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            return Refusal(400, "bad_request", "serve: Content-Length is no number.")
        if len(length) > MAX_LENGTH_DIGITS or int(length) > limit:
            return Refusal(413, "too_large", _too_large(limit))
        if self._bytes_coming + int(length) > MAX_BYTES_COMING:
            return Refusal(
                503, "busy",
                f"serve: requests of {self._bytes_coming:,} bytes are under way; at most "
                f"{MAX_BYTES_COMING:,} may be. Try again.", [(b"retry-after", b"1")],
            )  # fmt: skip
        return None


def _too_large(limit: int) -> str:
    return (
        f"serve: a request may have {limit:,} bytes here; this one has more. Send less at a time."
    )


class _Counted:
    """One request whose body is counted as it arrives; past the limit it is answered with 413."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive, self._send, self._limit = receive, send, limit
        self._came, self._is_refused = 0, False
        self._end = time.monotonic() + BODY_SECONDS
        self._is_whole = self._is_late = False

    async def receive(self) -> Message:
        if self._came > self._limit or self._is_late:
            return DISCONNECT_MESSAGE
        if self._is_whole:
            # what comes now is the end of the connection, which may take as long as it likes
            return await self._receive()
        try:
            async with asyncio.timeout(self._end - time.monotonic()):
                message = await self._receive()
        except TimeoutError:
            self._is_late = True
            return DISCONNECT_MESSAGE
        self._came += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        return DISCONNECT_MESSAGE if self._came > self._limit else message

    async def send(self, message: Message) -> None:
        if self._is_refused:
            return
        if message["type"] == "http.response.start":
            refusal = self._refusal()
            if refusal is not None:
                self._is_refused = True
                await _refuse(self._send, refusal)
                return
            given = {name for name, _ in message["headers"]}
            extra = [header for header in HEADERS if header[0] not in given]
            message = {**message, "headers": [*message["headers"], *extra]}
        await self._send(message)

    def _refusal(self) -> Refusal | None:
        if self._came > self._limit:
            return Refusal(413, "too_large", _too_large(self._limit))
        if self._is_late:
            return Refusal(
                408, "too_slow",
                f"serve: the body took longer than {BODY_SECONDS:g} s. Send it faster, or less.",
            )  # fmt: skip
        return None


async def _refuse(send: Send, refusal: Refusal) -> None:
    response = JSONResponse(error_body(refusal.kind, refusal.message), refusal.status)
    headers = [*response.raw_headers, *refusal.headers, *HEADERS]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
