"""Labelling: whether each text comes with the labels that a model of labels asks for."""

import numpy as np

from regard.data.corpus import Corpus
from regard.errors import LengthError
from regard.models import EncoderSpec
from regard.recipes.recipe import Recipe

PER = {"tags": "for each token", "label": "for the whole text"}
"""What has one label, by the model's task."""


def says_labels(recipe: Recipe) -> bool:
    """Whether the model of a recipe says labels, as many as the text has places for."""
    return isinstance(recipe.model, EncoderSpec) and recipe.model.task in PER


def labels_whole_texts(recipe: Recipe) -> bool:
    """Whether it says one label of a text."""
    return isinstance(recipe.model, EncoderSpec) and recipe.model.task == "label"


def check_labels(recipe: Recipe, corpus: Corpus, rows: np.ndarray, name: str) -> None:
    """Refuse rows with another number of labels than their text has; the end token is no label.

    Args:
        recipe: of the model.
        corpus: where the rows are.
        rows: which of them.
        name: what an error calls them, such as data.train.
    """
    if not isinstance(recipe.model, EncoderSpec) or not says_labels(recipe):
        return
    task, texts, labels = (
        recipe.model.task, corpus.source_lengths[rows] - 1, corpus.target_lengths[rows] - 1
    )  # fmt: skip
    asked = {"tags": texts, "label": np.ones_like(texts)}[task]
    wrong = np.flatnonzero(labels != asked)
    if len(wrong):
        first = wrong[0]
        number = corpus.examples[rows][first] + 1
        raise LengthError(
            f"{name}: model.task = '{task}' asks for one label {PER[task]}, but example "
            f"{number:,} has a text of {texts[first]:,} and labels of {labels[first]:,} tokens. "
            "Take tokens of kind words on both sides, and one word for each label."
        )
