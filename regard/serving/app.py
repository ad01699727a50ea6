"""The routes: each reads what was asked, calls a pure function, and answers in JSON or numbers."""

from collections.abc import Awaitable, Callable
from time import perf_counter

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram
from prometheus_client import generate_latest as metrics_text
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

import regard
from regard.errors import LengthError, RegardError, UnknownChoice
from regard.serving import api, captions, gold
from regard.serving.atlas import Asked, atlas, profile, tile
from regard.serving.colour_maps import colour_ramps
from regard.serving.files import page_files, read_file
from regard.serving.guard import Guard, Names, fault
from regard.serving.link_drawing import Drawing
from regard.serving.loaded_head import loaded_head
from regard.serving.pools import Pools
from regard.serving.registry import Registry
from regard.serving.schemas import AskedToPredict, AskedToWork
from regard.serving.shown_numbers import Wish
from regard.serving.side_by_side import side_by_side
from regard.serving.turns import GONE
from regard.serving.uploads import described, read_json, received
from regard.serving.worked_steps import start, worked_steps

STATUS: dict[type[RegardError], int] = {UnknownChoice: 404, LengthError: 413}
"""What a mistake is in HTTP; 400 where nothing else is said."""
OCTETS = "application/octet-stream"


def build_app(registry: Registry, *, host: str = "127.0.0.1") -> ASGIApp:
    """The application, guarded.

    Args:
        registry: the runs it serves.
        host: what the server is bound to; other names are refused.
    """
    # FastAPI's own pages for people load scripts from elsewhere
    app = FastAPI(title="regard", version=regard.__version__, docs_url=None, redoc_url=None)
    _count(app)
    _say_mistakes(app)
    pools = Pools(registry.runs)
    _about(app, registry, pools)
    _answers(app, registry, pools)
    _looks(app, registry)
    _atlas(app, registry)
    _worked(app, pools)
    _gold(app, registry)
    _page(app)
    return Guard(app, Names.of(host))


def _about(app: FastAPI, registry: Registry, pools: Pools) -> None:
    @app.get("/health", tags=["server"])
    async def health() -> dict[str, str]:
        """Whether the server answers."""
        return {"status": "good", "version": regard.__version__}

    @app.get("/api/runs", tags=["runs"])
    async def runs() -> dict[str, object]:
        """All runs."""
        return api.runs(registry)

    @app.get("/api/colours", tags=["server"])
    async def colours() -> dict[str, object]:
        """The colour ramps that everything is drawn with."""
        return colour_ramps()

    @app.get("/api/runs/{run}/info", tags=["runs"])
    async def info(run: str) -> dict[str, object]:
        """What a run is."""
        return await pools.reading.run(lambda: api.info(registry.run(run)))

    @app.get("/api/runs/{run}/curves", tags=["runs"])
    async def curves(run: str) -> dict[str, object]:
        """How a run learned."""
        return await pools.reading.run(lambda: api.curves(registry.run(run)))


def _answers(app: FastAPI, registry: Registry, pools: Pools) -> None:
    @app.post("/api/runs/{run}/predict", tags=["looking"], openapi_extra=described(AskedToPredict))
    async def predict(run: str, request: Request) -> dict[str, object]:
        """Answer a text; each answer names a record."""
        # before the body is read, which may be long
        api.reader(registry, run)
        asked = await read_json(request, AskedToPredict)
        # a text that is refused waits for no other
        answer = await pools.reading.run(
            lambda: api.prepare_prediction(
                registry,
                run,
                asked.text,
                target=asked.target,
                n_best=asked.n_best,
                max_tokens=asked.max_tokens,
            )
        )
        return await pools.of_run[run].run(answer)

    @app.post("/api/runs/{run}/caption", tags=["looking"])
    async def caption(run: str, request: Request) -> dict[str, object]:
        """Caption the picture that is the body of the request, as the bytes of its file."""
        served = captions.captioner(registry, run)
        async with received(request) as upload:
            return await pools.of_run[run].run(
                lambda: captions.caption_upload(registry, served, upload)
            )

    @app.get("/api/runs/{run}/caption/{number}", tags=["looking"])
    async def caption_example(run: str, number: int) -> dict[str, object]:
        """Caption one of the run's own pictures."""
        served = captions.captioner(registry, run)
        return await pools.of_run[run].run(
            lambda: captions.caption_example(registry, served, number)
        )

    @app.get("/api/captions/{record}", tags=["looking"])
    async def kept_caption(record: str) -> dict[str, object]:
        """A caption that was saved in a file, or that is still kept."""
        return await pools.reading.run(lambda: captions.caption(registry, record))

    @app.get("/api/captions/{record}/picture", tags=["looking"], response_class=Response)
    async def picture(record: str) -> Response:
        """A picture that was captioned."""
        content = await pools.reading.run(lambda: captions.picture_png(registry, record))
        return Response(content, media_type="image/png")


def _looks(app: FastAPI, registry: Registry) -> None:
    @app.get("/api/records/{record}", tags=["looking"])
    def record(record: str) -> dict[str, object]:
        """Texts and tokens of an answer, and which weights there are."""
        return api.record(registry, record)

    @app.get("/api/records/{record}/weights/{kind}", tags=["looking"], response_class=Response)
    def weights(
        record: str,
        kind: str,
        shown: str = "weights",
        temperature: float = 1.0,
        residual: float = 0.5,
    ) -> Response:
        """All numbers of a kind: float32, little end first; X-Shape says how many."""
        numbers = api.weights(registry, record, kind, shown, Wish(temperature, residual))
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

    @app.get("/api/records/{record}/mechanisms/{kind}/{layer}/{head}", tags=["looking"])
    def mechanisms(record: str, kind: str, layer: int, head: int) -> dict[str, object]:
        """What other mechanisms make of the same queries and keys."""
        return side_by_side(registry.record(record), kind, layer, head)

    @app.get("/api/records/{record}/worked/{kind}/{layer}/{head}", tags=["worked example"])
    def loaded(record: str, kind: str, layer: int, head: int) -> dict[str, object]:
        """The queries, keys and values of one head, for the worked example."""
        return loaded_head(registry.record(record), kind, layer, head)


def _atlas(app: FastAPI, registry: Registry) -> None:
    @app.get("/api/records/{record}/atlas/{kind}/{layer}", tags=["atlas"])
    def size(record: str, kind: str, layer: int) -> dict[str, object]:
        """How large a layer's map is, and how it is cut."""
        return atlas(registry.record(record), kind, layer)

    @app.get(
        "/api/records/{record}/tiles/{kind}/{layer}/{head}/{zoom}/{x}/{y}",
        tags=["atlas"],
        response_class=Response,
    )
    def one_tile(
        record: str,
        kind: str,
        layer: int,
        head: str,
        zoom: int,
        x: int,
        y: int,
        pooling: str = "max",
        rows: int = 4,
        type: str = "float16",
    ) -> Response:
        """256 × 256 weights; then how many keys each row of pixels may see. 204: all masked."""
        made = tile(registry, record, Asked(kind, layer, head, zoom, x, y, pooling, rows, type))
        headers = {
            "X-Min": repr(made.lowest),
            "X-Max": repr(made.highest),
            "X-Rows-Sampled": str(made.rows_used),
            "X-Exact": str(made.is_exact).lower(),
        }
        if made.is_empty:
            return Response(status_code=204, headers=headers)
        return Response(made.content, media_type=OCTETS, headers=headers)

    @app.get("/api/records/{record}/profile/{kind}/{layer}/{head}", tags=["atlas"])
    def one_profile(
        record: str, kind: str, layer: int, head: int, far: int = 64, every: int = 0
    ) -> dict[str, object]:
        """What each key receives, and the strongest far links; every=1 uses all queries."""
        kept = registry.record(record)
        return profile(kept, kind, layer, head, far=far, every=every)


def _worked(app: FastAPI, pools: Pools) -> None:
    @app.get("/api/worked", tags=["worked example"])
    async def begin() -> dict[str, object]:
        """The worked example as `regard explain` prints it."""
        return await pools.reading.run(start)

    @app.post("/api/worked", tags=["worked example"])
    async def work(asked: AskedToWork) -> dict[str, object]:
        """Every step with other numbers."""
        return await pools.reading.run(lambda: worked_steps(asked.wished()))


def _gold(app: FastAPI, registry: Registry) -> None:
    @app.get("/api/gold", tags=["gold"])
    async def sentences() -> dict[str, object]:
        """The pairs that have gold links."""
        return gold.sentences(registry)

    @app.get("/api/gold/{run}", tags=["gold"])
    def errors_of_heads(
        run: str, drawing: str = "argmax", threshold: float = 0.2, punctuation: str = "counted"
    ) -> dict[str, object]:
        """The alignment error rate of every head."""
        return gold.errors_of_heads(registry, run, Drawing(drawing, threshold, punctuation))

    @app.get("/api/gold/{run}/{place}", tags=["gold"])
    def sentence(
        run: str,
        place: int,
        row: str = "predicting",
        drawing: str = "argmax",
        threshold: float = 0.2,
        punctuation: str = "counted",
    ) -> dict[str, object]:
        """One pair with its links, every head's weights and the links that they draw."""
        return gold.sentence(registry, run, place, row, Drawing(drawing, threshold, punctuation))


def _page(app: FastAPI) -> None:
    files = page_files()

    @app.get("/{address:path}", include_in_schema=False)
    async def page(address: str) -> Response:
        content, kind = read_file(files, address)
        return Response(content, media_type=kind)


def _say_mistakes(app: FastAPI) -> None:
    """Every error has one shape."""

    async def regard_error(request: Request, error: Exception) -> Response:
        kind = type(error)
        status = next((code for known, code in STATUS.items() if issubclass(kind, known)), 400)
        return JSONResponse(fault(kind.__name__, str(error)), status)

    async def unfit(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        said = "; ".join(
            f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors()
        )
        return JSONResponse(fault("bad_request", f"serve: {said}."), 422)

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        said = f"serve: {request.method} {request.url.path}: {error.detail}."
        return JSONResponse(fault("bad_request", said), error.status_code)

    async def broken(request: Request, error: Exception) -> Response:
        said = "serve: something broke; the terminal that serve runs in says what."
        return JSONResponse(fault("internal", said), 500)

    async def gone(request: Request, error: Exception) -> Response:
        return JSONResponse(fault("gone", "serve: the client left before it had sent all."), GONE)

    app.add_exception_handler(RegardError, regard_error)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(RequestValidationError, unfit)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(Exception, broken)


def _count(app: FastAPI) -> None:
    """Requests and their times, for Prometheus; each application counts its own."""
    registry = CollectorRegistry()
    counted = Counter(
        "regard_requests", "Requests by route and status.", ["route", "status"], registry=registry
    )
    taken = Histogram(
        "regard_request_seconds", "Time to answer, by route.", ["route"], registry=registry
    )

    @app.middleware("http")
    async def count(
        request: Request, following: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        began = perf_counter()
        answer = await following(request)
        route = getattr(request.scope.get("route"), "path", "none")
        counted.labels(route, answer.status_code).inc()
        taken.labels(route).observe(perf_counter() - began)
        return answer

    @app.get("/metrics", tags=["server"], response_class=Response)
    async def metrics() -> Response:
        """Numbers for Prometheus."""
        return Response(metrics_text(registry), media_type=CONTENT_TYPE_LATEST)
