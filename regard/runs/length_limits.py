"""How long an answer may be: as somebody said, or as the run has it."""

from regard.decoding import Limits
from regard.errors import SettingError
from regard.recipes.recipe import Recipe
from regard.runs.trained import Trained
from regard.tasks.labels import says_labels
from regard.tasks.masked_words import fills_words
from regard.tasks.sentence_vectors import is_speechless


def writes_nothing(recipe: Recipe) -> bool:
    """Whether the model of a recipe has no answers that could be longer or shorter."""
    return is_speechless(recipe) or fills_words(recipe) or says_labels(recipe)


def check_limit(recipe: Recipe, max_tokens: int | None, who: str, key: str) -> None:
    """See that a run can keep the limit that somebody set.

    Args:
        recipe: the run's.
        max_tokens: the most tokens of an answer; None if nobody said.
        who: asks, for errors.
        key: under which it was said.
    """
    if max_tokens is None:
        return
    if writes_nothing(recipe):
        raise SettingError(
            f"{who}: this run writes no answers of a length of its own, so {key} has no meaning "
            "for it. Leave it out."
        )
    most = recipe.model.max_len - 1
    if not 1 <= max_tokens <= most:
        raise SettingError(
            f"{who}: {key} must lie between 1 and {most}, the model's limit, got {max_tokens}."
        )


def limits_of(trained: Trained, max_tokens: int | None, who: str, key: str) -> Limits:
    """The limits of a search; see `check_limit`."""
    check_limit(trained.loaded.recipe, max_tokens, who, key)
    if max_tokens is None:
        return trained.default_search().limits
    return Limits(max_tokens=max_tokens)
