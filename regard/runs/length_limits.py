"""Length limits: how long an answer may be, by the caller's word or by the run's default."""

from regard.decoding import Limits
from regard.errors import SettingError
from regard.recipes.recipe import Recipe
from regard.runs.trained import Trained
from regard.tasks import task_of


def check_limit(recipe: Recipe, max_tokens: int | None, who: str, key: str) -> None:
    """Refuse a limit that a run cannot keep.

    Args:
        recipe: the run's.
        max_tokens: the most tokens of an answer; None if the caller set none.
        who: asks, for errors.
        key: under which it was said.
    """
    if max_tokens is None:
        return
    if not task_of(recipe).has_free_length:
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
