"""Uploads: the bodies of requests, read once it is known that the run can use them.

JSON is small (guard.py) and is read whole. A picture goes to a temporary file part by part, so that
memory does not grow with pictures that arrive at the same time, or that never arrive whole.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar, final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

JSON = "application/json"
Form = TypeVar("Form", bound=BaseModel)


async def read_json(request: Request, form: type[Form]) -> Form:
    """The body of a request in the form that it must have."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise HTTPException(415, f"expected a body of Content-Type {JSON}, got '{kind}'")
    try:
        return form.model_validate_json(await request.body())
    except ValidationError as error:
        found = [{**one, "loc": ("body", *one["loc"])} for one in error.errors()]
        raise RequestValidationError(found) from error


def described(form: type[BaseModel]) -> dict[str, object]:
    """What /openapi.json says of a body that `read_json` reads."""
    content = {JSON: {"schema": form.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}


@final
@dataclass(frozen=True)
class Upload:
    """A file that was sent."""

    path: Path
    """Where it is while its request is answered."""
    mark: str
    """The same for the same content."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was sent."""
        return not self.path.stat().st_size


@asynccontextmanager
async def received(request: Request) -> AsyncIterator[Upload]:
    """The body of a request as a file; it is gone afterwards, and when the client leaves."""
    with TemporaryDirectory() as folder:
        path, mark = Path(folder) / "upload", blake2b(digest_size=16)
        with path.open("wb") as file:
            async for part in request.stream():
                mark.update(part)
                file.write(part)
        yield Upload(path, mark.hexdigest())
