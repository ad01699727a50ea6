"""Telemetry: counts and times for Prometheus, and one line of JSON for each request.

A log line holds ids, sizes and times. It holds no text unless the server is told to log texts.
"""

import json
import re
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import generate_latest as metrics_text
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serving.access import OPEN_PATHS
from regard.serving.request_queue import Job

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ID_HEADER = b"x-request-id"
PLAIN_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


@final
class ServiceMetrics:
    """What the services of all runs count; each application counts its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        run = ["run"]
        self.requests = Counter(
            "regard_requests", "Requests by route and status.", ["route", "status"],
            registry=registry,
        )  # fmt: skip
        self.request_seconds = Histogram(
            "regard_request_seconds", "Time to answer, by route.", ["route"], buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        self.active = Gauge("regard_active_requests", "Requests under way.", registry=registry)
        self.refused = Counter(
            "regard_refused", "Refused requests, by reason.", ["reason"], registry=registry
        )
        self._waiting = Gauge("regard_queue_texts", "Texts that wait.", run, registry=registry)
        self._waiting_tokens = Gauge("regard_queue_tokens", "Their tokens.", run, registry=registry)
        self.queue_seconds = Histogram(
            "regard_queue_seconds", "Time of a text in the queue.", run, buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        self._batch_texts = Histogram(
            "regard_batch_texts", "Texts in a batch.", run, buckets=SIZES, registry=registry
        )
        self._batch_tokens = Histogram(
            "regard_batch_tokens", "Their tokens.", run, buckets=SIZES, registry=registry
        )
        self._batch_seconds = Histogram(
            "regard_batch_seconds", "Time of the model for a batch.", run, buckets=SECONDS,
            registry=registry,
        )  # fmt: skip
        self.answer_tokens = Counter(
            "regard_answer_tokens", "Tokens of the best answers.", run, registry=registry
        )
        self.finished = Counter(
            "regard_answers", "Answers by reason of their end.", ["run", "reason"],
            registry=registry,
        )  # fmt: skip
        self.truncated = Counter(
            "regard_truncated_texts", "Texts that were cut as asked.", run, registry=registry
        )
        self._retries = Counter(
            "regard_memory_retries", "Batches halved for lack of memory.", run, registry=registry
        )
        self.lost_workers = Counter(
            "regard_lost_workers", "Workers that ended or hung.", run, registry=registry
        )
        self._device_bytes = Gauge(
            "regard_device_bytes", "Memory that a worker's GPU holds.", run, registry=registry
        )

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return metrics_text(self.registry)

    def note_depth(self, run: str, count: int, n_tokens: int) -> None:
        """How much waits now."""
        self._waiting.labels(run).set(count)
        self._waiting_tokens.labels(run).set(n_tokens)

    def note_batch(self, run: str, batch: Sequence[Job]) -> None:
        """A batch begins."""
        self._batch_texts.labels(run).observe(len(batch))
        self._batch_tokens.labels(run).observe(sum(job.n_tokens for job in batch))
        seconds, now = self.queue_seconds.labels(run), time.monotonic()
        for job in batch:
            seconds.observe(now - job.arrived)

    def note_done(self, run: str, done: dict[str, Any]) -> None:
        """A batch has ended."""
        self._batch_seconds.labels(run).observe(done["seconds"])
        self._retries.labels(run).inc(done["retries"])
        self._device_bytes.labels(run).set(done["device_bytes"])


@final
class RequestLog:
    """Lines of JSON, written by a function; without one there are none."""

    def __init__(
        self, write_line: Callable[[str], object] | None = None, *, has_texts: bool = False
    ) -> None:
        self._write_line, self._has_texts = write_line, has_texts

    def write(self, facts: dict[str, object]) -> None:
        """Write one line."""
        if self._write_line is not None:
            facts = {key: one for key, one in facts.items() if key != "asked" or self._has_texts}
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = json.dumps({"time": now, **facts}, ensure_ascii=False)
            self._write_line(line + "\n")


@final
class CountedRequests:
    """ASGI middleware: counts and times every request, and logs it with its id."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics, log: RequestLog) -> None:
        self.app, self._metrics, self._log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, and note how it ended."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), [500]
        name = _request_id(scope)
        state = scope.setdefault("state", {})
        state["request_id"] = name

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                status[0] = message["status"]
                headers = [*message["headers"], (ID_HEADER, name.encode())]
                message = {**message, "headers": headers}
            await send(message)

        self._metrics.active.inc()
        try:
            await self.app(scope, receive, noted)
        finally:
            taken = time.perf_counter() - began
            self._metrics.active.dec()
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.requests.labels(route, status[0]).inc()
            self._metrics.request_seconds.labels(route).observe(taken)
            facts = {"id": name, "method": scope["method"], "route": route, "status": status[0]}
            # a balancer asks for health every second
            if scope["path"] not in OPEN_PATHS:
                self._log.write(facts | {"ms": round(1000 * taken, 2)} | state.get("log", {}))


def _request_id(scope: Scope) -> str:
    """The id that the client sent, if it is a plain one; else a new one."""
    given = next((value for name, value in scope["headers"] if name == ID_HEADER), b"")
    text = given.decode("latin-1")
    return text if PLAIN_ID.fullmatch(text) else uuid.uuid4().hex
