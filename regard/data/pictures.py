"""Pictures: files of many makes → upright RGB pixels.

    palette, grey, CMYK      as RGB; 16 bits are brought to 8
    transparent              on white
    turned in a camera       upright, as its EXIF says
    animated                 the first frame, with a note
    damaged, no picture at all, smaller than 8 pixels, larger than 80 million: a DataError with
    the picture's name and what to do

Decoders of other makes, which may start programs or read fonts, are never asked.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, final

import numpy as np
from jaxtyping import UInt8

from regard.data.addresses import open_picture
from regard.data.scenes import SIZE, is_scene, scene_at
from regard.errors import DataError, MissingExtra

if TYPE_CHECKING:
    from PIL.Image import Image

LEAST_SIDE = 8
"""Fewer pixels show nothing."""
MOST_PIXELS = 80_000_000
"""More take too much memory; it is below the number from which Pillow speaks of bombs."""
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF", "BMP", "TIFF", "PPM")
ORIENTATION = 0x0112
"""Where EXIF keeps how a camera was held."""
UPRIGHT: Mapping[int, str] = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
"""What brings a picture of an orientation upright; those not listed are."""
QUARTER_TURNS = ("TRANSPOSE", "ROTATE_270", "TRANSVERSE", "ROTATE_90")
DEEP = ("I;16", "I;16B", "I;16L", "I;16N", "I")
"""Grey values from 0 to 65,535."""


@final
@dataclass(frozen=True)
class Picture:
    """Pixels, and the size of the picture they are of."""

    name: str
    pixels: UInt8[np.ndarray, "y x 3"]
    width: int
    """Of the whole picture, upright; `pixels` may be fewer, see `enough`."""
    height: int
    notes: tuple[str, ...] = ()
    """What a person should know, such as that only the first frame was taken."""


def read_picture(
    source: str | Path | bytes, *, enough: int | None = None, name: str = "picture"
) -> Picture:
    """Read a picture; whatever is wrong with it is a DataError with its name.

    Args:
        source: an address (addresses.py), or the bytes of a picture.
        enough: the side, in pixels, of the square that will be made of it. A large JPEG is then
            decoded to a half, a quarter or an eighth, never below twice this, and a scene is drawn
            at this size.
        name: what bytes are called in errors.
    """
    name = name if isinstance(source, bytes) else str(source)
    if is_scene(name) and not isinstance(source, bytes):
        size = enough or SIZE
        return Picture(name, scene_at(name).draw(size), size, size)
    image = pillow()
    try:
        # what Pillow would warn of becomes a note; it may come more than once
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            with BytesIO(source) if isinstance(source, bytes) else open_picture(name) as file:
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
    except Exception as error:  # decoders of damaged files raise whatever they stumble over
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
    if width * height > MOST_PIXELS:
        raise _too_large(name, f"{width:,} by {height:,}")
    if min(width, height) < LEAST_SIDE:
        raise DataError(
            f"picture: '{name}' has {width} by {height} pixels; the least is {LEAST_SIDE} by "
            f"{LEAST_SIDE}. Leave it out."
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
            f"picture: '{name}' holds real numbers, of which nobody knows which is white. Save it "
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
        f"picture: '{name}' has {size} pixels; the most is {MOST_PIXELS:,} in all. Make it smaller "
        "with a picture editor, or leave it out."
    )
