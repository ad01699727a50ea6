"""Text files as lines: plain, .gz or .xz, strict UTF-8, nothing repaired in silence.

file → lines, or a `Broken` for each line that cannot be read
"""

import codecs
import difflib
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path

from regard.data.regular_files import Unreadable, check_is_regular
from regard.errors import DataError


def _plain(path: Path) -> BufferedIOBase:
    return path.open("rb")


PACKINGS: Mapping[str, Callable[[Path], BufferedIOBase]] = {
    ".gz": gzip.GzipFile,
    ".xz": lzma.LZMAFile,
}
"""How a file that ends so is opened; every other file is plain."""

UNPACKING = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What reading a file, packed or plain, may end with."""


CONVERT = "Convert the file, for instance with iconv -f {} -t utf-8."
"""What to do about a text of another encoding."""


@dataclass(frozen=True)
class Broken:
    """A line that cannot be read: the check it fails, where, and the sentence for it."""

    check: str
    path: Path
    number: int
    message: str


def lines(path: Path) -> Iterator[str]:
    r"""The lines of a file, without their ends ("\n" or "\r\n") and otherwise as they are.

    A mark of the byte order before the first is no part of it.

    A file that is missing is an error at once; a bad byte is one when its line is reached.
    """
    return _strict(tolerant_lines(path))


def tolerant_lines(path: Path) -> Iterator[str | Broken]:
    """The same, with a `Broken` in the place of each line that cannot be read."""
    check_is_file(path)
    return _decoded(path)


def _strict(found: Iterator[str | Broken]) -> Iterator[str]:
    for line in found:
        if isinstance(line, Broken):
            raise DataError(line.message)
        yield line


def _decoded(path: Path) -> Iterator[str | Broken]:
    offset, number = 0, 0
    try:
        with PACKINGS.get(path.suffix, _plain)(path) as file:
            for number, line in enumerate(file, 1):
                yield _text(path, number, offset, line)
                offset += len(line)
    except UNPACKING as error:
        said = (
            f"files: '{path}' cannot be read after line {number}: {error}. "
            "Fetch or pack the file again."
        )
        yield Broken("unreadable", path, number + 1, said)


def _text(path: Path, number: int, offset: int, line: bytes) -> str | Broken:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        made_as = "utf-16" if number == 1 and is_utf16(line) else "latin1"
        said = (
            f"files: '{path}', line {number}: byte 0x{line[error.start]:02x} at offset "
            f"{offset + error.start} is not UTF-8. {CONVERT.format(made_as)}"
        )
        return Broken("encoding", path, number, said)
    # what some programs put before a text to say that it is UTF-8
    text = text.removeprefix("\ufeff") if number == 1 else text
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")


def is_utf16(content: bytes) -> bool:
    """Whether a file begins as some programs of Windows write it."""
    return content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def check_is_file(path: Path) -> None:
    """Say that a file is missing, and which names in its folder are like it."""
    if not os.path.lexists(path):
        raise DataError(f"files: there is no file '{path}'. {names_like(path)}")
    try:
        check_is_regular(path)
    except Unreadable as error:
        raise DataError(f"files: '{path}' {error}.") from error


def names_like(path: Path) -> str:
    """What lies where something was looked for, under a name like its own."""
    if not path.parent.is_dir():
        return f"Its folder '{path.parent}' does not exist either."
    names = sorted(entry.name for entry in path.parent.iterdir())
    near = difflib.get_close_matches(path.name, names, n=3)
    if near:
        return f"'{path.parent}' holds {', '.join(near)}."
    return f"'{path.parent}' holds nothing with a name like it."
