"""Picture sources: decoded once; a frozen encoder's annotations are computed once, too.

    RUN/pictures/SPLIT      each picture, decoded
    RUN/annotations/SPLIT   its annotations by a frozen encoder

A picture that cannot be read is left out, and named.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Int64, Shaped, UInt8
from torch import Tensor

from regard.data import Corpus, Example, write_corpus
from regard.data.annotation_store import AnnotationStore, write_annotations
from regard.data.augmentation import Augmentation
from regard.data.corpus import Numbering
from regard.data.framings import FRAMINGS, Framing
from regard.data.picture_store import PictureStore, write_pictures
from regard.data.pictures import read_picture
from regard.data.sources import StoredRows
from regard.data.subwords import Subwords
from regard.errors import DataError, counted
from regard.hardware.hardware import Hardware
from regard.models import Captioner, CaptionerSpec, Model, Stepper
from regard.models.captioner.network import Album
from regard.recipes.recipe import Recipe
from regard.tasks.input_format import addresses_of_file
from regard.tasks.loaded_run import LoadedRun
from regard.tasks.sources import ReadExamples, ReadLines, SourceType, Split, Tell

MANY_PICTURES = 20_000
"""Beyond so many pictures other processes help to decode them."""
MAX_NAMED_PICTURES = 3
"""How many of the pictures that could not be read, or were with a remark, are named."""
SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".png", ".gif", ".webp", ".avif", ".bmp", ".tif", ".tiff", ".ppm"}
)
"""How the pictures of a folder end."""


@final
@dataclass(frozen=True)
class SeenPicture:
    """A picture as the model's input, and the part of the original that it shows."""

    pixels: UInt8[np.ndarray, "3 size size"]
    framing: Framing
    notes: tuple[str, ...]


def see(recipe: Recipe, address: str) -> SeenPicture:
    """Read a picture by the recipe's settings; an unreadable one is a `DataError`."""
    size = captioner_spec(recipe).picture_size
    picture = read_picture(address, enough=size)
    framing = FRAMINGS[recipe.pictures_or_default.framing](picture.width, picture.height, size)
    return SeenPicture(framing.square(picture), framing, picture.notes)


@final
class PictureSources(SourceType):
    """Sources are addresses of pictures, and targets their captions."""

    name = "pictures"
    has_lengths = False

    def texts_for_vocabulary(self, example: Example) -> tuple[str, ...]:
        """The captions: a picture has no sub-words."""
        return example.targets

    def write(
        self, path: Path, split: Split, read: ReadExamples, source: Numbering, target: Numbering
    ) -> None:
        """Decode the pictures unless they are decoded; unreadable ones are left out."""
        if not _pictures(split).exists():
            addresses = list(dict.fromkeys(example.source for example in read()))
            write_pictures(
                _pictures(split),
                addresses,
                size=captioner_spec(split.recipe).picture_size,
                framing=split.recipe.pictures_or_default.framing,
                n_processes=(os.cpu_count() or 1) if len(addresses) > MANY_PICTURES else 0,
            )
        store = PictureStore.open(_pictures(split))
        refused = {one.address for one in store.refused}
        kept = (example for example in read() if example.source not in refused)
        write_corpus(path, kept, store, target, source_end=())

    def text_of(self, ids: Sequence[int], subwords: Subwords, split: Split) -> str:
        """The address of the picture."""
        addresses = {
            row: address for address, row in PictureStore.open(_pictures(split)).rows.items()
        }
        return addresses[ids[0]]

    def open(self, path: Path, split: Split) -> Corpus:
        """The corpus with the pictures of the split, augmented where it is trained on."""
        shown, store = split.recipe.pictures_or_default, PictureStore.open(_pictures(split))
        is_augmented = split.name == "train" and (shown.margin or shown.may_mirror)
        seed = split.recipe.training.seed
        how = Augmentation(seed, shown.margin, shown.may_mirror) if is_augmented else None
        return replace(Corpus.open(path), sources=StoredRows(store.pictures, how))

    def slow_steps(self, folder: Path, model: Model | None) -> Iterator[str]:
        """Decoding, and looking at each picture with a frozen encoder; both are done once."""
        if model is None and not (folder / "pictures" / "valid").exists():
            yield "decoding every picture once, into pictures/"
        if model is None or (folder / "annotations" / "valid").exists():
            return
        if _captioner(model).encoder.is_frozen:
            yield "the frozen encoder looks at every picture once; it is kept in annotations/"

    def notes(self, split: Split) -> Iterator[str]:
        """The numbers of unreadable pictures and of those with a remark; the first with reasons."""
        store, file = PictureStore.open(_pictures(split)), f"'{_pictures(split)}/pictures.json'"
        refused = [one.text for one in store.refused]
        remarked = [f"'{one.address}': {one.text}" for one in store.notes]
        for told, what in (
            (refused, ("cannot be read and are left out", "cannot be read and is left out")),
            (remarked, ("are taken with a remark", "is taken with a remark")),
        ):
            if told:
                is_one, count = len(told) == 1, counted(len(told), "picture")
                yield f"{split.name}: {count} {what[is_one]}"
                yield from (f"{split.name}: {one}" for one in told[:MAX_NAMED_PICTURES])
            if len(told) > MAX_NAMED_PICTURES:
                yield f"{split.name}: … all of them are in {file}"

    def load_published_weights(self, model: Model) -> None:
        """Give the encoder its published weights."""
        _captioner(model).encoder.load_published()

    def as_model_sees(
        self, corpus: Corpus, split: Split, model: Model, hardware: Hardware
    ) -> Corpus:
        """Annotations in place of pictures, computed once, if the encoder is frozen."""
        encoder = _captioner(model.eval()).encoder
        if not encoder.is_frozen:
            return corpus
        path = split.folder / "annotations" / split.name
        if not path.exists():
            spec = captioner_spec(split.recipe)
            write_annotations(
                path,
                PictureStore.open(_pictures(split)),
                lambda pictures: encoder(hardware.put(pictures)).float(),
                maker=f"{spec.encoder} at {spec.picture_size} pixels",
            )
        return replace(corpus, sources=StoredRows(AnnotationStore.open(path).annotations))

    def for_search(
        self, model: Model, source: Shaped[Tensor, "b ..."]
    ) -> tuple[Stepper, Int64[Tensor, "b s"]]:
        """An album of the batch's pictures, and their numbers; 0 would be padding."""
        numbers = torch.arange(1, len(source) + 1, device=source.device)
        return Album(model, lambda asked: source[asked - 1]), numbers[:, None]

    def form(self, recipe: Recipe) -> tuple[object, ...]:
        """Framing and size of the squares that are looked at."""
        return self.name, recipe.pictures_or_default, captioner_spec(recipe).picture_size

    def requests(
        self, run: LoadedRun, name: str, read_lines: ReadLines, tell: Tell
    ) -> Iterator[str]:
        """The picture itself, those of a folder in order of name, or addresses on standard input.

        For a file of captions in the run's form, the pictures that it names.
        """
        path = Path(name)
        if name == "-":
            yield from read_lines(name)
        elif path.is_dir():
            found = sorted(each for each in path.iterdir() if each.suffix.lower() in SUFFIXES)
            if not found:
                known = ", ".join(sorted(SUFFIXES))
                raise DataError(f"predict: '{name}' holds no picture ({known}).")
            yield from map(str, found)
        elif path.is_file() and path.suffix.lower() not in SUFFIXES:
            yield from addresses_of_file(run.loaded.recipe, path, run.path) or [name]
        else:
            yield name

    def typed(self, recipe: Recipe, text: str, where: str, tell: Tell) -> str:
        """The address that was typed."""
        return text

    def check_any_readable(self, recipe: Recipe, typed: Sequence[str]) -> None:
        """Refuse addresses of which none is that of a picture, with the reasons of the first."""
        reasons: list[str] = []
        for address in typed:
            try:
                see(recipe, address)
                return
            except DataError as error:
                reasons.append(str(error))
        if reasons:
            more = len(reasons) - MAX_NAMED_PICTURES
            also = [f"… and {more:,} more"] if more > 0 else []
            raise DataError(
                "predict: this run captions pictures, and nothing given is one that can be read. "
                "Give pictures.\n" + "\n".join([*reasons[:MAX_NAMED_PICTURES], *also])
            )

    def title(self, source: str) -> str:
        """The name of the picture's file."""
        return source.rpartition("/")[2]


def _pictures(split: Split) -> Path:
    return split.folder / "pictures" / split.name


def captioner_spec(recipe: Recipe) -> CaptionerSpec:
    """The spec of a run that captions; the recipe is checked for it when it is read."""
    assert isinstance(recipe.model, CaptionerSpec)
    return recipe.model


def _captioner(model: Model) -> Captioner:
    assert isinstance(model, Captioner)
    return model
