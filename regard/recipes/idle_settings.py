"""Idle settings: finds settings of a recipe that can have no effect, each with its remedy."""

import filecmp
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.choices import Choice
from regard.data import READERS
from regard.recipes.data_paths import path_or_unchanged, paths_of, reader_settings
from regard.recipes.recipe import DataRecipe, Recipe

FORM_SETTINGS = frozenset(
    {"normalise", "words", "every", "context", "line_end", "max_words", "has_trees", "keeps_spaces"}
)
"""Settings of readers that choose the form of texts, such as cutting and normalisation."""


def idle_settings(recipe: Recipe, run: Path | None = None) -> Iterator[str]:
    """Sentences for the user; files are searched for as `run` finds them."""
    training = recipe.training
    update, batch = training.target_tokens_per_update, training.target_tokens_per_batch
    if update < batch:
        yield (
            f"training.target_tokens_per_update = {update} changes nothing: an update learns from "
            "whole batches, one at least, and a batch holds up to training.target_tokens_per_batch "
            f"= {batch}. Set target_tokens_per_batch = {update}, or leave the other out."
        )
    if training.warmup_steps > training.steps:
        yield (
            f"training.warmup_steps = {training.warmup_steps} is longer than the training "
            f"(training.steps = {training.steps}): the learning rate only rises, and never "
            "reaches its peak. Lower warmup_steps, to a tenth of the steps for instance, or train "
            "longer."
        )
    if validates_on_training_data(recipe.data, run):
        yield (
            "data.valid reads what data.train reads: the validations say how well the training "
            "examples are remembered, and nothing of others. Give data.valid files of its own."
        )


def validates_on_training_data(data: DataRecipe, run: Path | None) -> bool:
    """Whether both splits read the same files, or copies of them; generated splits never do."""
    if data.train.name != data.valid.name or data.train.name not in READERS:
        return False
    train, valid = _what_is_read(data.train, run), _what_is_read(data.valid, run)
    return train.keys() == valid.keys() and all(_is_same(train[key], valid[key]) for key in train)


def _what_is_read(choice: Choice, run: Path | None) -> dict[str, Any]:
    """The settings that choose a reader's data, with the paths at which its files are found."""
    settings = reader_settings(choice)
    files = {
        name: tuple(path if run is None else path_or_unchanged(path, run) for path in paths)
        for name, paths in paths_of(choice).items()
    }
    return {name: files.get(name, settings[name]) for name in settings.keys() - FORM_SETTINGS}


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if not isinstance(one, Path) or not isinstance(other, Path):
        return bool(one == other)
    if one.is_dir() and other.is_dir() and one.resolve() != other.resolve():
        names, others = (sorted(path.name for path in folder.iterdir()) for folder in (one, other))
        return names == others and all(_is_same(one / name, other / name) for name in names)
    if one.is_file() and other.is_file():
        return filecmp.cmp(one, other, shallow=False)
    return one.resolve() == other.resolve()
