"""Regular files: the bytes, the text and the JSON of a file, or what is wrong with it.

Opening a FIFO waits for its writer, and a device may never end, so what is not a regular file is
never opened.
"""

import json
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

KINDS: Mapping[str, Callable[[int], bool]] = {
    "a folder": stat.S_ISDIR,
    "a FIFO": stat.S_ISFIFO,
    "a socket": stat.S_ISSOCK,
    "a device": lambda mode: stat.S_ISCHR(mode) or stat.S_ISBLK(mode),
}
"""What else than a file may stand under a name."""


class Unreadable(Exception):
    """What is wrong with a file, as words to stand behind its name: "is a FIFO; …".

    The reader of the file says to the user whose file it is, and what to do.
    """


def check_is_regular(path: Path) -> None:
    """Refuse what is missing, and what is there but not a file."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise _refused(error) from error
    except ValueError as error:
        raise Unreadable("has a NUL character in its name") from error
    if not stat.S_ISREG(mode):
        kind = next(name for name, is_it in KINDS.items() if is_it(mode))
        raise Unreadable(f"is {kind}; a file was expected")


def read_bytes(path: Path) -> bytes:
    """All that a file holds."""
    check_is_regular(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise _refused(error) from error


def read_text(path: Path) -> str:
    r"""The text of a file, with "\n" at the end of each line."""
    return decoded(read_bytes(path)).replace("\r\n", "\n")


def read_json(path: Path) -> Any:
    """What a file of JSON holds."""
    return parse_json(read_text(path))


def decoded(content: bytes) -> str:
    """The text that some bytes hold."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise Unreadable(f"is not UTF-8 (byte 0x{byte:02x} at offset {error.start})") from error


def is_text(text: str) -> bool:
    """Whether UTF-8 can hold a text: it cannot hold half a character (a lone surrogate)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parse_json(text: str) -> Any:
    """What a text of JSON holds."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(f"is not JSON ({error})") from error
    except RecursionError as error:
        raise Unreadable("is not JSON (it is nested too deeply)") from error
    except ValueError as error:
        # Python reads no number of so many digits, though JSON allows it
        raise Unreadable("is not JSON (a number has thousands of digits)") from error


def _refused(error: OSError) -> Unreadable:
    if isinstance(error, FileNotFoundError):
        return Unreadable("is missing")
    return Unreadable(f"cannot be read ({(error.strerror or str(error)).lower()})")
