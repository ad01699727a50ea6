"""What a task works with: a recipe, its vocabularies, and a model with its weights."""

from dataclasses import dataclass
from pathlib import Path

from regard.data.subwords import Subwords
from regard.data.tree_ids import for_sources
from regard.models import Model
from regard.recipes.recipe import Recipe


@dataclass(frozen=True)
class Loaded:
    """What a finished run gives."""

    recipe: Recipe
    source: Subwords
    target: Subwords
    model: Model


def subword_files(recipe: Recipe) -> tuple[str, ...]:
    """The names of a run's vocabularies: one for both sides, or the source's and the target's."""
    if recipe.tokens.is_joint:
        return ("tokenizer.json",)
    return ("tokenizer.source.json", "tokenizer.target.json")


def load_subwords(recipe: Recipe, path: Path) -> tuple[Subwords, Subwords]:
    """The source's and the target's sub-words of a run; joint ones are one object.

    Those that carry trees are two, since a source must bring its tree and a target has none.
    """
    read = [Subwords.load(path / name) for name in subword_files(recipe)]
    return for_sources(read[0]), read[-1]
