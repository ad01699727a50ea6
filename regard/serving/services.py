"""Services: the run services of a server, and how one request goes through them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, final

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from regard.errors import RegardError, SettingError
from regard.runs.trained import Trained
from regard.serving.guard import MAX_BYTES, MAX_PICTURE_BYTES
from regard.serving.prediction_jobs import LATE_SECONDS, Gathering
from regard.serving.prediction_schemas import (
    MAX_TEXTS,
    MAX_TIMEOUT_MS,
    ServedRun,
    ServiceLimits,
)
from regard.serving.registry import Registry, Served
from regard.serving.request_inputs import Refused, RequestInputs, read_inputs
from regard.serving.request_limits import CLIENT_CLOSED, current_client
from regard.serving.request_queue import QueueFull
from regard.serving.run_service import ReloadFailed, RunService, ServiceSettings
from regard.serving.schemas import JSON, MAX_TEXT_CHARACTERS
from regard.serving.telemetry import ServiceMetrics
from regard.serving.worker import search_of, warm_up_answers, weights_hash
from regard.serving.worker_process import Launch

EVENT_STREAM = "text/event-stream"
DEFAULT_TIMEOUT_MS = 60_000


def model_id(name: str, path: Path) -> str:
    """A run's name and the beginning of the hash of its weights."""
    return f"{name}@{weights_hash(path)}"


@final
@dataclass(eq=False)
class Services:
    """The services of all runs, and what requests share."""

    registry: Registry
    runs: Mapping[str, RunService]
    metrics: ServiceMetrics
    settings: ServiceSettings
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    """The time of a request that states none."""
    models: dict[str, str] = field(default_factory=dict)
    """The model of each run: its name and the hash of its weights."""
    under_way: dict[str, Gathering] = field(default_factory=dict)
    """Requests by their ids."""
    is_draining: bool = False
    """Whether the server stops, and takes no more requests."""
    is_reloading: bool = False

    def __post_init__(self) -> None:
        for name in self.runs:
            self.models[name] = model_id(name, self.registry.run(name).trained.path)

    async def start(self) -> None:
        """Start all workers; requests are refused until one is ready."""
        for service in self.runs.values():
            await service.start()

    def close(self) -> None:
        """End all workers; what is not answered yet gets an error."""
        for service in self.runs.values():
            service.close()

    def end_workers(self) -> None:
        """End all workers, without an answer to anything: the server ends now."""
        for service in self.runs.values():
            service.end_workers()

    async def reload(self, reopen: Callable[[Served], Trained]) -> list[str]:
        """Load all runs again; a run that cannot be loaded or fails its warm-up stays as it was.

        Returns what became of each run.
        """
        if self.is_reloading:
            return ["a reload is under way already"]
        self.is_reloading, said = True, []
        try:
            for name, service in self.runs.items():
                try:
                    trained = await asyncio.to_thread(reopen, self.registry.run(name))
                    model = await asyncio.to_thread(model_id, name, trained.path)
                    await service.reload(partial(warm_up_answers, trained))
                except (RegardError, OSError, ReloadFailed) as error:
                    said.append(f"{name} stays as it was: {error}")
                    continue
                self.registry.runs[name] = Served(name, trained)
                self.models[name] = model
                said.append(f"{name} is now {model}")
        finally:
            self.is_reloading = False
        return said

    def chosen(self, name: str | None) -> Served:
        """The run that a request names, or the only one; refused if it can take no more."""
        if name is None and len(self.runs) != 1:
            known = ", ".join(self.runs)
            message = f"serve: the request names none of the runs. Add run: one of {known}."
            raise Refused(422, "bad_request", message)
        served = self.registry.run(next(iter(self.runs)) if name is None else name)
        service = self.runs[served.name]
        if self.is_draining:
            raise Refused(503, "stopping", "serve: the server stops. Ask another one.", 1)
        if service.n_ready == 0:
            raise Refused(
                503, "not_ready", f"serve: {service.why_not_ready()}. Try again later.", 1
            )
        try:
            service.queue.check_room()
        except QueueFull as full:
            raise self._full(full) from full
        return served

    def _full(self, full: QueueFull) -> Refused:
        self.metrics.refused.labels("queue_full").inc()
        return Refused(429, "queue_full", f"serve: {full}.", full.retry_after)

    def why_not_ready(self) -> list[str]:
        """All reasons why requests should go elsewhere."""
        reasons = [one.why_not_ready() for one in self.runs.values()]
        stopping = ["the server stops"] if self.is_draining else []
        return [*stopping, *(reason for reason in reasons if reason is not None)]

    def described(self, name: str) -> ServedRun:
        """What a client needs to know of a run."""
        served, service = self.registry.run(name), self.runs[name]
        trained, recipe = served.trained, served.trained.loaded.recipe
        why, search = service.why_not_ready(), trained.default_search()
        reads: Literal["texts", "pictures"] = "texts" if served.reads == "texts" else "pictures"
        return ServedRun(
            name=name, model=self.models[name], task=recipe.model.task, reads=reads,
            kind=recipe.model.kind, device=str(trained.hardware.device),
            engine=trained.engine_name, max_source_tokens=trained.longest,
            max_answer_tokens=search.limits.max_tokens, default_beam=search.width,
            parameters=sum(one.numel() for one in trained.loaded.model.parameters()),
            workers=service.settings.n_workers, workers_ready=service.n_ready,
            batch_tokens=service.batch_tokens, waiting=len(service.queue),
            waiting_tokens=service.queue.n_tokens, ready=why is None, why_not_ready=why,
        )  # fmt: skip

    def limits(self) -> ServiceLimits:
        """What the server accepts."""
        return ServiceLimits(
            max_body_bytes=MAX_BYTES, max_picture_bytes=MAX_PICTURE_BYTES, max_texts=MAX_TEXTS,
            max_text_characters=MAX_TEXT_CHARACTERS, max_waiting=self.settings.max_waiting,
            max_waiting_tokens=self.settings.max_waiting_tokens, max_timeout_ms=MAX_TIMEOUT_MS,
            default_timeout_ms=self.timeout_ms,
            batch_wait_ms=1000 * self.settings.batch_wait_seconds,
        )  # fmt: skip

    def cancel(self, name: str) -> int:
        """End a request by its id with what is written; how many texts it still waited for."""
        if name not in self.under_way:
            message = (
                f"serve: no request with the id '{name[:64]}' is under way. It may have ended."
            )
            raise Refused(404, "unknown_request", message)
        return self.under_way[name].cancel()

    async def predict(self, request: Request) -> Response:
        """Answer a request, or refuse it."""
        name: str = request.state.request_id
        if name in self.under_way:
            message = (
                f"serve: a request with the id {name} is under way. Send another X-Request-Id."
            )
            raise Refused(409, "bad_request", message)
        inputs = await read_inputs(request, self.chosen)
        options = inputs.options
        async with inputs.files:
            gathering = await self._begun(request, name, inputs)
            if options.stream:
                kept = inputs.files.pop_all()
                return StreamingResponse(
                    self._events(gathering, kept.aclose), media_type=EVENT_STREAM
                )
            try:
                await _finished(gathering)
            except asyncio.CancelledError:
                if not gathering.done.cancelled():
                    gathering.leave()
                    raise
                return Response(status_code=CLIENT_CLOSED)
            finally:
                self._forget(gathering)
            status, body = gathering.response(self.models[inputs.served.name])
            return Response(body.model_dump_json(), status, media_type=JSON)

    async def _begun(self, request: Request, name: str, inputs: RequestInputs) -> Gathering:
        """A request whose texts wait for a worker."""
        trained, service = inputs.served.trained, self.runs[inputs.served.name]
        # settings that the run does not take are refused once for all texts
        try:
            search_of(trained, inputs.options.search_options())
        except SettingError as error:
            raise Refused(422, type(error).__name__, str(error)) from error
        timeout_ms = inputs.options.timeout_ms or self.timeout_ms
        gathering = Gathering(name, service, inputs, timeout_ms, self.metrics)
        request.state.log = {
            "run": service.name, "texts": len(inputs.texts),
            "characters": sum(map(len, inputs.texts)), "asked": inputs.texts,
        }  # fmt: skip
        self.under_way[name] = gathering
        client = current_client()
        if client is not None:
            client.when_gone(partial(self._leave, gathering))
        try:
            await gathering.submit(trained)
        except BaseException as error:
            self._forget(gathering)
            if isinstance(error, QueueFull):
                raise self._full(error) from error
            raise
        return gathering

    async def _events(self, gathering: Gathering, clean: Any) -> AsyncIterator[bytes]:
        """The events of a request, the last of which is its whole answer."""
        assert gathering.events is not None
        end = asyncio.ensure_future(_finished(gathering))
        try:
            while (event := await gathering.events.get()) is not None:
                yield _event(*event)
            _, body = gathering.response(self.models[gathering.run])
            yield _event("done", body)
        finally:
            end.cancel()
            self._leave(gathering)
            await clean()

    def _leave(self, gathering: Gathering) -> None:
        """Nothing more is wanted of a request."""
        gathering.leave()
        self._forget(gathering)

    def _forget(self, gathering: Gathering) -> None:
        if self.under_way.get(gathering.name) is gathering:
            del self.under_way[gathering.name]


async def _finished(gathering: Gathering) -> None:
    """Wait until all is answered, or the time is over."""
    loop, seconds = asyncio.get_running_loop(), gathering.timeout_ms / 1000
    timers = (
        loop.call_later(seconds, gathering.expire),
        loop.call_later(seconds + LATE_SECONDS, gathering.give_up),
    )
    try:
        await gathering.done
    finally:
        for timer in timers:
            timer.cancel()


def _event(name: str, data: BaseModel) -> bytes:
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n".encode()


def open_services(
    registry: Registry,
    launch: Callable[[Served], Launch],
    settings: ServiceSettings,
    *,
    timeout_ms: int = DEFAULT_TIMEOUT_MS,
) -> Services:
    """A service for each run of a registry; `launch` starts the workers of one."""
    metrics = ServiceMetrics()
    runs = {
        name: RunService(
            name, launch(served), partial(warm_up_answers, served.trained), settings, metrics
        )
        for name, served in registry.runs.items()
    }
    return Services(registry, runs, metrics, settings, timeout_ms)
