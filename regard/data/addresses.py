"""Addresses of pictures: where the bytes of one are found.

photos/dog.jpg                a file
photos/train.zip/dog.jpg      a file inside a zip
scene:SEED-NUMBER             no file at all: drawn when it is asked for (scenes.py)
"""

import os
import zipfile
from functools import lru_cache
from io import BufferedIOBase, BytesIO
from pathlib import Path

from regard.data.files import check_is_file
from regard.errors import DataError

MOST_BYTES = 1 << 29
"""A larger file inside a zip is not unpacked."""
KEPT_OPEN = 8
"""How many zips are kept open, since finding out what one holds takes long."""


def open_picture(address: str) -> BufferedIOBase:
    """The file of a picture, open for reading."""
    path, member = _located(address)
    if not member:
        return path.open("rb")
    packed = _zip(path)
    if member not in packed.NameToInfo:
        raise DataError(_not_in_zip(path, member))
    size = packed.getinfo(member).file_size
    if size > MOST_BYTES:
        raise DataError(
            f"picture: '{address}' unpacks to {size:,} bytes; {MOST_BYTES:,} is the most a picture "
            "may have. Make it smaller, or leave it out."
        )
    return BytesIO(packed.read(member))


def check_is_there(address: str) -> None:
    """Say that a picture is missing; nothing of it is read."""
    path, member = _located(address)
    if member and member not in _zip(path).NameToInfo:
        raise DataError(_not_in_zip(path, member))


def _located(address: str) -> tuple[Path, str]:
    """The file, or the zip and the name inside it."""
    path = Path(address)
    if not path.is_file():
        for parent in path.parents:
            if parent.is_file():
                return parent, path.relative_to(parent).as_posix()
    check_is_file(path)
    return path, ""


def _zip(path: Path) -> zipfile.ZipFile:
    # a file that was written anew is opened anew, and two processes never share a place in one
    facts = path.stat()
    return _opened(path, facts.st_mtime_ns, facts.st_size, os.getpid())


@lru_cache(maxsize=KEPT_OPEN)
def _opened(path: Path, time: int, size: int, process: int) -> zipfile.ZipFile:
    del time, size, process
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise DataError(
            f"picture: '{path}' is a file, but no zip that could hold pictures ({error}). Give a "
            "folder or a zip."
        ) from error


def _not_in_zip(path: Path, member: str) -> str:
    names = [name for name in _zip(path).namelist() if not name.endswith("/")]
    same = next((name for name in names if Path(name).name == Path(member).name), None)
    if same:
        return f"picture: '{path}' holds no '{member}'. It holds '{same}'; give that name."
    held = f"{len(names):,} files, the first '{names[0]}'" if names else "nothing"
    return f"picture: '{path}' holds no '{member}'. It holds {held}."
