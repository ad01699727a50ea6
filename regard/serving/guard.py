"""Who may ask, and how much: foreign names are refused, bodies have a limit, answers a policy.

A page elsewhere may make a browser ask this server. It cannot hide whom it thinks it asks (Host)
or where it stands (Origin, Sec-Fetch-Site), so these must be this server's
own; but a link anywhere may lead to its page.
"""

import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.turns import answer_while_there

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
MOST_BYTES = 2_000_000
"""Of a request, but for pictures."""
MOST_PICTURE_BYTES = 32_000_000
PICTURES = "/caption"
"""How the addresses end to which pictures are sent."""
ELSEWHERE = frozenset({"cross-site", "same-site"})
"""What browsers say of pages that this server did not send; "same-site" is another port of it."""
DISCONNECT_MESSAGE: Message = {"type": "http.disconnect"}
"""What ends the reading of a body."""
MOST_DIGITS = 18
"""Of a length; more are not worth reading."""


@final
@dataclass(frozen=True)
class Names:
    """By which names this server may be asked."""

    allowed: frozenset[str] = LOCAL
    may_be_any_address: bool = False
    """Whether any numeric address will do: nobody can make one of those mean another machine."""

    @classmethod
    def of(cls, host: str) -> "Names":
        """Those of a server that is bound to a host."""
        is_everywhere = _is_address(host) and ipaddress.ip_address(host).is_unspecified
        return cls(LOCAL | {host.lower()}, may_be_any_address=is_everywhere)

    def holds(self, host: str) -> bool:
        """Whether a Host header names this server.

        >>> Names().holds("localhost:8000"), Names().holds("evil.example:8000")
        (True, False)
        """
        name = _name(host)
        return name in self.allowed or (self.may_be_any_address and _is_address(name))


def _name(host: str) -> str:
    """A host without its port and brackets."""
    bare = host.strip().lower()
    if bare.startswith("["):
        return bare[1:].partition("]")[0]
    return bare.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def fault(kind: str, message: str) -> dict[str, dict[str, str]]:
    """The one shape of an error: what kind it is, and what happened and what to do."""
    return {"error": {"kind": kind, "message": message}}


@final
class Guard:
    """Stands before an application.

    Args:
        app: what it guards.
        names: by which names the server may be asked.
    """

    def __init__(self, app: ASGIApp, names: Names) -> None:
        self.app, self.names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1")
                   for name, value in scope["headers"]}  # fmt: skip
        limit = MOST_PICTURE_BYTES if scope["path"].endswith(PICTURES) else MOST_BYTES
        refusal = self._refusal(headers, limit)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        counted = _Counted(receive, send, limit)
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        await answer_while_there(self.app, scope, counted.receive, counted.send, has_body=has_body)

    def _refusal(self, headers: dict[str, str], limit: int) -> tuple[int, str, str] | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self.names.holds(host):
            return 403, "foreign_host", (
                f"serve: this server is not '{host}'. Ask it as "
                f"{', '.join(sorted(self.names.allowed))}; to serve others, start it with --host."
            )  # fmt: skip
        if origin is not None and origin.lower() not in _origins(host):
            return 403, "foreign_origin", (
                f"serve: a page of '{origin}' may not ask this server. Open the page that it "
                "serves itself."
            )  # fmt: skip
        is_led_here = headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site") in ELSEWHERE and not is_led_here:
            return 403, "foreign_origin", (
                "serve: a page of another site may not ask this server. Open the page that it "
                "serves itself."
            )  # fmt: skip
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            return 400, "bad_request", "serve: Content-Length is no number."
        if len(length) > MOST_DIGITS or int(length) > limit:
            return 413, "too_large", _too_large(limit)
        return None


def _origins(host: str) -> Iterable[str]:
    return tuple(f"{scheme}://{host.lower()}" for scheme in ("http", "https"))


def _too_large(limit: int) -> str:
    return (
        f"serve: a request may have {limit:,} bytes here; this one has more. Send less at a time."
    )


class _Counted:
    """One request whose body is counted as it comes; past the limit, the answer is a refusal."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive, self._send, self._limit = receive, send, limit
        self._came, self._is_refused = 0, False

    async def receive(self) -> Message:
        """The next part of the body."""
        if self._came > self._limit:
            return DISCONNECT_MESSAGE
        message = await self._receive()
        self._came += len(message.get("body", b""))
        return DISCONNECT_MESSAGE if self._came > self._limit else message

    async def send(self, message: Message) -> None:
        """The answer with the house's headers, or a refusal where too much came."""
        if self._is_refused:
            return
        if message["type"] == "http.response.start":
            if self._came > self._limit:
                self._is_refused = True
                await _refuse(self._send, 413, "too_large", _too_large(self._limit))
                return
            given = {name for name, _ in message["headers"]}
            extra = [header for header in HEADERS if header[0] not in given]
            message = {**message, "headers": [*message["headers"], *extra]}
        await self._send(message)


async def _refuse(send: Send, status: int, kind: str, message: str) -> None:
    body = json.dumps(fault(kind, message), ensure_ascii=False).encode()
    sized = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*sized, *HEADERS]})
    await send({"type": "http.response.body", "body": body})
