"""Checks that a model that uses syntax trees gets parsed texts, and only such a model."""

from regard.data.parsed_words import PARSED_WORDS
from regard.errors import RecipeError
from regard.models import EncoderSpec
from regard.models.encoders.spec import knows_trees
from regard.recipes.recipe import Recipe


def check_trees(recipe: Recipe) -> None:
    """Refuse parsed texts for a model without trees, and plain texts for one that needs trees."""
    spec, kind = recipe.model, recipe.tokens.kind
    for key in ("positions", "relation"):
        # specs without `positions` and `relation` use no trees
        choice = getattr(spec, key, None)
        if choice is not None and knows_trees(choice) and not isinstance(spec, EncoderSpec):
            raise RecipeError(
                f"model.{key} = '{choice.name}' knows the trees of sentences, which an encoder "
                "alone reads: a text has no tree before it is written. Take another "
                f"{key}, or model.kind = 'encoder'."
            )
    needs = isinstance(spec, EncoderSpec) and spec.needs_trees
    has = kind == PARSED_WORDS.name
    if needs and not has:
        raise RecipeError(
            f"tokens.kind must be '{PARSED_WORDS.name}', got '{kind}': this model's positions or "
            "relation know the trees of sentences. Take a conllu reader with has_trees = true."
        )
    if not has and recipe.data.train.settings.get("has_trees"):
        raise RecipeError(
            f"data.train.has_trees = true writes each word with its head, which tokens.kind = "
            f"'{kind}' would take for a part of it. Take kind = '{PARSED_WORDS.name}' and a model "
            "that knows trees, or leave has_trees out."
        )
    if has and not needs:
        raise RecipeError(
            f"tokens.kind = '{kind}' carries the trees of sentences, which this model does not "
            "know. Take kind = 'words', or an encoder with positions = 'tree_depth' or relation = "
            "'structural'."
        )
