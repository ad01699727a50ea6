"""Captions: a picture that somebody sent, or one of the run's own, and where each word looked."""

from dataclasses import replace
from io import BytesIO

import numpy as np

from regard.data.pictures import Picture, pillow
from regard.errors import DataError, SettingError
from regard.inspecting.caption_record import CaptionRecord
from regard.serving.lru_cache import name_of_answer
from regard.serving.registry import Registry, Served
from regard.serving.turns import held
from regard.serving.uploads import Upload
from regard.serving.watched_search import WatchedSearch

MOST_SIDE = 1600
"""Pixels along the longer side of a picture that is kept for the page."""


def captioner(registry: Registry, run: str) -> Served:
    """A run by its name, if it captions pictures."""
    served = registry.run(run)
    if served.reads != "pictures":
        raise SettingError(f"caption: '{run}' reads texts, not pictures. Take a run that captions.")
    return served


def caption_upload(registry: Registry, served: Served, upload: Upload) -> dict[str, object]:
    """Caption a picture that was sent.

    Args:
        registry: all that is served.
        served: a run that captions pictures.
        upload: the picture's file, of any make that the project reads.
    """
    if upload.is_empty:
        raise DataError("caption: no picture was sent. Send the bytes of a file, such as a JPEG.")
    try:
        record = _looked(served, str(upload.path))
    except DataError as error:
        # the sender does not know the name that the file has here
        said = str(error).replace(str(upload.path), "the picture that was sent")
        raise DataError(said) from error
    own = replace(record, picture=replace(record.picture, name="your picture"))
    return _kept(registry, name_of_answer(served.name, upload.mark), own)


def caption_example(registry: Registry, served: Served, number: int) -> dict[str, object]:
    """Caption one of the pictures that `info` offers.

    Args:
        registry: all that is served.
        served: a run that captions pictures.
        number: of the example, counted from 0.
    """
    offered = served.offer.examples
    if not 0 <= number < len(offered):
        raise SettingError(f"caption: there are {len(offered)} examples, from 0; got {number}.")
    address = offered[number]
    name = served.trained.task.sources.title(address)
    try:
        record = _looked(served, address)
    except DataError as error:
        raise DataError(str(error).replace(address, name)) from error
    named = replace(record, picture=replace(record.picture, name=name))
    return _kept(registry, name_of_answer(served.name, address), named)


def caption(registry: Registry, name: str) -> dict[str, object]:
    """A caption that was saved in a file, or that is still kept."""
    return {"record": name, **registry.caption(name).as_json()}


def picture_png(registry: Registry, name: str) -> bytes:
    """The pixels of a picture that was captioned, no more than a page shows."""
    pixels = np.ascontiguousarray(_small(registry.caption(name).picture).pixels)
    file = BytesIO()
    pillow().fromarray(pixels).save(file, format="PNG")
    return file.getvalue()


def _looked(served: Served, address: str) -> CaptionRecord:
    search = WatchedSearch(served.trained.default_search(), served.busy)
    with held(served.busy):
        return served.trained.look_at_picture(address, search=search)


def _kept(registry: Registry, name: str, record: CaptionRecord) -> dict[str, object]:
    registry.captions.put(name, replace(record, picture=_small(record.picture)))
    return {"record": name, **record.as_json()}


def _small(picture: Picture) -> Picture:
    """With no more pixels than a page shows; its size stays that of the whole picture."""
    if max(picture.pixels.shape) <= MOST_SIDE:
        return picture
    image = pillow().fromarray(np.ascontiguousarray(picture.pixels))
    image.thumbnail((MOST_SIDE, MOST_SIDE))
    return replace(picture, pixels=np.asarray(image))
