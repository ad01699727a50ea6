"""Options that several verbs share."""

from typing import Annotated

import typer

from regard.choices import find
from regard.decoding import Limits
from regard.errors import SettingError
from regard.training.filling import fills_words
from regard.training.trained import ON_LONG, Trained
from regard.training.vectors import is_speechless


def _known(name: str) -> str:
    """A mistake is told before anything long begins."""
    find(name, ON_LONG, key="--on-long")
    return name


OnLong = Annotated[
    str,
    typer.Option(help=f"A text that is too long: {', '.join(ON_LONG)}.", callback=_known),
]

MaxTokens = Annotated[
    int | None,
    typer.Option(help="Longest answer; 50 tokens beyond the text, or the model's limit, if less."),
]


def limits_of(trained: Trained, max_tokens: int | None, verb: str) -> Limits:
    """How long an answer may be: as somebody said, or as the run has it."""
    if max_tokens is None:
        return trained.default_search().limits
    recipe, most = trained.loaded.recipe, trained.longest - 1
    if is_speechless(recipe) or fills_words(recipe):
        raise SettingError(
            f"{verb}: this run writes no answers of its own, so --max-tokens has no meaning for "
            "it. Leave it out."
        )
    if not 1 <= max_tokens <= most:
        raise SettingError(
            f"{verb}: --max-tokens must lie between 1 and {most}, the model's limit, got "
            f"{max_tokens}."
        )
    return Limits(max_tokens=max_tokens)
