"""Request inputs: the body of a prediction, read and checked; pictures become temporary files."""

import base64
import binascii
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

from fastapi import Request
from pydantic import ValidationError

from regard.serving.prediction_schemas import PredictionOptions, PredictionRequest
from regard.serving.registry import Served
from regard.serving.schemas import read_json, received, unfit

Choose = Callable[[str | None], Served]
"""Finds the run that a request names, and refuses a request that it cannot take."""


class Refused(Exception):
    """A request that is refused with a status of HTTP."""

    def __init__(
        self, status: int, kind: str, message: str, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.retry_after = status, kind, retry_after


@final
@dataclass(frozen=True)
class RequestInputs:
    """What is to be answered, and how."""

    served: Served
    options: PredictionOptions
    texts: Sequence[str]
    """Texts, or addresses of files of pictures, which exist while `files` is open."""
    names: Sequence[str]
    """The name of each in errors."""
    files: AsyncExitStack = field(default_factory=AsyncExitStack)

    def shown(self, message: str) -> str:
        """A message without the paths of temporary files."""
        if self.served.reads == "pictures":
            for path, name in zip(self.texts, self.names, strict=True):
                message = message.replace(path, name)
        return message


async def read_inputs(request: Request, choose: Choose) -> RequestInputs:
    """The inputs of a request to predict: JSON, or the bytes of one picture."""
    packed = request.headers.get("content-encoding", "identity")
    if packed != "identity":
        raise Refused(415, "bad_request", f"serve: send the body as it is, not as {packed}.")
    kind = request.headers.get("content-type", "").partition("/")[0].strip().lower()
    read = _picture if kind == "image" else _json
    return await read(request, choose)


async def _json(request: Request, choose: Choose) -> RequestInputs:
    body = await read_json(request, PredictionRequest)
    served = choose(body.run)
    if body.pictures is None:
        _check_reads(served, "texts")
        texts = body.texts or []
        names = ["the text"] if len(texts) == 1 else [f"text {n + 1}" for n in range(len(texts))]
        return RequestInputs(served, body, texts, names)
    _check_reads(served, "pictures")
    contents = [_decoded(place, content) for place, content in enumerate(body.pictures)]
    files = AsyncExitStack()
    folder = Path(files.enter_context(TemporaryDirectory()))
    paths = [folder / str(place) for place in range(len(contents))]
    for path, content in zip(paths, contents, strict=True):
        path.write_bytes(content)
    names = [f"picture {place + 1}" for place in range(len(paths))]
    return RequestInputs(served, body, [str(path) for path in paths], names, files)


async def _picture(request: Request, choose: Choose) -> RequestInputs:
    try:
        options = PredictionOptions.model_validate_strings(dict(request.query_params))
    except ValidationError as error:
        raise unfit(error, PredictionOptions, "query") from error
    served = choose(options.run)
    _check_reads(served, "pictures")
    async with AsyncExitStack() as files:
        upload = await files.enter_async_context(received(request))
        if not upload.path.stat().st_size:
            raise Refused(
                422, "bad_request", "serve: no picture was sent. Send the bytes of its file."
            )
        return RequestInputs(served, options, [str(upload.path)], ["the picture"], files.pop_all())
    raise AssertionError("the stack ends no exception")


def _decoded(place: int, content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except binascii.Error as error:
        message = f"serve: pictures.{place} is no base64 ({error}). Send the bytes of its file so."
        raise Refused(422, "bad_request", message) from error


def _check_reads(served: Served, what: str) -> None:
    if served.reads != what:
        raise Refused(
            422, "bad_request", f"serve: the run '{served.name}' reads {served.reads}, got {what}. "
            f"Send {served.reads}, or name another run.",
        )  # fmt: skip
