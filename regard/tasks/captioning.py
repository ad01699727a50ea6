"""Captioning: addresses of pictures in, captions out, whatever some of the files hold.

    address → pixels as the run was trained on them → the same search as for texts

A picture that cannot be read has an empty caption and a note that says why; the others are
captioned as if it had not been there.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from regard.data.framings import FRAMINGS, Framing
from regard.data.pictures import read_picture
from regard.decoding import Search, Sentence
from regard.decoding.batching import decode_each
from regard.errors import DataError, SettingError
from regard.hardware.hardware import Hardware
from regard.inspecting.caption_record import CaptionRecord, caption_record
from regard.models import Captioner, CaptionerSpec, Stepper
from regard.models.captioner.album import Album
from regard.recipes.recipe import Recipe
from regard.tasks.loaded import Loaded
from regard.tasks.predictions import Prediction, Request, Wishes, WithPrecision, prediction

AT_ONCE = 512
"""How many pictures are read before the first is captioned."""
TOGETHER = 64
"""How many are captioned together."""


@final
@dataclass(frozen=True)
class SeenPicture:
    """A picture as a run looks at it, and which part of the original that is."""

    pixels: UInt8[np.ndarray, "3 size size"]
    framing: Framing
    notes: tuple[str, ...]


def see(recipe: Recipe, address: str) -> SeenPicture:
    """Read a picture as the pictures of the recipe were read; what cannot be is a DataError."""
    size = picture_size(recipe)
    picture = read_picture(address, enough=size)
    framing = FRAMINGS[recipe.shown.framing](picture.width, picture.height, size)
    return SeenPicture(framing.square(picture), framing, picture.notes)


def picture_size(recipe: Recipe) -> int:
    """Pixels along the side of the squares that a run looks at; 0 if it reads texts."""
    return recipe.model.picture_size if isinstance(recipe.model, CaptionerSpec) else 0


def caption_each(
    stepper: Stepper,
    loaded: Loaded,
    asked: Sequence[tuple[Request, Sentence]],
    wishes: Wishes,
    hardware: Hardware,
) -> Iterator[tuple[int, Prediction]]:
    """Captions as they come, each with the place of its picture.

    Args:
        stepper: what writes; several models, or one.
        loaded: the run, for its recipe and its sub-words.
        asked: addresses, and what the caption of each must look like.
        wishes: how captions are found.
        hardware: where.
    """
    _refuse(wishes)
    for first in range(0, len(asked), AT_ONCE):
        seen: dict[int, SeenPicture] = {}
        for place, (request, _) in enumerate(asked[first : first + AT_ONCE], first):
            try:
                seen[place] = see(loaded.recipe, request.text)
            except DataError as error:
                yield place, Prediction(request.text, "", math.nan, (), note=str(error))
        if not seen:
            continue
        places = list(seen)
        pixels = torch.from_numpy(np.stack([each.pixels for each in seen.values()]))
        album = Album(stepper, _Shelf(pixels, hardware))
        sentences = [replace(asked[place][1], source=[i]) for i, place in enumerate(places)]
        found = decode_each(
            album,
            sentences,
            WithPrecision(wishes.search, hardware),
            batch_tokens=TOGETHER,
            device=hardware.device,
        )
        for number, hypotheses in found:
            place = places[number]
            said = prediction(
                asked[place][0].text,
                hypotheses,
                loaded.target,
                lambda one: loaded.target.decode(one.tokens),
            )
            notes = [*seen[place].notes, *([said.note] if said.note else [])]
            yield place, replace(said, note="; ".join(notes) or None)


@final
@dataclass(frozen=True)
class _Shelf:
    """Pictures by their numbers, brought to where they are looked at."""

    pixels: Tensor
    hardware: Hardware

    def __call__(self, numbers: Tensor) -> Tensor:
        return self.hardware.put(self.pixels[numbers.cpu()])


def look_at_picture(
    stepper: Stepper,
    loaded: Loaded,
    address: str,
    tokens: Sequence[int] | None,
    *,
    search: Search,
    hardware: Hardware,
) -> CaptionRecord:
    """Where the run looked for each word of a caption.

    Args:
        stepper: what writes.
        loaded: the run.
        address: of the picture.
        tokens: a caption to look at; the run's own unless given.
        search: how its own is found.
        hardware: where.
    """
    if not isinstance(loaded.model, Captioner):
        raise SettingError(
            "look: this run reads texts, but a picture was given. Give it a text to read."
        )
    seen, original = see(loaded.recipe, address), read_picture(address)
    # of a scene the original is drawn larger than the model sees it
    framing = FRAMINGS[loaded.recipe.shown.framing](
        original.width, original.height, seen.framing.size
    )
    if tokens is None:
        album = Album(stepper, _Shelf(torch.from_numpy(seen.pixels)[None], hardware))
        found = WithPrecision(search, hardware)(album, [Sentence([0])], device=hardware.device)
        tokens = found[0][0].tokens
    return caption_record(loaded.model, seen.pixels, framing, original, loaded.target, list(tokens))


def _refuse(wishes: Wishes) -> None:
    """Pictures have neither words nor a length."""
    if wishes.has_alignments:
        raise SettingError(
            "captions: --alignments links the words of two texts, but this run looks at pictures. "
            "Leave it out."
        )
    if wishes.on_long == "split":
        raise SettingError(
            "captions: --on-long split cuts texts in pieces, but this run looks at pictures. Leave "
            "it out."
        )
