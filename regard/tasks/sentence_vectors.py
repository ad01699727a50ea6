"""Sentence vectors: one vector of length 1 for each text, so that a dot product is a likeness."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.kinds import EOS
from regard.decoding.sentences import padded
from regard.errors import LengthError, SettingError
from regard.hardware.hardware import Hardware
from regard.models import EncoderSpec, Reader
from regard.recipes.recipe import Recipe
from regard.tasks.loaded import Loaded
from regard.tasks.normalisation import read_text

AT_ONCE = 32
"""How many texts are read together."""
SHOWN = 5
"""How many more texts that are too long are named."""


def _nothing() -> None:
    pass


@torch.inference_mode()
def sentence_vectors(
    loaded: Loaded,
    hardware: Hardware,
    texts: Sequence[str],
    *,
    each: Callable[[], object] = _nothing,
) -> Float[Tensor, "n m"]:
    """The mean over the tokens of each text, begin and end too, made to length 1.

    Args:
        loaded: a run whose model is an encoder.
        hardware: where it runs.
        texts: an empty one has a vector too, that of begin and end; one that is too long is an
            error, which calls it a line.
        each: called after each text, so that a bar can count them.
    """
    model, longest = loaded.model, loaded.recipe.model.max_len
    if not isinstance(model, Reader):
        raise SettingError(
            f"vectors: a model of kind '{loaded.recipe.model.kind}' has none for whole texts; take "
            "a run whose model.kind is 'encoder'."
        )
    rows = [[*loaded.source.encode(read_text(loaded.recipe, text)), EOS] for text in texts]
    _check_lengths(texts, [len(row) for row in rows], longest)
    # texts of like length together, and back in their order
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
    found = torch.zeros(len(rows), model.encoder.embedding.width)
    for first in range(0, len(rows), AT_ONCE):
        some = order[first : first + AT_ONCE]
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
    more = f" So are lines {', '.join(others[:SHOWN])}" if others else ""
    more += "" if len(others) <= SHOWN else f" and {len(others) - SHOWN:,} more"
    raise LengthError(
        f"vectors: line {first + 1:,} has {lengths[first]:,} tokens, but the model reads at most "
        f"{longest:,} (model.max_len, the end token counted): '{texts[first][:40]}…'."
        f"{more}{'.' if more else ''} A vector is that of a whole text: shorten what is too long, "
        "or cut it into lines of its own."
    )


def check_one_run(others: Sequence[object]) -> None:
    """A vector is one run's: the spaces of two have nothing to do with each other."""
    if others:
        raise SettingError(
            f"vectors: expected one run, got {1 + len(others)}: each run has a space of its own, "
            "and an ensemble has none. Load one run, and ask each by itself."
        )


def is_speechless(recipe: Recipe) -> bool:
    """Whether the model of a recipe gives vectors and says nothing."""
    return isinstance(recipe.model, EncoderSpec) and recipe.model.task == "vectors"
