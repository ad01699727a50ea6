"""The routes of /v1 and of health: predictions for programs, behind queues with bounds.

    POST   /v1/predict          answers, at once or as events
    DELETE /v1/requests/{id}    end a request with what is written
    GET    /v1/info, /v1/runs, /health/live, /health/ready

services.py follows a request; prediction_schemas.py types what comes and goes.
"""

from collections.abc import Mapping
from typing import Any

import torch
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

import regard
from regard.serving.guard import error_body
from regard.serving.prediction_schemas import (
    CancelResponse,
    ErrorBody,
    HealthResponse,
    InfoResponse,
    PredictionRequest,
    PredictionResponse,
    RunsResponse,
)
from regard.serving.registry import Registry
from regard.serving.request_inputs import Refused
from regard.serving.run_service import ServiceSettings
from regard.serving.schemas import JSON
from regard.serving.services import EVENT_STREAM, Services
from regard.serving.telemetry import ServiceMetrics

DETERMINISTIC = (
    "Greedy and beam search give the same answer to the same text by the same model on the same "
    "kind of device, whatever else is in its batch; scores agree to 1e-4. Drawn answers are the "
    "same for the same seed and place in the list."
)
ERRORS: Mapping[int, str] = {
    400: "The body is no request.",
    401: "The token is missing or wrong.",
    403: "The request names another host, or comes from a page of another site.",
    404: "There is no such run or request.",
    408: "The body came too slowly.",
    409: "A request with this id is under way.",
    413: "The body is too large.",
    415: "The body is neither JSON nor a picture.",
    422: "A field is unknown or does not fit, or no text can be answered.",
    429: "The queue is full, or the rate is passed; Retry-After says when to come again.",
    503: "The server is not ready, stops, or lacks memory for this text.",
}
"""The statuses of errors, and when they come."""
SCHEMAS = "#/components/schemas/{model}"


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {one: {"model": ErrorBody, "description": ERRORS[one]} for one in statuses}


def _body() -> dict[str, object]:
    """The entry in /openapi.json for what /v1/predict reads."""
    picture = {"schema": {"type": "string", "format": "binary"}}
    form = {"schema": {"$ref": SCHEMAS.format(model=PredictionRequest.__name__)}}
    described = (
        "JSON; or the bytes of one picture for a run that captions, with the options of the JSON "
        "as parameters of the address."
    )
    content = {JSON: form, "image/*": picture}
    return {"requestBody": {"required": True, "description": described, "content": content}}


def openapi_of_v1() -> dict[str, Any]:
    """The description of /v1 and health, as docs/openapi.json holds it."""
    app = FastAPI(title="regard", version="1")
    add_v1(app, Services(Registry({}), {}, ServiceMetrics(), ServiceSettings()))
    return app.openapi()


def _with_request(app: FastAPI) -> None:
    """Name the schema of the body that /v1/predict reads by itself."""
    make = app.openapi

    def openapi() -> dict[str, Any]:
        found = make()
        schemas = found["components"]["schemas"]
        schemas[PredictionRequest.__name__] = PredictionRequest.model_json_schema(
            ref_template=SCHEMAS
        )
        return found

    app.openapi = openapi  # type: ignore[method-assign]


def add_v1(app: FastAPI, services: Services) -> None:
    """Add the routes of /v1 and of health to an application."""
    _with_request(app)

    @app.post(
        "/v1/predict",
        tags=["predictions"],
        response_model=PredictionResponse,
        responses={
            200: {
                "description": "The answers, in the order of the texts; a text that cannot be "
                "answered has an error in its place. With stream, events: token, answer, done.",
                "content": {EVENT_STREAM: {"schema": {"type": "string"}}},
            },
            504: {"model": PredictionResponse, "description": "The time was over."},
            **_errors(401, 403, 404, 408, 409, 413, 415, 422, 429, 503),
        },
        openapi_extra=_body(),
    )
    async def predict(request: Request) -> Response:
        """Answer texts, pictures or texts with hidden words."""
        return await services.predict(request)

    @app.delete(
        "/v1/requests/{name}", tags=["predictions"], responses=_errors(401, 403, 404),
    )  # fmt: skip
    async def cancel(name: str) -> CancelResponse:
        """End a request with what is written; it is answered with finish_reason cancelled."""
        return CancelResponse(id=name, cancelled=services.cancel(name))

    @app.get("/v1/runs", tags=["predictions"], responses=_errors(401, 403))
    async def runs() -> RunsResponse:
        """All runs, what they read, and whether they are ready."""
        return RunsResponse(runs=[services.described(name) for name in services.runs])

    @app.get("/v1/info", tags=["predictions"], responses=_errors(401, 403))
    async def info() -> InfoResponse:
        """Versions, limits and runs."""
        return InfoResponse(
            version=regard.__version__, torch=torch.__version__, limits=services.limits(),
            deterministic=DETERMINISTIC,
            runs=[services.described(name) for name in services.runs],
        )  # fmt: skip

    @app.get("/health/live", tags=["server"])
    async def live() -> HealthResponse:
        """Whether the process lives."""
        return HealthResponse(status="good", version=regard.__version__)

    @app.get("/health/ready", tags=["server"], responses={503: {"model": HealthResponse}})
    async def ready() -> Response:
        """Whether every run answers: its workers answered their warm-up, and the queue has room."""
        reasons = services.why_not_ready()
        body = HealthResponse(
            status="not ready" if reasons else "good", version=regard.__version__, reasons=reasons
        )
        return Response(body.model_dump_json(), 503 if reasons else 200, media_type=JSON)

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
        return JSONResponse(error_body(error.kind, str(error)), error.status, headers)
