"""Standard output and standard error that outlive their reader, as with `| head`.

A reader such as `head` closes the pipe early. That is no failure: later output is dropped, the verb
goes on, and its exit code stays the same. A verb whose only result is its output checks
`has_reader` and stops.
"""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from typing import Any, final


@contextmanager
def lasting_streams() -> Iterator[None]:
    """Replace the process's own streams by ones that outlive their readers."""
    made = _lasting(sys.stdout, sys.__stdout__), _lasting(sys.stderr, sys.__stderr__)
    try:
        with redirect_stdout(made[0]), redirect_stderr(made[1]):
            yield
    finally:
        # a process may have been started without one
        for stream in filter(None, made):
            # a full disk was already reported when the verb wrote to it
            with suppress(OSError):
                stream.flush()


def has_reader(stream: Any) -> bool:
    """Whether the stream may still be read; False once a write found the pipe closed."""
    return not isinstance(stream, Lasting) or stream.end.has_reader


@final
class Lasting(io.TextIOWrapper):
    """A stream to the same place as another, which keeps working after its reader is gone."""

    def __init__(self, like: io.TextIOWrapper) -> None:
        self.end = _End(like.fileno(), "wb", closefd=False)
        super().__init__(
            io.BufferedWriter(self.end),
            encoding=like.encoding,
            errors=like.errors,
            line_buffering=like.line_buffering or like.write_through,
        )


@final
class _End(io.FileIO):
    """The writing end of a pipe; once the reader is gone, what is written is dropped."""

    has_reader = True

    def write(self, data: Any) -> int:
        """Write to the reader; without a reader, report all bytes as written."""
        if self.has_reader:
            try:
                return super().write(data)
            except BrokenPipeError:
                self.has_reader = False
        return memoryview(data).nbytes


def _lasting(stream: Any, own: Any) -> Any:
    """The stream made lasting; a replacement of the process's own stream stays as it is."""
    if stream is not own or not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    return Lasting(stream)
