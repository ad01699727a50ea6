"""Trees: what a model knows of a sentence's tree, its text must bring along."""

from regard.data import Example
from regard.data.parsed_words import PARSED_WORDS, heads_of_source
from regard.errors import RecipeError
from regard.models import EncoderSpec
from regard.models.encoders.spec import knows_trees
from regard.recipes.recipe import Recipe


def check_trees(recipe: Recipe) -> None:
    """Words with their heads for a model that knows trees, and for no other."""
    spec, kind = recipe.model, recipe.tokens.kind
    for key in ("positions", "relation"):
        # most specs have both; what has neither knows no trees
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


def check_brings_tree(recipe: Recipe, example: Example) -> None:
    """Refuse a source without its tree where words carry theirs."""
    if recipe.tokens.kind == PARSED_WORDS.name:
        heads_of_source(example.source)
