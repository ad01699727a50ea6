"""Provenance: which of the data that a run names may be shown to those who ask the server.

A run may come from a stranger, and its recipe may name any file of this machine. The lines of a
file are shown only where the maker of the run had them too: the file is part of the run, or its
content has the SHA-256 that card.md recorded when the run was made. Of a folder of pictures the
card records names and sizes.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from regard.choices import Choice
from regard.data import PICTURE_READERS, READERS, Example
from regard.errors import DataError
from regard.recipes.data_paths import data_files, examples_of
from regard.recipes.recipe import examples
from regard.training.card_json import file_hash, recorded_data


def known_examples(run: Path, choice: Choice, split: str) -> Iterator[Example]:
    """Examples of a split, if the maker of the run had them too; a DataError says why not.

    Args:
        run: its directory.
        choice: the reader or generator of the split.
        split: its name.
    """
    if choice.name not in READERS:
        # a generator reads nothing
        yield from examples(choice, split)()
        return
    found = data_files(choice, run)
    _check_known(run, found, split)
    places = (run, *(place for _, place in found))
    for one in examples_of(choice, split, run)():
        # a name in a list of pictures may lead out of their folder
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
        if not _is_within(place, (run,)) and not _holds(place, mark):
            raise DataError(f"'{name}' is neither part of the run nor what card.md records.")


def _holds(path: Path, mark: str | None) -> bool:
    return mark is not None and file_hash(path) == mark


def _is_within(path: Path, places: Sequence[Path]) -> bool:
    return any(path.resolve().is_relative_to(place.resolve()) for place in places)
