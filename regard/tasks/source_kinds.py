"""What a model reads, texts or pictures, and all that training does differently for either.

texts       the source has sub-words of its own, or shares the target's
pictures    RUN/pictures/SPLIT holds each picture once, decoded; RUN/annotations/SPLIT what a
frozen encoder made of it. A picture that cannot be read is left out, and named.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, cast, final, runtime_checkable

import torch
from jaxtyping import Int64, Shaped
from torch import Tensor

from regard.data import Corpus, Example, write_corpus
from regard.data.annotation_store import AnnotationStore, write_annotations
from regard.data.captioned import captions_in_form
from regard.data.corpus import Numbering
from regard.data.normalisation import in_form
from regard.data.picture_store import PictureStore, write_pictures
from regard.data.sources import AnnotationRows, Augmenting, PictureNumbers, PictureRows
from regard.data.tree_ids import for_files
from regard.errors import SettingError
from regard.hardware.hardware import Hardware
from regard.layers.vision import ImageEncoder
from regard.models import Captioner, CaptionerSpec, Model, Stepper
from regard.models.captioner.album import Album
from regard.recipes.recipe import Recipe

MANY = 20_000
"""Beyond so many pictures other processes help to decode them."""
NAMED = 3
"""How many of the pictures that could not be read, or were with a remark, are named."""

Read = Callable[[], Iterable[Example]]


@final
@dataclass(frozen=True)
class Place:
    """A split of a recipe's data, and the folder of what is made of it."""

    recipe: Recipe
    folder: Path
    split: str


@runtime_checkable
class SourceKind(Protocol):
    """How sources are prepared for a model."""

    def spoken(self, example: Example) -> tuple[str, ...]:
        """The texts of an example that shared sub-words are learned from."""

    def formed(self, name: str | None, examples: Iterable[Example]) -> Iterator[Example]:
        """Examples whose texts are in the form of this name."""

    def write(
        self, path: Path, place: Place, read: Read, source: Numbering, target: Numbering
    ) -> None:
        """Encode a split into a new corpus."""

    def open(self, path: Path, place: Place) -> Corpus:
        """A corpus that was written."""

    def coming(self, folder: Path, model: Model | None) -> Iterator[str]:
        """What will take long: before anything is made, and with the model at hand."""

    def notes(self, place: Place) -> Iterator[str]:
        """What a person should know about a split."""

    def first_weights(self, model: Model) -> None:
        """Give a new model the weights that somebody published, where it asks for them."""

    def seen(self, corpus: Corpus, place: Place, model: Model, hardware: Hardware) -> Corpus:
        """The corpus as the model reads it, once it has its first weights."""

    def asked(
        self, model: Model, source: Shaped[Tensor, "b ..."]
    ) -> tuple[Stepper, Int64[Tensor, "b s"]]:
        """What a search takes for the source of a batch."""


@final
class Texts:
    """Sources are texts."""

    def spoken(self, example: Example) -> tuple[str, ...]:
        """Both sides."""
        return (example.source, *example.targets)

    def formed(self, name: str | None, examples: Iterable[Example]) -> Iterator[Example]:
        """Both sides."""
        return in_form(name, examples)

    def write(
        self, path: Path, place: Place, read: Read, source: Numbering, target: Numbering
    ) -> None:
        """Both sides as sub-words."""
        write_corpus(path, read(), for_files(source), for_files(target))

    def open(self, path: Path, place: Place) -> Corpus:
        """As it is."""
        return Corpus.open(path)

    def coming(self, folder: Path, model: Model | None) -> Iterator[str]:
        """Nothing."""
        return iter(())

    def notes(self, place: Place) -> Iterator[str]:
        """Nothing."""
        return iter(())

    def first_weights(self, model: Model) -> None:
        """It has them."""

    def seen(self, corpus: Corpus, place: Place, model: Model, hardware: Hardware) -> Corpus:
        """As it is."""
        return corpus

    def asked(
        self, model: Model, source: Shaped[Tensor, "b ..."]
    ) -> tuple[Stepper, Int64[Tensor, "b s"]]:
        """The model and its tokens."""
        return model, source


@final
class Pictures:
    """Sources are addresses of pictures, and targets their captions."""

    def spoken(self, example: Example) -> tuple[str, ...]:
        """The captions alone."""
        return example.targets

    def formed(self, name: str | None, examples: Iterable[Example]) -> Iterator[Example]:
        """The captions alone: an address stays as it is."""
        return captions_in_form(name, examples)

    def write(
        self, path: Path, place: Place, read: Read, source: Numbering, target: Numbering
    ) -> None:
        """Decode the pictures if that was not done; those that were refused are left out."""
        store = self._store(place, read)
        refused = {one.address for one in store.refused}
        kept = (example for example in read() if example.source not in refused)
        write_corpus(path, kept, PictureNumbers(store), target, source_end=())

    def open(self, path: Path, place: Place) -> Corpus:
        """With the pictures of the split, augmented where it is trained on."""
        shown, store = place.recipe.shown, PictureStore.open(_pictures(place))
        is_augmented = place.split == "train" and (shown.margin or shown.may_mirror)
        seed = place.recipe.training.seed
        how = Augmenting(seed, shown.margin, shown.may_mirror) if is_augmented else None
        return replace(Corpus.open(path), sources=PictureRows(store, how))

    def coming(self, folder: Path, model: Model | None) -> Iterator[str]:
        """Decoding, and looking at each picture with a frozen encoder; both are done once."""
        if model is None and not (folder / "pictures" / "valid").exists():
            yield "decoding every picture once, into pictures/"
        if model is None or (folder / "annotations" / "valid").exists():
            return
        if cast(ImageEncoder, _captioner(model).encoder).is_frozen:
            yield "the frozen encoder looks at every picture once; it is kept in annotations/"

    def notes(self, place: Place) -> Iterator[str]:
        """How many pictures could not be read, or were with a remark; the first with reasons."""
        store, file = PictureStore.open(_pictures(place)), f"'{_pictures(place)}/pictures.json'"
        refused = [one.text for one in store.refused]
        remarked = [f"'{one.address}': {one.text}" for one in store.notes]
        for said, what in (
            (refused, "cannot be read and are left out"),
            (remarked, "are taken with a remark"),
        ):
            if said:
                yield f"{place.split}: {len(said):,} pictures {what}"
                yield from (f"{place.split}: {one}" for one in said[:NAMED])
            if len(said) > NAMED:
                yield f"{place.split}: … all of them are in {file}"

    def first_weights(self, model: Model) -> None:
        """Those of the encoder."""
        cast(ImageEncoder, _captioner(model).encoder).load_published()

    def seen(self, corpus: Corpus, place: Place, model: Model, hardware: Hardware) -> Corpus:
        """Annotations in place of pictures, computed once, if the encoder is frozen."""
        encoder = cast(ImageEncoder, _captioner(model.eval()).encoder)
        if not encoder.is_frozen:
            return corpus
        path = place.folder / "annotations" / place.split
        if not path.exists():
            spec = _spec(place.recipe)
            write_annotations(
                path,
                PictureStore.open(_pictures(place)),
                lambda pictures: encoder(hardware.put(pictures)).float(),
                maker=f"{spec.encoder} at {spec.picture_size} pixels",
            )
        return replace(corpus, sources=AnnotationRows(AnnotationStore.open(path)))

    def asked(
        self, model: Model, source: Shaped[Tensor, "b ..."]
    ) -> tuple[Stepper, Int64[Tensor, "b s"]]:
        """An album of the batch's pictures, and their numbers; 0 would be padding."""
        numbers = torch.arange(1, len(source) + 1, device=source.device)
        return Album(model, lambda asked: source[asked - 1]), numbers[:, None]

    def _store(self, place: Place, read: Read) -> PictureStore:
        path = _pictures(place)
        if path.exists():
            return PictureStore.open(path)
        addresses = list(dict.fromkeys(example.source for example in read()))
        return write_pictures(
            path,
            addresses,
            size=_spec(place.recipe).picture_size,
            framing=place.recipe.shown.framing,
            n_processes=(os.cpu_count() or 1) if len(addresses) > MANY else 0,
        )


SOURCE_KINDS: Mapping[str, SourceKind] = {"texts": Texts(), "pictures": Pictures()}
"""By what `Recipe.source_kind` says."""


def source_kind(recipe: Recipe) -> SourceKind:
    """How the sources of a recipe are prepared."""
    return SOURCE_KINDS[recipe.source_kind]


def check_reads_texts(recipe: Recipe, who: str) -> None:
    """Refuse a run that looks at pictures, for work that needs the words of a source."""
    if recipe.source_kind != "texts":
        raise SettingError(
            f"{who}: this run looks at pictures, but the words of a source are needed here. Take a "
            "run that reads texts."
        )


def _pictures(place: Place) -> Path:
    return place.folder / "pictures" / place.split


def _spec(recipe: Recipe) -> CaptionerSpec:
    assert isinstance(recipe.model, CaptionerSpec)
    return recipe.model


def _captioner(model: Model) -> Captioner:
    assert isinstance(model, Captioner)
    return model
