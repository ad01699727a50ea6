"""The HTTP routes: each calls a function of api.py or its siblings.

server.py runs the app; request_limits.py says how many requests are worked on at a time.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

import regard
from regard.errors import LengthError, RegardError, UnknownChoice
from regard.plots.scripts import DRAWING
from regard.serving import api, captions, gold
from regard.serving.access import Access
from regard.serving.atlas import TileRequest, atlas, profile, tile
from regard.serving.colour_maps import colour_ramps
from regard.serving.course import contents, outputs, reading
from regard.serving.figures import FigureSettings, figure
from regard.serving.guard import AllowedHosts, Guard, error_body
from regard.serving.loaded_head import loaded_head
from regard.serving.quantities import QuantitySettings
from regard.serving.registry import Registry
from regard.serving.request_limits import CLIENT_CLOSED, Pools
from regard.serving.schemas import (
    PredictRequest,
    TextRequest,
    WorkedExampleRequest,
    described,
    mistakes,
    read_json,
    received,
)
from regard.serving.services import Services
from regard.serving.side_by_side import side_by_side
from regard.serving.telemetry import CountedRequests, RequestLog, ServiceMetrics
from regard.serving.training_view import training_view
from regard.serving.v1 import add_v1
from regard.serving.worked_steps import start, worked_steps

STATUS: dict[type[RegardError], int] = {UnknownChoice: 404, LengthError: 413}
"""The HTTP status of each kind of error; 400 for all others."""
OCTETS = "application/octet-stream"
PAGE_FOLDERS: Mapping[str, Path] = {"": Path(__file__).parent / "page", "drawing/": DRAWING}
"""By prefix of the path: the studio's own files, and those that exported pages share."""
PAGES: Mapping[str, str] = {"": "index.html", "docs": "api.html"}
"""The files behind addresses that name none."""
PAGE_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
"""Fixed here, since some systems map .js to plain text, and modules then fail to load."""
SentSettings = Annotated[QuantitySettings, Depends()]
SentFigure = Annotated[FigureSettings, Depends()]
SentDrawing = Annotated[gold.Drawing, Depends()]


def build_app(
    registry: Registry,
    *,
    host: str = "127.0.0.1",
    allowed_hosts: Iterable[str] = (),
    services: Services | None = None,
    log: RequestLog | None = None,
    access: Access | None = None,
) -> ASGIApp:
    """The application, guarded: requests that name another host are refused.

    With services it has the routes of /v1, beside the studio.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if services is not None:
            await services.start()
        try:
            yield
        finally:
            if services is not None:
                services.close()

    # FastAPI's documentation pages load scripts from other hosts
    app = FastAPI(
        title="regard", version=regard.__version__, docs_url=None, redoc_url=None,
        lifespan=lifespan,
    )  # fmt: skip
    metrics = ServiceMetrics() if services is None else services.metrics
    _answer_errors(app)
    if services is not None:
        add_v1(app, services)
    _metrics(app, metrics)
    pools = Pools(registry.names)
    _about(app, registry, pools)
    _answers(app, registry, pools)
    _looks(app, registry)
    _worked(app, pools)
    _course(app, pools)
    _gold(app, registry)
    _page(app)
    guarded = Guard(app, AllowedHosts.of(host, allowed_hosts), access)
    return CountedRequests(guarded, metrics, log or RequestLog())


def _about(app: FastAPI, registry: Registry, pools: Pools) -> None:
    @app.get("/health", tags=["server"])
    async def health() -> dict[str, str]:
        """Whether the server answers."""
        return {"status": "good", "version": regard.__version__}

    @app.get("/api/runs", tags=["runs"])
    async def runs() -> dict[str, object]:
        """All runs; newer checkpoints of those that are being trained are loaded."""
        return await pools.read(lambda: api.runs(registry))

    @app.get("/api/colours", tags=["server"])
    async def colours() -> dict[str, object]:
        """The colour ramps that everything is drawn with."""
        return colour_ramps()

    @app.get("/api/runs/{run}/info", tags=["runs"])
    async def info(run: str) -> dict[str, object]:
        """What a run is."""
        if run in registry.models:
            return await pools.read(registry.models[run].info)
        return await pools.read(lambda: api.info(registry, run))

    @app.get("/api/runs/{run}/curves", tags=["runs"])
    async def curves(run: str) -> dict[str, object]:
        """How a run learned, or how it is learning: curves, progress and sample answers."""
        return await pools.read(lambda: training_view(registry.home(run)))


def _answers(app: FastAPI, registry: Registry, pools: Pools) -> None:
    @app.post("/api/runs/{run}/predict", tags=["looking"], openapi_extra=described(PredictRequest))
    async def predict(run: str, request: Request) -> dict[str, object]:
        """Answer a text; each answer names a record."""
        # checked before the body is read, which may be long
        if run not in registry.models:
            api.reader(registry, run)
        body = await read_json(request, PredictRequest)
        # a refused text is answered at once, without waiting for the model
        asked = dict(body)
        answer = await pools.read(lambda: api.prepare_prediction(registry, run, **asked))
        return await pools.run_on_model(run, answer)

    @app.post("/api/runs/{run}/familiarity", tags=["looking"], openapi_extra=described(TextRequest))
    async def familiarity(run: str, request: Request) -> dict[str, object]:
        """Whether a text is unlike all that the run learned from, and how that was judged."""
        served = api.reader(registry, run)
        body = await read_json(request, TextRequest)
        return await pools.read(lambda: api.familiarity(served, body.text))

    @app.post("/api/runs/{run}/caption", tags=["looking"])
    async def caption(run: str, request: Request) -> dict[str, object]:
        """Caption the picture that is the body of the request, as the bytes of its file."""
        served = captions.captioner(registry, run)
        async with received(request) as upload:
            return await pools.run_on_model(
                run, lambda: captions.caption_upload(registry, served, upload)
            )

    @app.get("/api/runs/{run}/caption/{number}", tags=["looking"])
    async def caption_example(run: str, number: int) -> dict[str, object]:
        """Caption one of the run's own pictures."""
        captions.captioner(registry, run)
        served = registry.run(run)
        return await pools.run_on_model(
            run, lambda: captions.caption_example(registry, served, number)
        )

    @app.get("/api/captions/{record}", tags=["looking"])
    async def kept_caption(record: str) -> dict[str, object]:
        """A caption that was saved in a file, or that is still kept."""
        return await pools.read(lambda: captions.caption(registry, record))

    @app.get("/api/captions/{record}/picture", tags=["looking"], response_class=Response)
    async def picture(record: str) -> Response:
        """A picture that was captioned."""
        content = await pools.read(lambda: captions.picture_png(registry, record))
        return Response(content, media_type="image/png")


def _looks(app: FastAPI, registry: Registry) -> None:
    @app.get("/api/records/{record}", tags=["looking"])
    def record(record: str) -> dict[str, object]:
        """Texts and tokens of an answer, and which weights there are."""
        return api.record(registry, record)

    @app.get("/api/records/{record}/weights/{kind}", tags=["looking"], response_class=Response)
    def weights(record: str, kind: str, settings: SentSettings, shown: str = "weights") -> Response:
        """All numbers of a kind: float32, little end first; X-Shape says how many."""
        numbers = api.weights(registry, record, kind, shown, settings)
        shape = ",".join(map(str, numbers.shape))
        return Response(numbers.tobytes(), media_type=OCTETS, headers={"X-Shape": shape})

    @app.get("/api/records/{record}/visible/{kind}", tags=["looking"])
    def visible(record: str, kind: str, shown: str = "weights") -> dict[str, object]:
        """The spans of keys that each query may see, layer by layer."""
        return api.visible(registry, record, kind, shown)

    @app.get("/api/records/{record}/statistics/{kind}", tags=["looking"])
    def statistics(record: str, kind: str) -> dict[str, object]:
        """What each head does: entropy, distance, sink, neighbours, redundancy."""
        return api.statistics(registry, record, kind)

    @app.get("/api/records/{record}/figure/{file}", tags=["looking"], response_class=Response)
    def one_figure(record: str, file: str, wish: SentFigure) -> Response:
        """The heat map as a figure for papers; the file is a kind and .pdf, .svg or .png."""
        content, media, name = figure(registry, record, file, wish)
        saved = {"Content-Disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=media, headers=saved)

    @app.get("/api/records/{record}/mechanisms/{kind}/{layer}/{head}", tags=["looking"])
    def mechanisms(record: str, kind: str, layer: int, head: int) -> dict[str, object]:
        """What other mechanisms make of the same queries and keys."""
        return side_by_side(registry.record(record), kind, layer, head)

    @app.get("/api/records/{record}/worked/{kind}/{layer}/{head}", tags=["worked example"])
    def loaded(record: str, kind: str, layer: int, head: int) -> dict[str, object]:
        """The queries, keys and values of one head, for the worked example."""
        return loaded_head(registry.record(record), kind, layer, head)

    @app.get("/api/records/{record}/atlas/{kind}/{layer}", tags=["atlas"])
    def size(record: str, kind: str, layer: int) -> dict[str, object]:
        """How large a layer's map is, and how it is cut."""
        return atlas(registry.record(record), kind, layer)

    @app.get(
        "/api/records/{record}/tiles/{kind}/{layer}/{head}/{zoom}/{x}/{y}",
        tags=["atlas"],
        response_class=Response,
    )
    def one_tile(record: str, request: Annotated[TileRequest, Depends()]) -> Response:
        """256 × 256 weights; then how many keys each row of pixels may see. 204: all masked."""
        content, headers = tile(registry, record, request)
        if not content:
            return Response(status_code=204, headers=headers)
        return Response(content, media_type=OCTETS, headers=headers)

    @app.get("/api/records/{record}/profile/{kind}/{layer}/{head}", tags=["atlas"])
    def one_profile(
        record: str, kind: str, layer: int, head: int, far: int = 64, every: int = 0
    ) -> dict[str, object]:
        """What each key receives, and the strongest far links; every=1 uses all queries."""
        return profile(registry.record(record), kind, layer, head, far=far, every=every)


def _worked(app: FastAPI, pools: Pools) -> None:
    @app.get("/api/worked", tags=["worked example"])
    async def begin() -> dict[str, object]:
        """The worked example as `regard explain` prints it."""
        return await pools.read(start)

    @app.post("/api/worked", tags=["worked example"])
    async def work(asked: WorkedExampleRequest) -> dict[str, object]:
        """Every step with other numbers."""
        return await pools.read(lambda: worked_steps(asked))


def _course(app: FastAPI, pools: Pools) -> None:
    @app.get("/api/course", tags=["course"])
    async def chapters(language: str = "en") -> dict[str, object]:
        """The titles of the chapters, and the languages."""
        return await pools.read(lambda: contents(language))

    @app.get("/api/course/{chapter}", tags=["course"])
    async def chapter(chapter: str, language: str = "en") -> dict[str, object]:
        """The prose and code of a chapter."""
        return await pools.read(lambda: reading(chapter, language))

    @app.get("/api/course/{chapter}/outputs", tags=["course"])
    async def played(chapter: str) -> Sequence[dict[str, str | None]]:
        """What each piece of its code prints, and draws as PNG in base64; the code is run once."""
        return await pools.run_chapter(lambda: outputs(chapter))


def _gold(app: FastAPI, registry: Registry) -> None:
    @app.get("/api/gold", tags=["gold"])
    async def sentences() -> dict[str, object]:
        """The pairs that have gold links."""
        return gold.sentences(registry)

    @app.get("/api/gold/{run}", tags=["gold"])
    def errors_of_heads(run: str, drawing: SentDrawing) -> dict[str, object]:
        """The alignment error rate of every head."""
        return gold.errors_of_heads(registry, run, drawing)

    @app.get("/api/gold/{run}/{place}", tags=["gold"])
    def sentence(
        run: str, place: int, drawing: SentDrawing, row: str = "predicting"
    ) -> dict[str, object]:
        """One pair with its links, every head's weights and the links that they draw."""
        return gold.sentence(registry, run, place, row, drawing)


def page_files() -> dict[str, Path]:
    """Every file of the page by its address, "index.html" among them."""
    return {
        beginning + path.relative_to(folder).as_posix(): path
        for beginning, folder in PAGE_FOLDERS.items()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in PAGE_TYPES
    }


def _page(app: FastAPI) -> None:
    files = page_files()

    @app.get("/{address:path}", include_in_schema=False)
    async def page(address: str) -> Response:
        path = files.get(PAGES.get(address, address))
        if path is None:
            raise UnknownChoice(
                f"page: there is no '{address}' here. Open the address without a path."
            )
        return Response(path.read_bytes(), media_type=PAGE_TYPES[path.suffix])


def _answer_errors(app: FastAPI) -> None:
    """Every error has one shape."""

    @app.exception_handler(RegardError)
    async def regard_error(request: Request, error: Exception) -> Response:
        kind = type(error)
        status = next((code for known, code in STATUS.items() if issubclass(kind, known)), 400)
        return JSONResponse(error_body(kind.__name__, str(error)), status)

    @app.exception_handler(RequestValidationError)
    async def unfit(request: Request, error: RequestValidationError) -> Response:
        message = f"serve: {mistakes(error.errors())}."
        return JSONResponse(error_body("bad_request", message), 422)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        message = f"serve: {request.method} {request.url.path}: {error.detail}."
        if error.status_code in (404, 405):
            message += " /openapi.json lists the addresses."
        return JSONResponse(error_body("bad_request", message), error.status_code)

    @app.exception_handler(Exception)
    async def broken(request: Request, error: Exception) -> Response:
        message = "serve: something broke; the terminal that serve runs in says what."
        return JSONResponse(error_body("internal", message), 500)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: Exception) -> Response:
        return JSONResponse(
            error_body("gone", "serve: the client left before it had sent all."), CLIENT_CLOSED
        )


def _metrics(app: FastAPI, counted: ServiceMetrics) -> None:
    @app.get("/metrics", tags=["server"], response_class=Response)
    async def metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(counted.text(), media_type=CONTENT_TYPE_LATEST)
