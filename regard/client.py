"""Client: asks a server that `regard serve` started, from any Python with httpx.

    with regard.Client("http://127.0.0.1:8000") as client:
        print(client.predict("9. Mai 2029")["answers"][0]["text"])
        for event, data in client.stream("9. Mai 2029", options={"beam": 1}):
            print(event, data)

    async with regard.AsyncClient("http://127.0.0.1:8000") as client:
        await client.predict(["9. Mai 2029", "3. Juni 1999"], options={"n_best": 2})

Answers are the JSON of docs/serving.md as dictionaries. A server that is full, not ready or
stopping is asked again, as its Retry-After says.
"""

import asyncio
import json
import random
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, final

from regard.errors import MissingExtra, RegardError

try:
    import httpx
except ModuleNotFoundError as error:
    raise MissingExtra("client: 'httpx' is not installed: pip install 'regard[client]'.") from error

AGAIN = frozenset({429, 503})
"""The statuses after which a request is sent again."""
MAX_WAIT_SECONDS = 30.0
SPREAD = 0.25
"""The share by which waits differ, so that clients do not come back together."""
Options = Mapping[str, Any]
Texts = str | Sequence[str]
Event = tuple[str, dict[str, Any]]


class ServerError(RegardError):
    """A request that the server refused or could not answer; its status and its kind."""

    def __init__(self, status: int, kind: str, message: str, body: Any = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.body = status, kind, body


class _Asking:
    """What both clients know: the request's form, and when it is sent again."""

    def __init__(self, retries: int) -> None:
        self._retries = retries

    @staticmethod
    def _form(texts: Texts | None, pictures: Iterable[bytes | Path], options: Options) -> Options:
        contents = [one.read_bytes() if isinstance(one, Path) else one for one in pictures]
        coded = [b64encode(one).decode() for one in contents]
        given = {"texts": texts if isinstance(texts, str | None) else list(texts)}
        given |= {"pictures": coded or None}
        return {key: value for key, value in {**given, **options}.items() if value is not None}

    def _wait(self, answer: httpx.Response, n_before: int) -> float | None:
        """Seconds until the request is sent again, or None if it is not."""
        if answer.status_code not in AGAIN or n_before >= self._retries:
            return None
        try:
            asked = float(answer.headers.get("Retry-After", 2**n_before / 4))
        except ValueError:
            asked = 1.0
        return min(MAX_WAIT_SECONDS, asked) * (1 + SPREAD * random.random())

    @staticmethod
    def _checked(answer: httpx.Response) -> Any:
        try:
            body = answer.json()
        except ValueError:
            body = None
        if answer.is_success:
            return body
        told = (body or {}).get("error") or {}
        message = told.get("message") or f"client: the server answered {answer.status_code}."
        raise ServerError(answer.status_code, told.get("kind", "unknown"), message, body)


def _headers(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


class _Events:
    """Server-sent events, line by line."""

    def __init__(self) -> None:
        self._name = ""

    def read(self, line: str) -> Event | None:
        key, _, value = line.partition(": ")
        if key == "event":
            self._name = value
        return (self._name, json.loads(value)) if key == "data" else None


@final
class Client(_Asking):
    """A connection to a server; requests are sent again up to `retries` times where it is full."""

    def __init__(
        self, address: str = "http://127.0.0.1:8000", *, token: str | None = None,
        retries: int = 5, timeout: float = 120.0, transport: httpx.BaseTransport | None = None,
    ) -> None:  # fmt: skip
        super().__init__(retries)
        self._http = httpx.Client(
            base_url=address, headers=_headers(token), timeout=timeout, transport=transport
        )

    def predict(
        self, texts: Texts | None = None, *, pictures: Iterable[bytes | Path] = (),
        options: Options | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The answers to a text, a list of them, or pictures; options as /v1/predict has them."""
        form = self._form(texts, pictures, options or {})
        found: dict[str, Any] = self._checked(self._send("POST", "/v1/predict", form))
        return found

    def stream(self, texts: Texts, *, options: Options | None = None) -> Iterator[Event]:
        """Events with their data as they come: "token", "answer", and at the end "done"."""
        form = self._form(texts, (), {**(options or {}), "stream": True})
        events, n_before = _Events(), 0
        while True:
            with self._http.stream("POST", "/v1/predict", json=form) as answer:
                if answer.is_success:
                    for line in answer.iter_lines():
                        if (event := events.read(line)) is not None:
                            yield event
                    return
                answer.read()
                wait = self._wait(answer, n_before)
                if wait is None:
                    self._checked(answer)
            n_before += 1
            time.sleep(wait or 0.0)

    def cancel(self, name: str) -> dict[str, Any]:
        """End a request by its id with what is written."""
        found: dict[str, Any] = self._checked(self._http.delete(f"/v1/requests/{name}"))
        return found

    def info(self) -> dict[str, Any]:
        """Versions, limits and runs of the server."""
        found: dict[str, Any] = self._checked(self._send("GET", "/v1/info", None))
        return found

    def is_ready(self) -> bool:
        """Whether the server takes requests."""
        try:
            return self._http.get("/health/ready").is_success
        except httpx.TransportError:
            return False

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def _send(self, method: str, path: str, form: Options | None) -> httpx.Response:
        n_before = 0
        while True:
            answer = self._http.request(method, path, json=form)
            wait = self._wait(answer, n_before)
            if wait is None:
                return answer
            n_before += 1
            time.sleep(wait)


@final
class AsyncClient(_Asking):
    """The same for code that awaits."""

    def __init__(
        self, address: str = "http://127.0.0.1:8000", *, token: str | None = None,
        retries: int = 5, timeout: float = 120.0, transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:  # fmt: skip
        super().__init__(retries)
        self._http = httpx.AsyncClient(
            base_url=address, headers=_headers(token), timeout=timeout, transport=transport,
            limits=httpx.Limits(max_connections=None),
        )  # fmt: skip

    async def predict(
        self, texts: Texts | None = None, *, pictures: Iterable[bytes | Path] = (),
        options: Options | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The answers to a text, a list of them, or pictures; options as /v1/predict has them."""
        form = self._form(texts, pictures, options or {})
        found: dict[str, Any] = self._checked(await self._send("POST", "/v1/predict", form))
        return found

    async def stream(self, texts: Texts, *, options: Options | None = None) -> AsyncIterator[Event]:
        """Events with their data as they come: "token", "answer", and at the end "done"."""
        form = self._form(texts, (), {**(options or {}), "stream": True})
        events, n_before = _Events(), 0
        while True:
            async with self._http.stream("POST", "/v1/predict", json=form) as answer:
                if answer.is_success:
                    async for line in answer.aiter_lines():
                        if (event := events.read(line)) is not None:
                            yield event
                    return
                await answer.aread()
                wait = self._wait(answer, n_before)
                if wait is None:
                    self._checked(answer)
            n_before += 1
            await asyncio.sleep(wait or 0.0)

    async def cancel(self, name: str) -> dict[str, Any]:
        """End a request by its id with what is written."""
        found: dict[str, Any] = self._checked(await self._http.delete(f"/v1/requests/{name}"))
        return found

    async def info(self) -> dict[str, Any]:
        """Versions, limits and runs of the server."""
        found: dict[str, Any] = self._checked(await self._send("GET", "/v1/info", None))
        return found

    async def is_ready(self) -> bool:
        """Whether the server takes requests."""
        try:
            return (await self._http.get("/health/ready")).is_success
        except httpx.TransportError:
            return False

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.close()

    async def _send(self, method: str, path: str, form: Options | None) -> httpx.Response:
        n_before = 0
        while True:
            answer = await self._http.request(method, path, json=form)
            wait = self._wait(answer, n_before)
            if wait is None:
                return answer
            n_before += 1
            await asyncio.sleep(wait)
