"""Example inputs for a run: some of its own data, and general sentences.

Each example can be sent unchanged and has an informative answer:

    running text    the row itself where it has no source, as the first row has none
    hidden words    a text in which one word is hidden
    parsed words    only the run's own sentences, since others have no tree

A run may come from an untrusted source, and its recipe may name any file of this machine. Lines of
a file are shown only if the maker of the run had them too: the run keeps them (examples.json), the
file is part of the run, or its content has the SHA-256 that card.md recorded when the run was made.
Of a folder of pictures the card records names and sizes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import final

from regard.choices import Choice
from regard.data import PICTURE_READERS, READERS, Example
from regard.errors import DataError, RegardError
from regard.recipes.data_paths import data_files, examples_of
from regard.recipes.recipe import examples
from regard.runs.trained import Trained
from regard.training.card_json import file_hash, recorded_data
from regard.training.kept_examples import kept_examples

N_EXAMPLES = 4
NO_EXAMPLES = "No examples of this run's data: none of them can be asked."
N_EXAMPLES_READ = 50
"""How many rows are read to find them; some may be empty or too long for the model."""
SENTENCES = (
    "A dog ate the food because it was hungry.",
    "Jane visite l'Afrique en septembre.",
    "الكلب يأكل",
    "我 很 好",
)
"""Sentences for any run that reads plain texts, whatever its training data."""


@final
@dataclass(frozen=True)
class ExampleInputs:
    """Inputs from a run's own data, or the reason why there are none."""

    inputs: tuple[str, ...]
    """Texts, or addresses of pictures."""
    why_none: str | None = None


def own_examples(trained: Trained) -> ExampleInputs:
    """Some texts or pictures of a run's validation data, if they can be read and may be shown."""
    task = trained.task
    try:
        texts = _kept(trained) or _read(trained)
    except (RegardError, OSError) as error:
        # the data may have stayed on the machine that the run was trained on
        return ExampleInputs((), f"No examples of this run's data: {error}")
    short = (
        task.as_example(trained.loaded.recipe, text)
        for text in texts
        if text.strip()
        and (not task.sources.has_lengths or trained.length(text) <= trained.longest)
    )
    found = tuple(islice(dict.fromkeys(short), N_EXAMPLES))
    return ExampleInputs(found, None if found else NO_EXAMPLES)


def _kept(trained: Trained) -> list[str]:
    """The inputs that the run keeps; of pictures those that lie in the run, and no others."""
    kept = kept_examples(trained.home)
    if trained.task.sources.has_lengths:
        return kept
    pictures = (trained.home / address for address in kept)
    return [str(each) for each in pictures if _is_within(each, (trained.home,)) and each.is_file()]


def _read(trained: Trained) -> list[str]:
    """The first inputs of the validation data, as far as they may be shown."""
    known = _known_examples(trained.home, trained.loaded.recipe.data.valid, "valid")
    found = islice(known, N_EXAMPLES_READ)
    return [one.source if one.source.strip() else one.targets[0] for one in found]


def other_examples(trained: Trained) -> list[str]:
    """General sentences; none for a run that does not read plain texts."""
    task = trained.task
    if not task.takes_any_text(trained.loaded.recipe):
        return []
    return [task.as_example(trained.loaded.recipe, sentence) for sentence in SENTENCES]


def _known_examples(run: Path, choice: Choice, split: str) -> Iterator[Example]:
    """Examples of a split; a `DataError` if the maker of the run may not have had them."""
    if choice.name not in READERS:
        # a generator reads no files
        yield from examples(choice, split)()
        return
    found = data_files(choice, run)
    _check_known(run, found, split)
    places = (run, *(place for _, place in found))
    for one in examples_of(choice, split, run)():
        # a path in a list of pictures may point outside their folder
        if choice.name in PICTURE_READERS and not _is_within(Path(one.source), places):
            name = Path(one.source).name
            raise DataError(f"'{name}' is neither in the run nor in its folder of pictures.")
        yield one


def _check_known(run: Path, found: Sequence[tuple[Path, Path]], split: str) -> None:
    """Refuse files that were not found, and those that the maker of the run may not have had."""
    if not found:
        raise DataError("its data are not files of this machine.")
    recorded = [file.sha256 for file in recorded_data(run) if file.split == split]
    for (name, place), mark in zip_longest(found, recorded[: len(found)]):
        if not place.exists():
            raise DataError(f"'{name}' is not on this machine.")
        if not _is_within(place, (run,)) and (mark is None or file_hash(place) != mark):
            raise DataError(f"'{name}' is neither part of the run nor what card.md records.")


def _is_within(path: Path, places: Sequence[Path]) -> bool:
    return any(path.resolve().is_relative_to(place.resolve()) for place in places)
