"""Pictures: addresses of files of many makes → upright RGB pixels.

    photos/dog.jpg                a file
    photos/train.zip/dog.jpg      a file inside a zip
    scene:SEED-NUMBER             no file: drawn when it is read (scenes.py)

    palette, grey, CMYK      as RGB; 16 bits are brought to 8
    transparent              on white
    turned in a camera       upright, as its EXIF says
    animated                 the first frame, with a note
    damaged, no picture at all, smaller than 8 pixels, larger than 80 million: a DataError with
    the picture's name and what to do

Pillow's other decoders, which may start programs or read fonts, are never used.
"""

import os
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedIOBase, BytesIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import UInt8

from regard.data.files import check_is_file
from regard.data.scenes import SIZE, is_scene, scene_at
from regard.errors import DataError, MissingExtra

if TYPE_CHECKING:
    from PIL.Image import Image

MIN_SIDE = 8
"""The fewest pixels along a side."""
MAX_UNPACKED = 1 << 29
"""The most bytes of a file inside a zip; a larger one is not unpacked."""
MAX_PIXELS = 80_000_000
"""The most pixels, to bound the memory; below Pillow's limit for decompression bombs."""
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF", "PPM")
ORIENTATION = 0x0112
"""The EXIF tag of the camera's orientation."""
UPRIGHT: Mapping[int, str] = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""The transposition that makes a picture of an orientation upright; others are upright already."""
QUARTER_TURNS = ("TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90")
DEEP = ("I;16", "I;16B", "I;16L", "I;16N", "I")
"""Grey values from 0 to 65,535."""


@final
@dataclass(frozen=True)
class Picture:
    """Pixels, and the size of the original picture."""

    name: str
    pixels: UInt8[np.ndarray, "y x 3"]
    width: int
    """Of the whole picture, upright; `pixels` may be fewer, see `enough`."""
    height: int
    notes: tuple[str, ...] = ()
    """Notes for the user, such as that only the first frame was taken."""


def read_picture(
    source: str | Path | bytes, *, enough: int | None = None, name: str = "picture"
) -> Picture:
    """Read a picture from an address or from bytes; anything wrong with it is a DataError.

    `enough` is the side, in pixels, of the square that will be made of it: a large JPEG is then
    decoded to a half, a quarter or an eighth, never below twice this, and a scene is drawn at this
    size. `name` stands for bytes in errors.
    """
    name = name if isinstance(source, bytes) else str(source)
    if is_scene(name) and not isinstance(source, bytes):
        size = enough or SIZE
        return Picture(name, scene_at(name).draw(size), size, size)
    image = pillow()
    try:
        # Pillow's warnings become notes; one warning may come more than once
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            with BytesIO(source) if isinstance(source, bytes) else _opened(name) as file:
                picture = _decoded(image, file, name, enough)
    except DataError:
        raise
    except image.DecompressionBombError as error:
        raise _too_large(name, "far more") from error
    except image.UnidentifiedImageError as error:
        raise DataError(
            f"picture: '{name}' is no picture that can be read; expected {', '.join(FORMATS)}. "
            "Leave it out, or save it as one of these."
        ) from error
    except Exception as error:  # decoders raise errors of many types for damaged files
        raise DataError(
            f"picture: '{name}' is damaged: {error or type(error).__name__}. Fetch it again, or "
            "leave it out."
        ) from error
    heard = dict.fromkeys(
        f"Pillow says: {one.message}"
        for one in warned
        if not issubclass(one.category, image.DecompressionBombWarning | DeprecationWarning)
    )
    pixels, width, height, notes = picture
    return Picture(name, pixels, width, height, (*notes, *heard))


def check_is_there(address: str) -> None:
    """Raise an error if a picture is missing, without reading it."""
    path, member = _located(address)
    if member:
        _member(path, member)


def pillow() -> ModuleType:
    """Pillow's `Image`, or an error that names the extra."""
    try:
        from PIL import Image
    except ImportError as missing:
        raise MissingExtra(
            "pictures: Pillow is not installed. Run pip install 'regard[captions]'."
        ) from missing
    return Image


def _decoded(
    module: ModuleType, file: Any, name: str, enough: int | None
) -> tuple[np.ndarray, int, int, list[str]]:
    module.init()
    image: Image = module.open(file, formats=[each for each in FORMATS if each in module.OPEN])
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise _too_large(name, f"{width:,} by {height:,}")
    if min(width, height) < MIN_SIDE:
        raise DataError(
            f"picture: '{name}' has {width} by {height} pixels; the least is {MIN_SIDE} by "
            f"{MIN_SIDE}. Leave it out."
        )
    is_animated = getattr(image, "is_animated", False)
    notes = ["it holds more than one picture; the first is taken"] if is_animated else []
    if enough:
        image.draft(None, (2 * enough, 2 * enough))
    image.load()
    turn = UPRIGHT.get(image.getexif().get(ORIENTATION, 1))
    image = _as_rgb(module, image, name)
    if turn:
        image = image.transpose(module.Transpose[turn])
    if turn in QUARTER_TURNS:
        width, height = height, width
    return np.array(image), width, height, notes


def _as_rgb(module: ModuleType, image: "Image", name: str) -> "Image":
    if image.mode == "F":
        raise DataError(
            f"picture: '{name}' holds real numbers, in which white may be any number. Save it "
            "with 8 or 16 bits, or leave it out."
        )
    if image.mode in DEEP:
        values = np.asarray(image).astype(np.int64).clip(0, 65_535)
        return module.fromarray(((values + 128) // 257).astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    see_through = image.convert("RGBA")
    white: Image = module.new("RGB", image.size, "white")
    white.paste(see_through, mask=see_through.getchannel("A"))
    return white


def _too_large(name: str, size: str) -> DataError:
    return DataError(
        f"picture: '{name}' has {size} pixels; the most is {MAX_PIXELS:,} in all. Make it smaller "
        "with a picture editor, or leave it out."
    )


def _opened(address: str) -> BufferedIOBase:
    path, member = _located(address)
    if not member:
        return path.open("rb")
    size = _member(path, member).file_size
    if size > MAX_UNPACKED:
        raise DataError(
            f"picture: '{address}' unpacks to {size:,} bytes; {MAX_UNPACKED:,} is the most a "
            "picture may have. Make it smaller, or leave it out."
        )
    return BytesIO(_zip(path).read(member))


def _located(address: str) -> tuple[Path, str]:
    """The file, or the zip and the name inside it."""
    if not address.strip():
        raise DataError(
            "picture: expected the address of a picture, got an empty one. Give a file, such as "
            "photos/dog.jpg."
        )
    path = Path(address)
    if not path.is_file():
        for parent in path.parents:
            if parent.is_file():
                return parent, path.relative_to(parent).as_posix()
    check_is_file(path)
    return path, ""


def _zip(path: Path) -> zipfile.ZipFile:
    # a changed file is opened again, and two processes never share a position in one
    facts = path.stat()
    return _opened_zip(path, facts.st_mtime_ns, facts.st_size, os.getpid())


# reading the directory of a zip is slow, so that a few are kept open
@lru_cache(maxsize=8)
def _opened_zip(path: Path, time: int, size: int, process: int) -> zipfile.ZipFile:
    del time, size, process
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise DataError(
            f"picture: '{path}' is a file, but no zip that could hold pictures ({error}). Give a "
            "folder or a zip."
        ) from error


def _member(path: Path, member: str) -> zipfile.ZipInfo:
    """The entry of a file inside a zip; a missing one is an error that names a similar entry."""
    found = _zip(path).NameToInfo.get(member)
    if found is not None:
        return found
    names = [name for name in _zip(path).namelist() if not name.endswith("/")]
    same = next((name for name in names if Path(name).name == Path(member).name), None)
    held = f"{len(names):,} files, the first '{names[0]}'" if names else "nothing"
    said = f"'{same}'; give that name" if same else held
    raise DataError(f"picture: '{path}' holds no '{member}'. It holds {said}.")
