"""Embedding: one vector of length 1 for each text; dot products are cosine similarities."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.subword_kinds import EOS
from regard.decoding import Search
from regard.decoding.sentences import padded_tokens
from regard.errors import LengthError, RecipeError, SettingError
from regard.inspecting.record import Record
from regard.models import Reader
from regard.recipes.recipe import Recipe
from regard.tasks.loaded_run import LoadedRun
from regard.tasks.predictions import Prediction, ReadOnlyAnswers, listed_texts
from regard.tasks.task import Task

TEXTS_PER_BATCH = 32
MAX_NAMED_TEXTS = 5


@torch.inference_mode()
def sentence_vectors(
    run: LoadedRun, texts: Iterable[str], each: Callable[[], object]
) -> Float[Tensor, "n m"]:
    """The mean over the tokens of each text, begin and end too, made to length 1.

    The vector of an empty text is that of begin and end; a text that is too long is an error that
    names its line. `each` is called after each text.
    """
    if run.others:
        raise SettingError(
            f"vectors: expected one run, got {1 + len(run.others)}: each run has a space of its "
            "own, and an ensemble has none. Load one run, and ask each by itself."
        )
    texts = listed_texts(texts, "vectors")
    loaded, model = run.loaded, run.loaded.model
    if not isinstance(model, Reader):
        raise SettingError(
            f"vectors: a model of kind '{loaded.recipe.model.kind}' has none for whole texts; take "
            "a run whose model.kind is 'encoder'."
        )
    rows = [[*loaded.source.encode(run.read(text)), EOS] for text in texts]
    _check_lengths(texts, [len(row) for row in rows], run.longest)
    # batches hold texts of similar length; results are put back into the order of the texts
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    found = torch.zeros(len(rows), model.encoder.embedding.width)
    for first in range(0, len(rows), TEXTS_PER_BATCH):
        batch = order[first : first + TEXTS_PER_BATCH]
        tokens = padded_tokens([rows[place] for place in batch], run.hardware.device)
        with run.hardware.on_threads(), run.hardware.products():
            found[batch] = model.vectors(tokens).float().cpu()
        for _ in batch:
            each()
    return found


def _check_lengths(texts: Sequence[str], lengths: Sequence[int], longest: int) -> None:
    """Refuse texts that are too long, naming all: none can be left out, since each is a row."""
    long = [place for place, length in enumerate(lengths) if length > longest]
    if not long:
        return
    first, others = long[0], [f"{place + 1:,}" for place in long[1:]]
    more = f" So are lines {', '.join(others[:MAX_NAMED_TEXTS])}" if others else ""
    more += f" and {len(others[MAX_NAMED_TEXTS:]):,} more" if others[MAX_NAMED_TEXTS:] else ""
    raise LengthError(
        f"vectors: line {first + 1:,} has {lengths[first]:,} tokens, but the model reads at most "
        f"{longest:,} (model.max_len, the end token counted): '{texts[first][:40]}…'."
        f"{more}{'.' if more else ''} A vector is that of a whole text: shorten what is too long, "
        "or cut it into lines of its own."
    )


@final
class SentenceEmbedding(Task):
    """A model gives a vector for a text, and no answers."""

    is_searched = False
    has_free_length = False

    def verb(self, recipe: Recipe) -> str:
        """A vector for a text."""
        return "Embed"

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuse to train: a model without a head has no loss."""
        raise RecipeError(
            "model.task = 'vectors' has no head, and so nothing to learn by. Train another task, "
            "such as 'words', and ask that run for its vectors: regard predict RUN --vectors F.npy."
        )

    def request_words(self, example: str) -> tuple[str, ...]:
        """Vectors go into a file."""
        return ("--vectors", "vectors.npy", "--text", example)

    def answers_read_off(self, run: LoadedRun, text: str, search: Search) -> ReadOnlyAnswers:
        """No answers: only where the model looked as it read."""
        note = "This run gives vectors and writes nothing; below is where it looked as it read."
        return ReadOnlyAnswers(Prediction(text, "", math.nan, (), note=note))

    def look_at_own(self, run: LoadedRun, text: str, search: Search | None) -> Record:
        """Where the model looked as it read."""
        return run.read_over(run.read(text), [])
