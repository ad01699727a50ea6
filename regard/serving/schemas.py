"""Bodies of requests: JSON checked against a schema, and pictures as temporary files.

A body is read only after the run was found able to use it. JSON is small (guard.py) and is read at
once. A picture is streamed to a file, so that memory does not grow with uploads that arrive at the
same time, or that never arrive completely.
"""

import difflib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from regard.decoding.beam import DEFAULT_BEAM_WIDTH

JSON = "application/json"
MAX_TEXT_CHARACTERS = 400_000
MAX_WORDS = 24
"""The most words of the worked example, as many as `loaded_head` allows pieces."""

Matrix = list[list[float]]
Form = TypeVar("Form", bound=BaseModel)


class SampleRequest(BaseModel):
    """How answers are drawn, token by token, instead of searched for."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    temperature: float = Field(default=1.0, gt=0, le=20)
    """Below 1 the likely is likelier."""
    top_k: int | None = Field(default=None, ge=1)
    """Among so many tokens; all unless given."""
    top_p: float = Field(default=1.0, gt=0, le=1)
    """Among the fewest tokens that together have this probability."""
    seed: int = Field(default=0, ge=0, lt=2**31)


class PredictRequest(BaseModel):
    """A text to answer."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=MAX_TEXT_CHARACTERS)
    target: str | None = Field(default=None, max_length=MAX_TEXT_CHARACTERS)
    """An answer to look at instead of the model's own."""
    n_best: int = Field(default=DEFAULT_BEAM_WIDTH, ge=1, le=DEFAULT_BEAM_WIDTH)
    max_tokens: int | None = None
    """Longest answer; 50 tokens beyond the text, 300 at most, unless given."""
    sampling: SampleRequest | None = None
    """Answers are drawn so; searched for unless given."""


class TextRequest(BaseModel):
    """A text."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(max_length=MAX_TEXT_CHARACTERS)


class WorkedHead(BaseModel):
    """The matrices of one head of the worked example."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    W_Q: Matrix = Field(max_length=2 * MAX_WORDS)
    W_K: Matrix = Field(max_length=2 * MAX_WORDS)
    W_V: Matrix = Field(max_length=2 * MAX_WORDS)


class WorkedExampleRequest(BaseModel):
    """The worked example with other numbers."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    queries: Matrix = Field(max_length=MAX_WORDS)
    keys: Matrix = Field(max_length=MAX_WORDS)
    heads: list[WorkedHead] = Field(min_length=1, max_length=4)
    W_O: Matrix = Field(max_length=4 * MAX_WORDS)
    is_scaled: bool = False
    is_causal: bool = False
    temperature: float = Field(default=1.0, gt=0)


async def read_json(request: Request, form: type[Form]) -> Form:
    """The body of a request, checked against a schema."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise HTTPException(415, f"expected a body of Content-Type {JSON}, got '{kind}'")
    try:
        return form.model_validate_json(await request.body())
    except ValidationError as error:
        raise unfit(error, form, "body") from error


def unfit(error: ValidationError, form: type[BaseModel], where: str) -> RequestValidationError:
    """What is wrong with a part of a request; a key of the form's own may be the one meant."""
    known = {"known": list(form.model_fields)}
    return RequestValidationError(
        [{**one, "loc": (where, *one["loc"]), "ctx": known} for one in error.errors()]
    )


def mistakes(errors: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with each key of a request, and what to do."""
    return "; ".join(f"{'.'.join(map(str, one['loc']))}: {_told(one, errors)}" for one in errors)


def _told(one: Mapping[str, Any], errors: Sequence[Mapping[str, Any]]) -> str:
    if one["type"] == "missing":
        return "the key is missing. Give it"
    if one["type"] == "value_error":
        return str(one["msg"]).removeprefix("Value error, ")
    if one["type"] != "extra_forbidden":
        return str(one["msg"])
    *place, name = one["loc"]
    missing = [each["loc"] for each in errors if each["type"] == "missing"]
    wanted = [str(key) for *where, key in missing if where == place]
    known = one.get("ctx", {}).get("known", ()) if len(place) == 1 else ()
    near = difflib.get_close_matches(str(name), wanted or known, n=1)
    remedy = f"Did you mean '{near[0]}'?" if near else "Take it out;"
    return f"there is no such key. {remedy} /openapi.json lists the keys"


def described(form: type[BaseModel]) -> dict[str, object]:
    """The entry in /openapi.json for a body that `read_json` reads."""
    schema = form.model_json_schema()
    content = {JSON: {"schema": _inlined(schema, schema.pop("$defs", {}))}}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(part: Any, parts: Mapping[str, Any]) -> Any:
    """A schema with its named parts in place of their names, which the whole document lacks."""
    if isinstance(part, list):
        return [_inlined(each, parts) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _inlined(parts[part["$ref"].rpartition("/")[2]], parts)
    return {key: _inlined(value, parts) for key, value in part.items()}


class Upload(NamedTuple):
    """An uploaded file; it exists while its request is answered."""

    path: Path
    mark: str
    """A hash of the content."""


@asynccontextmanager
async def received(request: Request) -> AsyncIterator[Upload]:
    """The body of a request as a file, which is deleted afterwards."""
    with TemporaryDirectory() as folder:
        path, mark = Path(folder) / "upload", blake2b(digest_size=16)
        with path.open("wb") as file:
            async for part in request.stream():
                mark.update(part)
                file.write(part)
        yield Upload(path, mark.hexdigest())
