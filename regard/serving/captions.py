"""Captions of uploaded pictures and of a run's examples, and where each word looked."""

from dataclasses import replace
from io import BytesIO

import numpy as np

from regard.choices import find
from regard.data.pictures import Picture, pillow
from regard.errors import DataError, SettingError
from regard.serving.lru_cache import name_of_answer
from regard.serving.published import ServedModel
from regard.serving.registry import Registry, Served
from regard.serving.schemas import Upload

MAX_SIDE = 1600
"""Pixels along the longer side of a picture that is kept for the page."""


def captioner(registry: Registry, run: str) -> Served | ServedModel:
    """A run or a model by its name, if it looks at pictures."""
    served = find(run, registry.answering, key="run")
    if served.reads != "pictures":
        raise SettingError(f"caption: '{run}' reads texts, not pictures. Take a run that captions.")
    return served


def caption_upload(
    registry: Registry, served: Served | ServedModel, upload: Upload
) -> dict[str, object]:
    """Caption an uploaded picture, in any format that the project reads."""
    if not upload.path.stat().st_size:
        raise DataError("caption: no picture was sent. Send the bytes of a file, such as a JPEG.")
    names = "your picture", "the picture that was sent"
    return _captioned(registry, served, str(upload.path), upload.mark, *names)


def caption_example(registry: Registry, served: Served, number: int) -> dict[str, object]:
    """Caption one of the pictures that `info` offers, counted from 0."""
    addresses = served.example_inputs().inputs
    if not 0 <= number < len(addresses):
        raise SettingError(f"caption: there are {len(addresses)} examples, from 0; got {number}.")
    address = addresses[number]
    title = served.trained.task.sources.title(address)
    return _captioned(registry, served, address, address, title, title)


def _captioned(
    registry: Registry,
    served: Served | ServedModel,
    address: str,
    mark: str,
    title: str,
    in_errors: str,
) -> dict[str, object]:
    """Caption a picture; answers and errors name its title, not its path on this machine."""
    try:
        found = served.look_at_picture(address)
    except DataError as error:
        raise DataError(str(error).replace(address, in_errors)) from error
    record = replace(found, picture=replace(found.picture, name=title))
    small, name = replace(record, picture=_small(record.picture)), name_of_answer(served.key, mark)
    registry.captions.put(name, lambda: small)
    return {"record": name, **record.as_json()}


def caption(registry: Registry, name: str) -> dict[str, object]:
    """A caption that was saved in a file, or that is still kept."""
    return {"record": name, **registry.caption(name).as_json()}


def picture_png(registry: Registry, name: str) -> bytes:
    """The pixels of a picture that was captioned, no more than a page shows."""
    pixels = np.ascontiguousarray(_small(registry.caption(name).picture).pixels)
    file = BytesIO()
    pillow().fromarray(pixels).save(file, format="PNG")
    return file.getvalue()


def _small(picture: Picture) -> Picture:
    """The picture with no more pixels than a page shows; its stated size stays the original's."""
    if max(picture.pixels.shape) <= MAX_SIDE:
        return picture
    image = pillow().fromarray(np.ascontiguousarray(picture.pixels))
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    return replace(picture, pixels=np.asarray(image))
