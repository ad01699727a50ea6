"""Size notes: a model that is much too large for its data, and the size that would suit them."""

import math
from collections.abc import Iterator
from dataclasses import replace

from regard.data.subwords import Subwords
from regard.errors import RegardError, counted
from regard.models import NAMED_SIZES, Spec, shapes_of
from regard.recipes.recipe import Recipe
from regard.tasks import task_of
from regard.training.loop import Material

MAX_WEIGHTS_PER_TOKEN = 100
"""More learned weights than this for each token of the training data are told. Multi30k's recipes
have about 20, and a Transformer of size base on 3,000 sentences has 600."""


def size_notes(
    recipe: Recipe, train: Material, source: Subwords, target: Subwords
) -> Iterator[str]:
    """A sentence where the data are far too few for the model; none where others trained it."""
    sources = task_of(recipe).sources
    if not sources.has_lengths or recipe.training.start_from is not None:
        return
    corpus, rows = train.corpus, train.used
    n_tokens = int(corpus.source_lengths[rows].sum() + corpus.target_lengths[rows].sum())

    def count(spec: Spec) -> int:
        sizes = {"n_source_tokens": len(source), "n_target_tokens": len(target)}
        return sum(math.prod(shape) for shape in shapes_of(spec, **sizes).values())

    weights, most = count(recipe.model), MAX_WEIGHTS_PER_TOKEN * n_tokens
    if weights <= most:
        return
    named: dict[str, int] = {}
    for name, row in NAMED_SIZES.get(recipe.model.kind, {}).items():
        try:
            named[name] = count(replace(recipe.model, **row))
        except RegardError:
            # a size does not suit every link
            continue
    smaller = {name: number for name, number in named.items() if number < weights}
    fitting = [name for name, number in smaller.items() if number <= most]
    best = (
        max(fitting, key=smaller.__getitem__)
        if fitting
        else min(smaller, key=smaller.__getitem__, default=None)
    )
    take = (
        "Lower the widths and the number of layers in [model]"
        if best is None
        else f'Take model.size = "{best}", which has {smaller[best]:,} here, with no other widths '
        "beside it"
    )
    yield (
        f"the model has {weights:,} parameters, but data.train only {n_tokens:,} tokens in "
        f"{counted(len(rows), 'example')}: it can learn them by heart. {take}, or give more data."
    )
