"""Embedding: one vector of length 1 for each text, so that a dot product is a likeness."""

from collections.abc import Callable, Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.kinds import EOS
from regard.decoding import Search
from regard.decoding.sentences import padded
from regard.errors import LengthError, RecipeError, SettingError
from regard.hardware.hardware import Hardware
from regard.inspecting.record import Record
from regard.models import EncoderSpec, Reader
from regard.recipes.recipe import Recipe
from regard.tasks.loaded import Loaded
from regard.tasks.predictions import ReadOnlyAnswers
from regard.tasks.ready_run import ReadyRun
from regard.tasks.task import Task

TEXTS_PER_BATCH = 32
"""How many texts are read together."""
MAX_NAMED_TEXTS = 5
"""How many more texts that are too long are named."""


def _nothing() -> None:
    pass


@torch.inference_mode()
def sentence_vectors(
    loaded: Loaded,
    hardware: Hardware,
    texts: Sequence[str],
    *,
    read: Callable[[str], str],
    each: Callable[[], object] = _nothing,
) -> Float[Tensor, "n m"]:
    """The mean over the tokens of each text, begin and end too, made to length 1.

    Args:
        loaded: a run whose model is an encoder.
        hardware: where it runs.
        texts: an empty one has a vector too, that of begin and end; one that is too long is an
            error, which calls it a line.
        read: gives a text normalised as the run's data are.
        each: called after each text, so that a bar can count them.
    """
    model, longest = loaded.model, loaded.recipe.model.max_len
    if not isinstance(model, Reader):
        raise SettingError(
            f"vectors: a model of kind '{loaded.recipe.model.kind}' has none for whole texts; take "
            "a run whose model.kind is 'encoder'."
        )
    rows = [[*loaded.source.encode(read(text)), EOS] for text in texts]
    _check_lengths(texts, [len(row) for row in rows], longest)
    # texts of like length together, and back in their order
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    found = torch.zeros(len(rows), model.encoder.embedding.width)
    for first in range(0, len(rows), TEXTS_PER_BATCH):
        some = order[first : first + TEXTS_PER_BATCH]
        with hardware.products():
            vectors = model.vectors(padded([rows[place] for place in some], hardware.device))
        found[some] = vectors.float().cpu()
        for _ in some:
            each()
    return found


def _check_lengths(texts: Sequence[str], lengths: Sequence[int], longest: int) -> None:
    """All texts that are too long are named at once: each is a row, and none can be left out."""
    long = [place for place, length in enumerate(lengths) if length > longest]
    if not long:
        return
    first, others = long[0], [f"{place + 1:,}" for place in long[1:]]
    more = f" So are lines {', '.join(others[:MAX_NAMED_TEXTS])}" if others else ""
    more += "" if len(others) <= MAX_NAMED_TEXTS else f" and {len(others) - MAX_NAMED_TEXTS:,} more"
    raise LengthError(
        f"vectors: line {first + 1:,} has {lengths[first]:,} tokens, but the model reads at most "
        f"{longest:,} (model.max_len, the end token counted): '{texts[first][:40]}…'."
        f"{more}{'.' if more else ''} A vector is that of a whole text: shorten what is too long, "
        "or cut it into lines of its own."
    )


def check_is_encoder(recipe: Recipe) -> None:
    """Refuse a task of encoders for a model of another kind."""
    if not isinstance(recipe.model, EncoderSpec):
        raise RecipeError(
            f"model.task = '{recipe.model.task}' needs model.kind = 'encoder', got "
            f"'{recipe.model.kind}'. Take such a model, or leave model.task out."
        )


def check_one_run(others: Sequence[object]) -> None:
    """A vector is one run's: the spaces of two have nothing to do with each other."""
    if others:
        raise SettingError(
            f"vectors: expected one run, got {1 + len(others)}: each run has a space of its own, "
            "and an ensemble has none. Load one run, and ask each by itself."
        )


@final
class SentenceEmbedding(Task):
    """A model gives a vector for a text, and no answers."""

    is_searched = False
    has_free_length = False

    def check_recipe(self, recipe: Recipe) -> None:
        """A model without a head has nothing to learn by."""
        raise RecipeError(
            "model.task = 'vectors' has no head, and so nothing to learn by. Train another task, "
            "such as 'words', and ask that run for its vectors: regard predict RUN --vectors F.npy."
        )

    def answers_read_off(self, run: ReadyRun, text: str, search: Search) -> ReadOnlyAnswers:
        """No answers: only where the model looked as it read."""
        return ReadOnlyAnswers(
            note="This run gives vectors and writes nothing; below is where it looked as it read."
        )

    def look_at_own(self, run: ReadyRun, text: str, search: Search | None) -> Record:
        """Where the model looked as it read."""
        return run.read_over(run.read(text), [])
