"""Labelling: a tag for each token of a text, or one label for all of it."""

from collections.abc import Sequence
from typing import final

import numpy as np

from regard.data.corpus import Corpus
from regard.errors import LengthError
from regard.recipes.recipe import Recipe
from regard.tasks.task import Task


@final
class Labelling(Task):
    """A model gives labels, one for each token or one for the whole text."""

    needs_kind = "encoder"
    has_free_length = False

    def __init__(self, *, is_per_token: bool) -> None:
        self.is_per_token = self.labels_words = is_per_token

    def verb(self, recipe: Recipe) -> str:
        """Tags for tokens, or the class of a text."""
        return "Tag" if self.is_per_token else "Classify"

    def default_metrics(self, recipe: Recipe) -> Sequence[str]:
        """How many labels and whole texts are right, the scores of each label, and the loss."""
        return ("accuracy", "labels", "exact", "loss")

    def stays_whole(self, recipe: Recipe) -> bool:
        """True for one label per text, which needs the whole text."""
        return not self.is_per_token or super().stays_whole(recipe)

    def check_corpus(self, recipe: Recipe, corpus: Corpus, rows: np.ndarray, name: str) -> None:
        """Refuse rows with a wrong number of labels for their text."""
        # lengths count the end token, which is not a label
        texts, labels = corpus.source_lengths[rows] - 1, corpus.target_lengths[rows] - 1
        wrong = np.flatnonzero(labels != (texts if self.is_per_token else 1))
        if len(wrong):
            first = wrong[0]
            per = "for each token" if self.is_per_token else "for the whole text"
            raise LengthError(
                f"{name}: model.task = '{recipe.model.task}' asks for one label {per}, but example "
                f"{corpus.examples[rows][first] + 1:,} has a text of {texts[first]:,} and labels "
                f"of {labels[first]:,} tokens. Take tokens of kind words on both sides, and one "
                "word for each label."
            )
