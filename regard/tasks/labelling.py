"""Labelling: a tag for each token of a text, or one label for all of it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import numpy as np

from regard.data.corpus import Corpus
from regard.errors import LengthError
from regard.recipes.recipe import Recipe
from regard.tasks.embedding import check_is_encoder
from regard.tasks.task import Task


class Labelling(Task, ABC):
    """A model says labels, as many as the text has places for."""

    has_free_length = False
    per: str
    """What has one label."""

    @abstractmethod
    def n_labels(self, n_tokens: np.ndarray) -> np.ndarray:
        """How many labels texts of so many tokens have."""

    def check_recipe(self, recipe: Recipe) -> None:
        """Labels are said by encoders."""
        check_is_encoder(recipe)

    def default_metrics(self, recipe: Recipe) -> Sequence[str]:
        """The share of labels that are right, of texts whose labels all are, and the loss."""
        return ("accuracy", "exact", "loss")

    def check_corpus(self, recipe: Recipe, corpus: Corpus, rows: np.ndarray, name: str) -> None:
        """Refuse rows with another number of labels than their text asks for."""
        # the end token is no label
        texts, labels = corpus.source_lengths[rows] - 1, corpus.target_lengths[rows] - 1
        wrong = np.flatnonzero(labels != self.n_labels(texts))
        if len(wrong):
            first = wrong[0]
            number = corpus.examples[rows][first] + 1
            raise LengthError(
                f"{name}: model.task = '{recipe.model.task}' asks for one label {self.per}, but "
                f"example {number:,} has a text of {texts[first]:,} and labels of "
                f"{labels[first]:,} tokens. Take tokens of kind words on both sides, and one word "
                "for each label."
            )


@final
class Tagging(Labelling):
    """One label for each token."""

    per = "for each token"

    def n_labels(self, n_tokens: np.ndarray) -> np.ndarray:
        """As many labels as tokens."""
        return n_tokens


@final
class Classification(Labelling):
    """One label for a whole text."""

    per = "for the whole text"

    def n_labels(self, n_tokens: np.ndarray) -> np.ndarray:
        """One label."""
        return np.ones_like(n_tokens)

    def stays_whole(self, recipe: Recipe) -> bool:
        """A label is that of the whole text."""
        return True
