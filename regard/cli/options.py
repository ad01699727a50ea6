"""Options that several verbs share."""

from collections.abc import Mapping
from typing import Annotated

import typer

from regard.choices import find
from regard.errors import SettingError
from regard.hardware.hardware import device_named
from regard.runs.alignment import FORMATS
from regard.runs.trained import ON_LONG

BEAM = 5
"""How many answers are followed at once, unless somebody says."""
ALPHA = 0.6
"""Of the Transformer paper's length penalty, unless somebody says."""


def _known(name: str) -> str:
    """A mistake is told before anything long begins."""
    find(name, ON_LONG, key="--on-long")
    return name


OnLong = Annotated[
    str,
    typer.Option(help=f"A text that is too long: {', '.join(ON_LONG)}.", callback=_known),
]


def check_device(name: str | None) -> str | None:
    """Refuse a device that is not on this machine, before a verb reads or makes anything."""
    device_named(name)
    return name


Device = Annotated[
    str | None,
    typer.Option(help="cpu or cuda; cuda where there is one.", callback=check_device),
]

MaxTokens = Annotated[
    int | None,
    typer.Option(help="Longest answer; 50 tokens beyond the text, or the model's limit, if less."),
]


def _known_format(name: str | None) -> str | None:
    if name is not None:
        find(name, FORMATS, key="--alignment-format")
    return name


AlignmentFormat = Annotated[
    str | None,
    typer.Option(help="naacl or pharaoh; as the file looks unless given.", callback=_known_format),
]

AlignmentFirst = Annotated[
    int | None,
    typer.Option(
        help="The number of a sentence's first word: 1 in naacl, 0 in Pharaoh, unless given."
    ),
]

AlignmentSwapped = Annotated[
    bool, typer.Option("--alignment-swapped", help="The file has target words first.")
]


def refuse_without_links(
    verb: str, *, kind: str | None, first: int | None, is_swapped: bool
) -> None:
    """Refuse to be told how gold links are read where there are none."""
    refuse(
        verb,
        "there are no gold links (--alignment)",
        {
            "--alignment-format": kind,
            "--alignment-first": first is not None,
            "--alignment-swapped": is_swapped,
        },
    )


LIMIT = "--max-tokens"
"""What that option is called in errors."""


def refuse(verb: str, because: str, given: Mapping[str, object]) -> None:
    """Refuse options that would change nothing.

    Args:
        verb: that was typed.
        because: why they would not.
        given: by name, whether somebody gave an option, or what was given.
    """
    for name, is_given in given.items():
        if is_given:
            raise SettingError(f"{verb}: {because}, so {name} would change nothing. Leave it out.")
