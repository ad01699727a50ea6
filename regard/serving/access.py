"""Access: which clients may ask, by their tokens, and how often.

A token is sent as `Authorization: Bearer TOKEN`. A browser opens the studio once with ?token=TOKEN,
and has a cookie from then on, which no script can read and no other site's page can send.
"""

import hmac
import ipaddress
import math
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple, final
from urllib.parse import parse_qs

from starlette.types import Scope

from regard.errors import SettingError

MIN_TOKEN_CHARACTERS = 16
COOKIE = "regard_token"
OPEN_PATHS = frozenset({"/health", "/health/live", "/health/ready"})
"""Paths that need no token, for load balancers."""
MAX_KNOWN_CLIENTS = 10_000
"""How many clients' rates are remembered."""


class Refusal(NamedTuple):
    """A request that is answered before its body is read."""

    status: int
    kind: str
    message: str
    headers: Sequence[tuple[bytes, bytes]] = ()


@final
class RateLimit:
    """So many requests a second for each client, and a second's worth at once."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = rate, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """For each client what it may still ask, and when that was counted."""

    def wait_seconds(self, client: str) -> float:
        """Count a request; how long the client should wait first, 0 if it may ask now."""
        now, most = self._clock(), max(1.0, self._rate)
        left, then = self._left.pop(client, (most, now))
        left = min(most, left + (now - then) * self._rate)
        may_ask = left >= 1
        self._left[client] = (left - may_ask, now)
        while len(self._left) > MAX_KNOWN_CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if may_ask else (1 - left) / self._rate


@final
class Access:
    """The tokens of a server, and the rate of each client."""

    def __init__(self, tokens: Sequence[str] = (), rate: float | None = None) -> None:
        for token in tokens:
            if len(token) < MIN_TOKEN_CHARACTERS or not token.isascii() or not token.isprintable():
                raise SettingError(
                    f"serve: a token must have at least {MIN_TOKEN_CHARACTERS} ASCII characters; "
                    f"this one has {len(token)}. Take for instance the output of: openssl rand "
                    "-hex 32"
                )
        self._tokens = [token.encode() for token in tokens]
        self._rate = None if rate is None else RateLimit(rate)

    def refusal(self, scope: Scope, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request is refused, if it is."""
        if scope["path"] in OPEN_PATHS:
            return None
        peer = (scope.get("client") or ("unknown",))[0]
        if self._tokens:
            place = self._known(self._given(headers))
            if place is None:
                return Refusal(
                    401, "unauthorized",
                    "serve: this server asks for a token. Send Authorization: Bearer TOKEN; in a "
                    "browser, open the address with ?token=TOKEN once.",
                    [(b"www-authenticate", b"Bearer")],
                )  # fmt: skip
            peer = f"token {place}"
        wait = 0.0 if self._rate is None else self._rate.wait_seconds(peer)
        if wait:
            seconds = str(math.ceil(wait)).encode()
            return Refusal(
                429, "rate_limited",
                "serve: too many requests a second for this token or address. Wait as Retry-After "
                "says, or send several texts in one request.",
                [(b"retry-after", seconds)],
            )  # fmt: skip
        return None

    def cookie_for(self, scope: Scope) -> Refusal | None:
        """The redirection that gives a browser its cookie, if the address holds a right token."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not self._tokens or scope["method"] != "GET" or self._known(given.encode()) is None:
            return None
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        cookie = f"{COOKIE}={given}; HttpOnly; SameSite=Strict; Path=/{secure}"
        headers = [(b"location", b"/"), (b"set-cookie", cookie.encode("latin-1"))]
        return Refusal(303, "cookie", "serve: the token is kept in a cookie.", headers)

    def _given(self, headers: Mapping[str, str]) -> bytes:
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return token.strip().encode("latin-1")
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return b""
        return b"" if cookie is None else cookie.value.encode("latin-1")

    def _known(self, given: bytes) -> int | None:
        """Which token it is; every one is compared, in a time that tells nothing of it."""
        same = [hmac.compare_digest(token, given) for token in self._tokens]
        return same.index(True) if any(same) else None


def check_host(host: str, tokens: Sequence[str], *, is_insecure: bool) -> None:
    """Refuse to serve other machines without a token, unless the user says so."""
    if not tokens and not is_insecure and not is_local(host):
        raise SettingError(
            f"serve: --host {host} lets other machines ask, and nothing keeps strangers out. Give "
            "--token (or the variable REGARD_TOKEN), say --insecure, or leave --host out for this "
            "machine alone."
        )


def is_local(host: str) -> bool:
    """Whether only this machine can reach a host."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        # bind tells that there is no such address
        return True
    return all(ipaddress.ip_address(str(one).partition("%")[0]).is_loopback for one in found)
