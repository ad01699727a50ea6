"""Idle settings: settings of a recipe that have no effect, or spoil it, each with its remedy."""

import filecmp
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.choices import Choice
from regard.data import READERS
from regard.errors import counted
from regard.recipes.data_paths import path_or_unchanged, paths_of, reader_settings
from regard.recipes.recipe import HELD_OUT, DataRecipe, Recipe
from regard.recipes.training_recipe import TrainingRecipe

FORM_SETTINGS = frozenset(
    {"normalise", "words", "every", "context", "line_end", "max_words", "has_trees", "keeps_spaces"}
)
"""Settings of readers that choose the form of texts, such as cutting and normalisation."""
HIGH_RATE, HIGH_DROPOUT = 0.1, 0.5
"""From this rate on, and above this dropout, a note tells what is usual."""
LOW_RATES = {"sgd": 0.01, "adadelta": 0.01}
"""Below this rate of an optimiser a note tells what is usual."""


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
    yield from _never_reached(training)
    yield from _extreme(recipe)
    if validates_on_training_data(recipe.data, run):
        yield (
            "data.valid reads what data.train reads: the validations say how well the training "
            "examples are remembered, and nothing of others. Give data.valid files of its own."
        )


def _never_reached(training: TrainingRecipe) -> Iterator[str]:
    """Notes on what is to happen after the last update."""
    steps, validations = training.steps, math.ceil(training.steps / training.validate_every)
    late = [name for name in ("validate_every", "checkpoint_every") if vars(training)[name] > steps]
    if late:
        settings = " and ".join(f"training.{name} = {vars(training)[name]}" for name in late)
        does = {"validate_every": "is validated", "checkpoint_every": "has a checkpoint"}
        said = " and ".join(does[name] for name in late)
        yield (
            f"{settings}: more than the training has updates (training.steps = {steps}), so that "
            f"the model {said} at the end alone. Take a tenth of the steps for instance."
        )
    if training.patience >= validations > 0:
        yield (
            f"training.patience = {training.patience} never ends this training early: it has "
            f"{counted(validations, 'validation')}. Lower patience or validate_every, or leave it "
            "out."
        )
    made = math.ceil(steps / training.checkpoint_every)
    if training.average_last > made:
        yield (
            f"training.average_last = {training.average_last}: the training makes "
            f"{counted(made, 'checkpoint')}, and the final weights are the mean of no more. Lower "
            "checkpoint_every or average_last."
        )


def _extreme(recipe: Recipe) -> Iterator[str]:
    """Notes on numbers with which hardly any model learns."""
    training, rate = recipe.training, recipe.training.learning_rate
    if rate == 0:
        yield "training.learning_rate = 0: no weight will change. Give one, such as 0.001."
    elif rate >= HIGH_RATE and training.schedule != "noam" and training.optimiser.name == "adam":
        yield (
            f"training.learning_rate = {rate:g} is very high: Adam moves every weight by about so "
            "much in an update. Usual are 0.0001 to 0.003."
        )
    if training.optimiser.name in LOW_RATES and 0 < rate < LOW_RATES[training.optimiser.name]:
        yield (
            f"training.learning_rate = {rate:g} is very low for {training.optimiser.name}, whose "
            "updates are not scaled as Adam's are. Usual are 0.1 to 1."
        )
    dropout = float(vars(recipe.model).get("dropout", 0.0))
    if dropout > HIGH_DROPOUT:
        yield (
            f"model.dropout = {dropout:g} leaves out {100 * dropout:.0f} % of what every layer "
            "gives: little is learned. Usual are 0 to 0.3."
        )
    if training.r_drop and "dropout" in vars(recipe.model) and not dropout:
        yield (
            f"training.r_drop = {training.r_drop:g} changes nothing without dropout: both passes "
            "are the same, and take twice the time. Set model.dropout, or r_drop = 0."
        )


def validates_on_training_data(data: DataRecipe, run: Path | None) -> bool:
    """Whether both splits read the same files, or copies of them; generated splits never do."""
    if data.train.name != data.valid.name or data.train.name not in READERS:
        return False
    if reader_settings(data.train).get(HELD_OUT):
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
