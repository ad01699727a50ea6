"""Prediction jobs: from a request to the jobs of its texts, and from their messages to its answers.

Every text is checked here, before it waits: what is blank is answered at once, what is too long is
refused, cut or left to the worker as the request says. A text that is refused is refused alone.
"""

import asyncio
import time
from typing import Any, final

from pydantic import BaseModel

from regard.errors import LengthError
from regard.runs.trained import Trained
from regard.serving.prediction_schemas import (
    ErrorDetail,
    PredictionOptions,
    PredictionResponse,
    SearchOptions,
    ServedAnswer,
    Timing,
    TokenEvent,
)
from regard.serving.request_inputs import RequestInputs
from regard.serving.request_queue import Job
from regard.serving.run_service import NUMBERS, RunService
from regard.serving.telemetry import ServiceMetrics
from regard.serving.worker import job_seed
from regard.tasks.long_texts import in_pieces
from regard.tasks.predictions import Request, without_answer

QUICK_CHARACTERS = 4_000
"""Longer texts are measured in a thread, so that the event loop answers others meanwhile."""
LATE_SECONDS = 1.0
"""How long after its deadline a request waits for what its worker has written."""
ERROR_STATUS = {
    "deadline": 504,
    "out_of_memory": 503,
    "worker_lost": 503,
    "stopping": 503,
    "internal": 500,
}
"""The HTTP status of a text's error by its kind; 422 for what the client can mend."""

Event = tuple[str, BaseModel]
"""The name and the data of an event."""


@final
class Gathering:
    """One request under way: its jobs, and the answers that are known."""

    def __init__(
        self, name: str, service: RunService, inputs: RequestInputs, timeout_ms: int,
        metrics: ServiceMetrics,
    ) -> None:  # fmt: skip
        options = inputs.options
        self.name, self.run, self.options = name, service.name, options
        self.timeout_ms = timeout_ms
        self.jobs: dict[int, Job] = {}
        """The jobs without an answer yet, by their numbers."""
        self.events: asyncio.Queue[Event | None] | None = (
            asyncio.Queue() if options.stream else None
        )
        self.done = asyncio.get_running_loop().create_future()
        self._inputs, self._service, self._metrics = inputs, service, metrics
        self._answers: list[ServedAnswer | None] = [None] * len(inputs.texts)
        self._places: dict[int, int] = {}
        self._truncated: set[int] = set()
        self._arrived = time.monotonic()
        self._begun: float | None = None

    async def submit(self, trained: Trained) -> None:
        """Check all texts, answer or refuse what can be at once, and let the others wait."""
        options, search = self.options, self.options.search_options()
        deadline = self._arrived + self.timeout_ms / 1000
        jobs, inputs = [], zip(self._inputs.texts, self._inputs.names, strict=True)
        for place, (text, name) in enumerate(inputs):
            phrases = options.must_contain[place] if options.must_contain else ()
            request = Request(text, options.prefix, phrases, name=name)
            if trained.task.is_blank(trained, text):
                answer = without_answer(request)
                blank = {"text": "", "score": 0.0, "finish_reason": "eos", "note": answer.note}
                self._settle(place, blank)
                continue
            try:
                text, n_tokens = await _measured(trained, request, search, options)
            except LengthError as error:
                self._refuse(place, type(error).__name__, str(error))
                continue
            if text != request.text:
                self._truncated.add(place)
                self._metrics.truncated.labels(self._service.name).inc()
            job = Job(
                next(NUMBERS), text, name, search, n_tokens, deadline, self._told,
                options.prefix, phrases, job_seed(options.seed, place),
                wants_tokens=options.stream and options.on_long != "split",
            )  # fmt: skip
            self._places[job.number] = place
            jobs.append(job)
        if self.done.done():
            # the client left while its texts were measured
            return
        self.jobs = {job.number: job for job in jobs}
        if jobs:
            self._service.submit(jobs)
        self._check_done()

    def expire(self) -> None:
        """The time is over: what waits gets no answer, what is being written ends by itself."""
        late = "its time was over before the model began. Send less, or allow more timeout_ms"
        for job in self._service.drop_waiting(self.jobs):
            self._told(job, {"error": "deadline", "message": late})

    def give_up(self) -> None:
        """Answer without the workers that do not answer in time."""
        self._service.give_up(self.jobs.values())
        for job in list(self.jobs.values()):
            late = "its time was over within a step of the model"
            self._told(job, {"error": "deadline", "message": late})

    def cancel(self) -> int:
        """End all answers with what is written; how many there were."""
        open_jobs = list(self.jobs.values())
        for job in self._service.cancel(open_jobs):
            self._told(job, {"answer": {"text": "", "finish_reason": "cancelled"}})
        return len(open_jobs)

    def leave(self) -> None:
        """The client has gone: nothing is wanted any more."""
        self._service.cancel(self.jobs.values())
        self._service.give_up(self.jobs.values())
        self.jobs = {}
        if not self.done.done():
            self.done.cancel()

    def response(self, model: str) -> tuple[int, PredictionResponse]:
        """The status and the body, once all is done."""
        now = time.monotonic()
        begun = self._begun or now
        answers = [one for one in self._answers if one is not None]
        errors = [one.error for one in answers if one.error is not None]
        is_late = any(one.finish_reason == "deadline" for one in answers)
        error, status = None, 200
        if is_late or any(one.kind == "deadline" for one in errors):
            status = ERROR_STATUS["deadline"]
            error = ErrorDetail(
                kind="deadline",
                message=f"serve: the time of {self.timeout_ms:,} ms was over; answers "
                "hold what was written. Send less at a time, or allow more timeout_ms.",
            )
        elif len(errors) == len(answers):
            error, status = errors[0], ERROR_STATUS.get(errors[0].kind, 422)
        models = [one.model for one in answers if one.model is not None]
        if models:
            # the newest, where a reload came between
            model = models[-1]
        for one in answers:
            one.model = one.model if one.model != model else None
        return status, PredictionResponse(
            id=self.name, run=self._service.name, model=model, answers=answers,
            partial=status == ERROR_STATUS["deadline"], error=error,
            timing=Timing(
                queue_ms=_ms(begun - self._arrived), compute_ms=_ms(now - begun),
                total_ms=_ms(now - self._arrived),
            ),
        )  # fmt: skip

    def _told(self, job: Job, message: dict[str, Any]) -> None:
        place = self._places[job.number]
        if self._begun is None:
            self._begun = job.begun
        if "token" in message or message.get("delta"):
            token, delta = message.get("token", ""), message.get("delta", "")
            self._tell("token", TokenEvent(index=place, token=token, delta=delta))
        if "answer" in message:
            answer = message["answer"]
            answer |= {"source_tokens": job.n_tokens, "model": job.model}
            self._metrics.answer_tokens.labels(self._service.name).inc(
                len(answer.get("tokens", ()))
            )
            self._settle(place, answer)
        elif "error" in message:
            self._refuse(place, message["error"], message["message"])
        else:
            return
        self.jobs.pop(job.number, None)
        self._check_done()

    def _settle(self, place: int, answer: dict[str, Any]) -> None:
        if answer.get("note"):
            answer["note"] = self._inputs.shown(answer["note"])
        found = ServedAnswer(index=place, truncated=place in self._truncated, **answer)
        self._answers[place] = found
        self._metrics.finished.labels(self._service.name, found.finish_reason).inc()
        self._tell("answer", found)

    def _refuse(self, place: int, kind: str, message: str) -> None:
        detail = ErrorDetail(kind=kind, message=self._inputs.shown(message))
        found = ServedAnswer(index=place, error=detail)
        self._answers[place] = found
        self._metrics.finished.labels(self._service.name, kind).inc()
        self._tell("answer", found)

    def _tell(self, name: str, data: BaseModel) -> None:
        if self.events is not None:
            self.events.put_nowait((name, data))

    def _check_done(self) -> None:
        if None in self._answers or self.done.done():
            return
        self.done.set_result(None)
        if self.events is not None:
            self.events.put_nowait(None)


async def _measured(
    trained: Trained, request: Request, search: SearchOptions, options: PredictionOptions
) -> tuple[str, int]:
    """A text as it will be answered, and its tokens."""
    if not trained.task.sources.has_lengths:
        return request.text, 1

    def measure() -> tuple[str, int]:
        length = _length(trained, request.text)
        if length <= trained.longest:
            return request.text, length
        if options.truncate:
            cut = in_pieces(request.text, trained.longest, lambda text: _length(trained, text))[0]
            return cut, trained.length(cut)
        if search.on_long == "error":
            trained.check_length(request, "have it cut (truncate), split or skipped (on_long)")
        return request.text, length

    if len(request.text) <= QUICK_CHARACTERS:
        return measure()
    return await asyncio.to_thread(measure)


def _length(trained: Trained, text: str) -> int:
    """The tokens of a text; a lower bound of them if that is more than the model reads."""
    fewest = trained.loaded.source.fewest(trained.read(text)) + 1
    return fewest if fewest > trained.longest else trained.length(text)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 3)
