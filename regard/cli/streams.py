"""Standard output and standard error that outlive their reader, as with `| head`.

A reader that has seen enough closes the pipe. That is no failure: what is said afterwards is lost
in silence, the verb goes on, and its exit code says what it would have said. A verb that works for
its reader alone asks `has_reader` and stops.
"""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, final


@contextmanager
def lasting_streams() -> Iterator[None]:
    """For a while, the process's own streams outlive their readers."""
    before = sys.stdout, sys.stderr
    sys.stdout = _lasting(before[0], sys.__stdout__)
    sys.stderr = _lasting(before[1], sys.__stderr__)
    try:
        yield
    finally:
        made, (sys.stdout, sys.stderr) = (sys.stdout, sys.stderr), before
        for stream in made:
            # a process may have been started without one
            if stream is not None:
                # who wrote to a full disk has heard of it already
                with suppress(OSError):
                    stream.flush()


def has_reader(stream: Any) -> bool:
    """Whether somebody may still read what is written; known once something could not be."""
    return not isinstance(stream, Lasting) or stream.end.has_reader


@final
class Lasting(io.TextIOWrapper):
    """A stream to the same place as another, which nobody has to read."""

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
    """The end of a pipe; what nobody reads is taken as written."""

    has_reader = True

    def write(self, data: Any) -> int:
        """Write, if there is anybody to read it."""
        if self.has_reader:
            try:
                return super().write(data)
            except BrokenPipeError:
                self.has_reader = False
        return memoryview(data).nbytes


def _lasting(stream: Any, own: Any) -> Any:
    """Whatever somebody put in place of the process's own stream stays as it is."""
    if stream is not own or not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    return Lasting(stream)
