"""Files: reads bytes, text, JSON or lines, or raises what is wrong with the file.

Opening a FIFO waits for its writer, and a device may never end, so what is not a regular file is
never opened. Lines may be plain, .gz or .xz; text is strict UTF-8, and nothing is repaired
silently.
"""

import codecs
import difflib
import gzip
import json
import lzma
import os
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from regard.errors import DataError

FILE_KINDS: Mapping[str, Callable[[int], bool]] = {
    "a folder": stat.S_ISDIR,
    "a FIFO": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK,
    "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
}
"""What a path may be other than a regular file."""
PACKINGS: Mapping[str, Callable[[Path], BufferedIOBase]] = {
    ".gz": gzip.GzipFile,
    ".xz": lzma.LZMAFile,
}
"""The function that opens a file with this ending; every other file is plain."""
UNPACKING = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""The errors that reading a file, packed or plain, may raise."""
MAX_NAMED_FILES = 5
"""How many names of a folder an error lists."""
CONVERT = "Convert the file, for instance with iconv -f {} -t utf-8."
"""What to do about a text of another encoding."""


class Unreadable(Exception):
    """What is wrong with a file, as words to stand behind its name: "is a FIFO; …".

    The caller adds which file it is and what the user can do.
    """


@dataclass(frozen=True)
class Broken:
    """A line that cannot be read: the check it fails, where, and the message."""

    check: str
    path: Path
    number: int
    message: str


def check_is_regular(path: Path) -> None:
    """Refuse a path that is missing or is no regular file."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise _refused(error) from error
    except ValueError as error:
        raise Unreadable("has a NUL character in its name") from error
    if not stat.S_ISREG(mode):
        kind = next(name for name, is_it in FILE_KINDS.items() if is_it(mode))
        raise Unreadable(f"is {kind}; a file was expected")


def check_is_file(path: Path) -> None:
    """The same as a DataError, which names files in the folder that are called alike."""
    if not os.path.lexists(path):
        raise DataError(f"files: there is no file '{path}'. {names_like(path)}")
    try:
        check_is_regular(path)
    except Unreadable as error:
        raise DataError(f"files: '{path}' {error}.") from error


def names_like(path: Path) -> str:
    """The names in the folder of a missing path that are similar to its own."""
    if not path.parent.is_dir():
        return f"Its folder '{path.parent}' does not exist either."
    names = sorted(entry.name for entry in path.parent.iterdir())
    near = difflib.get_close_matches(path.name, names, n=3)
    if near:
        return f"'{path.parent}' holds {', '.join(near)}."
    visible = [name for name in names if not name.startswith(".")]
    if not visible:
        return f"'{path.parent}' is empty."
    return f"'{path.parent}' holds nothing with a name like it, but {first_names(visible)}."


def first_names(names: Sequence[str]) -> str:
    """The first of some names, separated by commas."""
    more = ", …" if len(names) > MAX_NAMED_FILES else ""
    return ", ".join(names[:MAX_NAMED_FILES]) + more


def read_bytes(path: Path) -> bytes:
    """The bytes of a file."""
    check_is_regular(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise _refused(error) from error


def read_text(path: Path) -> str:
    r"""The text of a file, with "\n" at the end of each line."""
    return decoded(read_bytes(path)).replace("\r\n", "\n")


def read_json(path: Path) -> Any:
    """The value of a JSON file."""
    return parse_json(read_text(path))


def decoded(content: bytes) -> str:
    """The text that some bytes hold."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise Unreadable(f"is not UTF-8 (byte 0x{byte:02x} at offset {error.start})") from error


def is_text(text: str) -> bool:
    """Whether UTF-8 can encode a text: it cannot encode a lone surrogate (half a character)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_utf16(content: bytes) -> bool:
    """Whether a file begins as some programs of Windows write it."""
    return content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def parse_json(text: str) -> Any:
    """The value of a JSON text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(f"is not JSON ({error})") from error
    except RecursionError as error:
        raise Unreadable("is not JSON (it is nested too deeply)") from error
    except ValueError as error:
        # Python reads no number of so many digits, though JSON allows it
        raise Unreadable("is not JSON (a number has thousands of digits)") from error


def lines(path: Path) -> Iterator[str]:
    r"""The lines of a file, without their ends ("\n" or "\r\n") and otherwise unchanged.

    A byte order mark before the first line is dropped. A missing file is an error at once; a bad
    byte is an error when its line is reached.
    """
    return _strict(tolerant_lines(path))


def tolerant_lines(path: Path) -> Iterator[str | Broken]:
    """The same, with a `Broken` in the place of each line that cannot be read."""
    check_is_file(path)
    return _decoded_lines(path)


def opened(path: Path) -> BufferedIOBase:
    """A file, packed or plain, open for reading."""
    return PACKINGS[path.suffix](path) if path.suffix in PACKINGS else path.open("rb")


def _strict(found: Iterator[str | Broken]) -> Iterator[str]:
    for line in found:
        if isinstance(line, Broken):
            raise DataError(line.message)
        yield line


def _decoded_lines(path: Path) -> Iterator[str | Broken]:
    offset, number = 0, 0
    try:
        with opened(path) as file:
            for number, line in enumerate(file, 1):
                yield _decoded_line(path, number, offset, line)
                offset += len(line)
    except UNPACKING as error:
        said = (
            f"files: '{path}' cannot be read after line {number}: {error}. "
            "Fetch or pack the file again."
        )
        yield Broken("unreadable", path, number + 1, said)


def _decoded_line(path: Path, number: int, offset: int, line: bytes) -> str | Broken:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        made_as = "utf-16" if number == 1 and is_utf16(line) else "latin1"
        said = (
            f"files: '{path}', line {number}: byte 0x{line[error.start]:02x} at offset "
            f"{offset + error.start} is not UTF-8. {CONVERT.format(made_as)}"
        )
        return Broken("encoding", path, number, said)
    if number == 1 and "\r" in text.rstrip("\r\n") and not text.endswith("\n"):
        said = (
            f"files: '{path}' ends its lines with carriage returns alone, as old Macs did, so that "
            "it would be read as one line. Convert it, for instance with tr '\\r' '\\n'."
        )
        return Broken("format", path, number, said)
    # the byte order mark that some programs put before UTF-8
    text = text.removeprefix("\ufeff") if number == 1 else text
    return text[:-2] if text.endswith("\r\n") else text.removesuffix("\n")


def _refused(error: OSError) -> Unreadable:
    if isinstance(error, FileNotFoundError):
        return Unreadable("is missing")
    return Unreadable(f"cannot be read ({(error.strerror or str(error)).lower()})")
