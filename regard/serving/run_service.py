"""Run service: one run's queue and its workers; batches go to the first worker that is free.

    submit → queue → batch → worker → told
    watch    a worker that gives no sign of life is ended, and another one started
    reload   new workers answer their warm-up before the old ones are let go

Everything here runs in the event loop, and nothing here computes: that is what workers are for.
"""

import asyncio
import itertools
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from regard.serving.request_queue import Job, RequestQueue
from regard.serving.telemetry import ServiceMetrics
from regard.serving.worker_process import Launch, WorkerLink

HIGH_WATER = 0.8
"""The share of the queue's bounds above which a run is not ready for more."""
RESTART_SECONDS = (0.0, 1.0, 5.0, 30.0)
"""How long a worker that ended is not started again, by how often it ended before it was ready."""

STOPPING = ("stopping", "the server stops before it could answer. Ask another one")
"""The kind and the message of the error of jobs that are left when the server stops."""

Message = dict[str, Any]


class ReloadFailed(Exception):
    """A new worker did not become ready."""


@final
@dataclass(frozen=True)
class ServiceSettings:
    """The bounds and times of a run's service."""

    max_waiting: int = 512
    max_waiting_tokens: int = 200_000
    batch_wait_seconds: float = 0.005
    """How long a batch that is not full waits for more."""
    step_seconds: float = 60.0
    """How long a worker may give no sign of life while it works."""
    load_seconds: float = 600.0
    """How long it may take to load and warm up."""
    n_workers: int = 1


@final
@dataclass(eq=False)
class _Attached:
    """A worker, and what the service knows of it."""

    number: int
    link: WorkerLink
    heard: float
    weights: str = ""
    """The hash of the weights that it loaded."""
    is_ready: bool = False
    is_leaving: bool = False
    """Whether it is let go once its batch is done."""
    jobs: dict[int, Job] = field(default_factory=dict)
    """The jobs of its batch that are not answered yet."""
    is_busy: bool = False
    began: float = 0.0
    batch: list[Job] = field(default_factory=list)


@final
class RunService:
    """Answers jobs for one run; started and used within an event loop."""

    def __init__(
        self,
        name: str,
        launch: Launch,
        expected: Callable[[], list[str]],
        settings: ServiceSettings,
        metrics: ServiceMetrics,
    ) -> None:
        self.name, self.settings = name, settings
        self.queue = RequestQueue(settings.max_waiting, settings.max_waiting_tokens)
        self.batch_tokens = 0
        """The budget of a batch, as the workers measured it; 0 until one has."""
        self._launch, self._expected, self._metrics = launch, expected, metrics
        self._workers: list[_Attached] = []
        self._want: list[str] | None = None
        self._failures = 0
        self._last_error: str | None = "its workers are starting"
        self._timer: asyncio.TimerHandle | None = None
        self._watch: asyncio.Task[None] | None = None
        self._is_closing = False
        self._changed = asyncio.Event()

    async def start(self) -> None:
        """Start the workers; they become ready by and by."""
        self._watch = asyncio.create_task(self._watching())
        for number in range(self.settings.n_workers):
            self._attach(number)

    @property
    def n_ready(self) -> int:
        """How many workers can answer."""
        return sum(one.is_ready and not one.is_leaving for one in self._workers)

    @property
    def is_busy(self) -> bool:
        """Whether a worker answers a batch."""
        return any(one.is_busy for one in self._workers)

    def why_not_ready(self) -> str | None:
        """Why the run should get no requests just now, if so."""
        if self.n_ready == 0:
            return f"{self.name}: {self._last_error or 'no worker is ready'}"
        queue, bounds = self.queue, self.settings
        share = max(len(queue) / bounds.max_waiting, queue.n_tokens / bounds.max_waiting_tokens)
        if share > HIGH_WATER:
            return f"{self.name}: the queue is at {share:.0%} of its bound"
        return None

    def submit(self, jobs: Sequence[Job]) -> None:
        """Let jobs wait for a worker; all are refused if one cannot be taken."""
        self.queue.put(jobs)
        self._dispatch()

    def drop_waiting(self, numbers: Iterable[int]) -> list[Job]:
        """Take jobs that still wait out of the queue."""
        dropped = self.queue.drop(list(numbers))
        self._note_depth()
        return dropped

    def cancel(self, jobs: Iterable[Job]) -> list[Job]:
        """End jobs at their next step, and give back those that waited."""
        numbers = [job.number for job in jobs]
        waiting = self.drop_waiting(numbers)
        for worker in self._workers:
            if leaving := [number for number in numbers if number in worker.jobs]:
                self._send(worker, {"drop": leaving})
        return waiting

    def give_up(self, jobs: Iterable[Job]) -> None:
        """Forget jobs of which nothing more is wanted."""
        for job in jobs:
            for worker in self._workers:
                worker.jobs.pop(job.number, None)

    async def drain(self, seconds: float) -> bool:
        """Wait until all jobs are answered; false if some were not in time."""
        end = time.monotonic() + seconds
        while len(self.queue) or any(worker.jobs for worker in self._workers):
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), min(left, 0.1))
            except TimeoutError:
                continue
        return True

    async def reload(self, expected: Callable[[], list[str]]) -> None:
        """Replace all workers by new ones; if one fails its warm-up, the old ones stay.

        `expected` gives the answers of the warm-up.
        """
        before, self._want = self._want, await asyncio.to_thread(expected)
        old = [one for one in self._workers if not one.is_leaving]
        new = [self._attach(number) for number in range(self.settings.n_workers)]
        while not all(one.is_ready for one in new):
            if any(one not in self._workers for one in new):
                self._want = before
                for one in new:
                    self._detach(one)
                raise ReloadFailed(self._last_error or "a new worker ended before it was ready")
            self._changed.clear()
            await self._changed.wait()
        self._expected = expected
        for one in old:
            one.is_leaving = True
            if not one.is_busy:
                self._detach(one)
        self._dispatch()

    def close(self) -> None:
        """End all workers, and answer what is left with errors."""
        self._is_closing = True
        if self._watch is not None:
            self._watch.cancel()
        self.abort()
        for worker in list(self._workers):
            self._detach(worker)

    def end_workers(self) -> None:
        """End all workers at once."""
        for worker in self._workers:
            worker.link.end()

    def abort(self) -> None:
        """Answer all jobs with errors, since the server stops."""
        for job in self.queue.drop(self.queue.numbers()):
            job.told(job, _failure(job, *STOPPING))
        for worker in self._workers:
            self._fail(worker, *STOPPING)

    # --- workers

    def _attach(self, number: int) -> _Attached:
        worker = _Attached(number, self._launch(number), time.monotonic())
        self._workers.append(worker)
        loop = asyncio.get_running_loop()
        loop.add_reader(worker.link.connection.fileno(), self._read, worker)
        return worker

    def _detach(self, worker: _Attached) -> None:
        if worker not in self._workers:
            return
        self._workers.remove(worker)
        asyncio.get_running_loop().remove_reader(worker.link.connection.fileno())
        worker.link.end()
        self._changed.set()

    def _read(self, worker: _Attached) -> None:
        try:
            messages = json.loads(worker.link.connection.recv_bytes())
        except (EOFError, OSError):
            self._lose(worker, "its worker ended")
            return
        worker.heard = time.monotonic()
        for message in messages:
            self._take(worker, message)

    def _take(self, worker: _Attached, message: Message) -> None:
        if "number" in message:
            job = worker.jobs.get(message["number"])
            if job is not None:
                if "answer" in message or "error" in message:
                    del worker.jobs[job.number]
                job.told(job, message)
        elif "done" in message:
            self._finish_batch(worker, message["done"])
        elif "ready" in message:
            self._check_warm_up(worker, message["ready"])
        elif "failed" in message:
            self._lose(worker, message["failed"]["message"])

    def _check_warm_up(self, worker: _Attached, ready: Message) -> None:
        if self._want is None:
            asyncio.get_running_loop().run_in_executor(None, self._expected).add_done_callback(
                lambda found: self._want_is(worker, ready, found)
            )
        elif ready["answers"] != self._want:
            self._lose(worker, "a worker's warm-up answers differ from those of this process")
        else:
            worker.is_ready, worker.weights = True, ready["weights"]
            self._failures, self._last_error = 0, None
            self.batch_tokens = min(
                self.batch_tokens or ready["batch_tokens"], ready["batch_tokens"]
            )
            self._changed.set()
            self._dispatch()

    def _want_is(
        self, worker: _Attached, ready: Message, found: "asyncio.Future[list[str]]"
    ) -> None:
        if found.cancelled() or self._is_closing:
            return
        if error := found.exception():
            self._lose(worker, f"this process could not answer the warm-up: {error}")
            return
        self._want = found.result()
        self._check_warm_up(worker, ready)

    def _lose(self, worker: _Attached, why: str) -> None:
        """End a worker, answer its jobs with errors, and start another one."""
        if worker not in self._workers:
            return
        self._detach(worker)
        self._last_error = why
        self._metrics.lost_workers.labels(self.name).inc()
        self._fail(worker, "worker_lost", f"{why}; another one is started. Send the text again")
        if self._is_closing or worker.is_leaving:
            return
        wait = RESTART_SECONDS[min(self._failures, len(RESTART_SECONDS) - 1)]
        self._failures += 1
        asyncio.get_running_loop().call_later(wait, self._restart, worker.number)

    def _restart(self, number: int) -> None:
        is_there = any(one.number == number and not one.is_leaving for one in self._workers)
        if not self._is_closing and not is_there:
            self._attach(number)

    def _fail(self, worker: _Attached, kind: str, message: str) -> None:
        jobs, worker.jobs = list(worker.jobs.values()), {}
        for job in jobs:
            job.told(job, _failure(job, kind, message))

    async def _watching(self) -> None:
        bounds = self.settings
        while True:
            await asyncio.sleep(min(1.0, bounds.step_seconds / 4))
            now = time.monotonic()
            for worker in list(self._workers):
                silent = now - worker.heard
                if worker.is_busy and silent > bounds.step_seconds:
                    self._lose(worker, f"a step took longer than {bounds.step_seconds:g} s")
                elif not worker.is_ready and silent > bounds.load_seconds:
                    self._lose(worker, f"loading took longer than {bounds.load_seconds:g} s")

    # --- batches

    def _dispatch(self) -> None:
        """Give batches to free workers, if they are full or have waited long enough."""
        self._note_depth()
        for worker in self._workers:
            if not worker.is_ready or worker.is_busy or worker.is_leaving:
                continue
            oldest = self.queue.oldest
            if oldest is None:
                return
            wait = self.settings.batch_wait_seconds - (time.monotonic() - oldest.arrived)
            if wait > 0 and self.queue.n_tokens < self.batch_tokens:
                if self._timer is None:
                    loop = asyncio.get_running_loop()
                    self._timer = loop.call_later(wait, self._wake)
                return
            self._begin_batch(worker)

    def _wake(self) -> None:
        self._timer = None
        self._dispatch()

    def _begin_batch(self, worker: _Attached) -> None:
        now = time.monotonic()
        batch = self.queue.take(self.batch_tokens)
        worker.is_busy, worker.began, worker.heard = True, now, now
        worker.batch, worker.jobs = batch, {job.number: job for job in batch}
        for job in batch:
            job.begun, job.model = now, f"{self.name}@{worker.weights}"
        self._metrics.note_batch(self.name, batch)
        options = batch[0].options.model_dump()
        self._send(worker, {"options": options, "jobs": [job.as_message() for job in batch]})

    def _finish_batch(self, worker: _Attached, done: Message) -> None:
        n_tokens = sum(job.n_tokens for job in worker.batch)
        self.queue.note_speed(n_tokens, done["seconds"])
        self._metrics.note_done(self.name, done)
        # a job of which the worker said nothing would wait for ever
        self._fail(worker, "internal", "the worker gave no answer")
        worker.is_busy, worker.batch = False, []
        self._changed.set()
        if worker.is_leaving:
            self._detach(worker)
        self._dispatch()

    def _send(self, worker: _Attached, message: Message) -> None:
        try:
            worker.link.connection.send_bytes(json.dumps(message).encode())
        except OSError:
            self._lose(worker, "its worker ended")

    def _note_depth(self) -> None:
        self._metrics.note_depth(self.name, len(self.queue), self.queue.n_tokens)


def _failure(job: Job, kind: str, message: str) -> Message:
    return {"number": job.number, "error": kind, "message": f"serve: {job.name}: {message}."}


NUMBERS = itertools.count(1)
"""The numbers of jobs in this process."""
