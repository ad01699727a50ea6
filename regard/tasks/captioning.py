"""Captioning: addresses of pictures in, captions out, whatever some of the files hold.

    address → pixels as the run was trained on them → the same search as for texts

A picture that cannot be read has an empty caption and a note that says why; the others are
captioned as if it had not been there.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import torch
from torch import Tensor

from regard.data.framings import FRAMINGS
from regard.data.pictures import read_picture
from regard.decoding import Search, Sentence
from regard.decoding.batching import decode_each
from regard.errors import DataError, RecipeError, SettingError
from regard.hardware.hardware import Hardware
from regard.inspecting.caption_record import CaptionRecord, caption_record
from regard.inspecting.record import Record
from regard.models import Captioner, CaptionerSpec, Stepper
from regard.models.captioner.album import Album
from regard.models.spec_choices import frozen_encoder
from regard.recipes.recipe import Recipe
from regard.tasks.constraint_tokens import wished
from regard.tasks.loaded import Loaded
from regard.tasks.picture_looks import PictureLooks
from regard.tasks.picture_sources import PictureSources, SeenPicture, see
from regard.tasks.predictions import AnswerOptions, Prediction, Request, WithPrecision, prediction
from regard.tasks.ready_run import ReadyRun
from regard.tasks.task import Task

PICTURES_READ_AHEAD = 512
"""How many pictures are read before the first is captioned."""
PICTURES_PER_BATCH = 64
"""How many are captioned together."""


@final
class Captioning(Task):
    """A model looks at a picture and writes what it shows."""

    does = "captions pictures"
    sources = PictureSources()
    looks = PictureLooks()
    meaningless: Mapping[str, str] = {
        "lengths": "a picture has no length, by which losses are sorted"
    }

    def check_recipe(self, recipe: Recipe) -> None:
        """Pictures are read by captioners."""
        if not isinstance(recipe.model, CaptionerSpec):
            raise RecipeError(
                f"model.task = 'captioning' needs model.kind = 'captioner', got "
                f"'{recipe.model.kind}'. Take such a model, or leave model.task out."
            )

    def plan_notes(self, recipe: Recipe) -> Iterator[str]:
        """What a trial does otherwise than a training."""
        if frozen_encoder(recipe.model) is not None:
            yield (
                "the frozen encoder looks at every picture once, before the first update; here it "
                "looked again in every update, so that the time is too long, and its annotations "
                "are not counted on disk"
            )

    def answer_each(
        self, run: ReadyRun, requests: Sequence[Request], options: AnswerOptions
    ) -> Iterator[tuple[int, Prediction]]:
        """Captions as they come, each with the place of its picture."""
        asked = [(one, wished(run.loaded, one)) for one in requests]
        return caption_each(run.stepper, run.loaded, asked, options, run.hardware)

    def has_failed(self, answer: Prediction) -> bool:
        """A picture that could not be read has no score."""
        return math.isnan(answer.score)

    def look(self, run: ReadyRun, text: str, target: str | None, search: Search | None) -> Record:
        """Refuse a text."""
        raise pictures_refusal("look")

    def look_at_picture(
        self, run: ReadyRun, address: str, target: str | None, search: Search | None
    ) -> CaptionRecord:
        """Where each word of a picture's caption looked; `target` is a caption to look at."""
        return look_at_picture(
            run.stepper,
            run.loaded,
            address,
            None if target is None else run.answer_tokens(target),
            search=search or run.default_search(),
            hardware=run.hardware,
        )

    def default_metrics(self, recipe: Recipe) -> Sequence[str]:
        """Scores of captions, the loss, and for scenes the pointing game."""
        return ("captions", "loss", "pointing")


def pictures_refusal(who: str) -> SettingError:
    """The error of work that needs the words of a source."""
    return SettingError(
        f"{who}: this run looks at pictures, but the words of a source are needed here. Take a "
        "run that reads texts."
    )


def caption_each(
    stepper: Stepper,
    loaded: Loaded,
    asked: Sequence[tuple[Request, Sentence]],
    options: AnswerOptions,
    hardware: Hardware,
) -> Iterator[tuple[int, Prediction]]:
    """Captions as they come, each with the place of its picture.

    Args:
        stepper: what writes; several models, or one.
        loaded: the run, for its recipe and its sub-words.
        asked: addresses, and what the caption of each must look like.
        options: how captions are found.
        hardware: where.
    """
    _refuse(options)
    for first in range(0, len(asked), PICTURES_READ_AHEAD):
        seen: dict[int, SeenPicture] = {}
        for place, (request, _) in enumerate(asked[first : first + PICTURES_READ_AHEAD], first):
            try:
                seen[place] = see(loaded.recipe, request.text)
            except DataError as error:
                yield place, Prediction(request.text, "", math.nan, (), note=str(error))
        if not seen:
            continue
        places = list(seen)
        pixels = torch.from_numpy(np.stack([each.pixels for each in seen.values()]))
        album = Album(stepper, _PicturesByNumber(pixels, hardware))
        sentences = [replace(asked[place][1], source=[i]) for i, place in enumerate(places)]
        found = decode_each(
            album,
            sentences,
            WithPrecision(options.search, hardware),
            batch_tokens=PICTURES_PER_BATCH,
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
class _PicturesByNumber:
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
    assert isinstance(loaded.model, Captioner)
    seen, original = see(loaded.recipe, address), read_picture(address)
    # of a scene the original is drawn larger than the model sees it
    framing = FRAMINGS[loaded.recipe.shown.framing](
        original.width, original.height, seen.framing.size
    )
    if tokens is None:
        album = Album(stepper, _PicturesByNumber(torch.from_numpy(seen.pixels)[None], hardware))
        found = WithPrecision(search, hardware)(album, [Sentence([0])], device=hardware.device)
        tokens = found[0][0].tokens
    return caption_record(loaded.model, seen.pixels, framing, original, loaded.target, list(tokens))


def _refuse(options: AnswerOptions) -> None:
    """Pictures have neither words nor a length."""
    if options.has_alignments:
        raise SettingError(
            "captions: --alignments links the words of two texts, but this run looks at pictures. "
            "Leave it out."
        )
    if options.on_long == "split":
        raise SettingError(
            "captions: --on-long split cuts texts in pieces, but this run looks at pictures. Leave "
            "it out."
        )
