"""Options that several verbs share, and the refusal of options that would have no effect."""

from collections.abc import Container, Mapping
from pathlib import Path
from typing import Annotated

import typer

from regard.attention.own_parts import import_parts
from regard.choices import find
from regard.decoding.beam import DEFAULT_BEAM_WIDTH
from regard.decoding.length_penalties import DEFAULT_ALPHA
from regard.errors import SettingError
from regard.hardware.hardware import device_named
from regard.hardware.threads import given_threads
from regard.interop.engines import ENGINES
from regard.runs.alignment import FORMATS
from regard.runs.trained import ON_LONG

LIMIT = "--max-tokens"
"""The name of the limit of an answer's length in errors."""


def _known_on_long(name: str) -> str:
    find(name, ON_LONG, key="--on-long")
    return name


def _known_format(name: str | None) -> str | None:
    if name is not None:
        find(name, FORMATS, key="--alignment-format")
    return name


def check_device(name: str | None) -> str | None:
    """Refuse a device that is not on this machine, before a verb reads or makes anything."""
    device_named(name)
    return name


def check_threads(count: int | None) -> int | None:
    """Refuse a number of threads before a verb reads or makes anything."""
    return None if count is None else given_threads(count).count


def _import_all(paths: list[Path]) -> list[Path]:
    for path in paths:
        import_parts(path)
    return paths


FinishedRun = Annotated[
    Path, typer.Argument(help="A finished run, or a checkpoint in RUN/checkpoints.")
]
RecipeFile = Annotated[Path, typer.Argument(help="A recipe file, for instance recipes/copy.toml.")]
Source = Annotated[Path | None, typer.Option(help="Texts, one a line; or a .tsv with both sides.")]
BeamWidth = Annotated[int, typer.Option(help="Width of the beam; 1 is greedy search.")]
LengthPenalty = Annotated[float, typer.Option(help="The Transformer paper's alpha; 0 is none.")]
MaxTokens = Annotated[
    int | None,
    typer.Option(help="Longest answer; 50 tokens beyond the text, or the model's limit, if less."),
]
OnLong = Annotated[
    str,
    typer.Option(
        help=f"A text that is too long: {', '.join(ON_LONG)}.",
        callback=_known_on_long,
    ),
]
ReplaceUnknown = Annotated[
    bool,
    typer.Option(
        "--replace-unknown", help="Translate unknown words by a dictionary, or copy them."
    ),
]
IMPORTS: list[Path] = typer.Option(
    [],
    "--import",
    help="A Python file of yours that holds links, which is run; may be repeated.",
    callback=_import_all,
    is_eager=True,
)
"""The option of every verb that reads a recipe or a run."""
Device = Annotated[
    str | None, typer.Option(help="cpu or cuda; cuda where there is one.", callback=check_device)
]
ThreadCount = Annotated[
    int | None,
    typer.Option(
        "--threads",
        help="Threads of the CPU; by its free cores, or as trials tell, unless given.",
        callback=check_threads,
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        help=f"What searches: {', '.join(ENGINES)}; for instance ctranslate2:quantization=int8."
    ),
]
AlignmentFormat = Annotated[
    str | None,
    typer.Option(
        help="naacl or pharaoh; as the file looks unless given.",
        callback=_known_format,
    ),
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


def first_given(given: Mapping[str, object]) -> str | None:
    """The first option, or reason, whose condition is true; None if there is none."""
    return next((name for name, is_given in given.items() if is_given), None)


def refuse(verb: str, because: str, given: Mapping[str, object]) -> None:
    """Refuse the first given option that would have no effect, for this reason."""
    if name := first_given(given):
        raise SettingError(f"{verb}: {because}, so {name} would change nothing. Leave it out.")


def search_given(
    beam: int, length_penalty: float, max_tokens: int | None = None, on_long: str = "error"
) -> dict[str, object]:
    """The options of a search, and whether each was given."""
    return {
        "--beam": beam != DEFAULT_BEAM_WIDTH,
        "--length-penalty": length_penalty != DEFAULT_ALPHA,
        LIMIT: max_tokens is not None,
        "--on-long": on_long != "error",
    }


def check_beam(verb: str, beam: int) -> None:
    """Refuse a beam without a place for a hypothesis."""
    if beam < 1:
        raise SettingError(
            f"{verb}: --beam must be at least 1, got {beam}. Give 1 for greedy search, or leave it "
            f"out for {DEFAULT_BEAM_WIDTH}."
        )


def refuse_without_links(
    verb: str, *, kind: str | None, first: int | None, is_swapped: bool
) -> None:
    """Refuse options of gold links if there is no file of gold links."""
    given = {"--alignment-format": kind, "--alignment-first": first is not None}
    given |= {"--alignment-swapped": is_swapped}
    refuse(verb, "there are no gold links (--alignment)", given)


def check_file(verb: str, ending: str, path: Path | None, known: Container[str]) -> None:
    """Refuse a file that cannot be written, before anything long begins."""
    if path is not None and path.suffix not in known:
        raise SettingError(f"{verb}: {ending}; got '{path}'.")
    if path is not None and not path.parent.is_dir():
        raise SettingError(
            f"{verb}: there is no folder '{path.parent}' for '{path.name}'. Make it."
        )
