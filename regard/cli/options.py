"""Options that several verbs share."""

from typing import Annotated

import typer

from regard.choices import find
from regard.training.trained import ON_LONG


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
