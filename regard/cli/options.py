"""Options that several verbs share, and the refusal of options that would have no effect."""

from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from regard.attention.own_parts import import_parts
from regard.choices import find
from regard.decoding.beam import DEFAULT_BEAM_WIDTH
from regard.decoding.length_penalties import DEFAULT_ALPHA
from regard.decoding.rules import Rule
from regard.errors import SettingError
from regard.hardware.devices import device_named
from regard.hardware.threads import given_threads
from regard.interop.engines import ENGINES
from regard.recipes.decoding_recipe import DecodingRecipe
from regard.runs.alignment import FORMATS
from regard.runs.trained import ON_LONG
from regard.training.run_folder import check_can_be_made

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


def _complete_change(typed: str) -> list[str]:
    """Keys of a recipe that begin as typed, for a shell that completes --set."""
    from regard.recipes.keys import key_paths

    return [f"{path}=" for path in key_paths() if path.startswith(typed)]


FinishedRun = Annotated[
    Path, typer.Argument(help="A finished run, or a checkpoint in RUN/checkpoints.")
]
RecipeFile = Annotated[
    Path, typer.Argument(help="A recipe file, or the name of a shipped recipe: copy.")
]
CHANGES: list[str] = typer.Option(
    [],
    "--set",
    help="Change a key: training.steps=200.",
    autocompletion=_complete_change,
)
"""The option that changes keys of a recipe."""
Source = Annotated[Path | None, typer.Option(help="Texts, one a line; or a .tsv with both sides.")]
BeamWidth = Annotated[int, typer.Option(help="Width of the beam; 1 is greedy search.")]
LengthPenalty = Annotated[
    float, typer.Option(help="The Transformer paper's alpha; 0 leaves scores as they are.")
]
RepetitionPenalty = Annotated[
    float | None,
    typer.Option(
        help="Multiply the log-probabilities of tokens already in the answer by this; 1 leaves "
        "them. The recipe's value unless given."
    ),
]
NoRepeatedNgrams = Annotated[
    int | None,
    typer.Option(
        help="Never write the same N tokens in a row twice; 0 allows it. The recipe's value unless "
        "given."
    ),
]
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
    str | None,
    typer.Option(help="cpu, cuda, mps or xpu; cuda where there is one.", callback=check_device),
]
Precision = Annotated[str | None, typer.Option(help="float32, or on GPUs bfloat16 or float16 too.")]
TrainingPrecision = Annotated[
    str | None,
    typer.Option(help="float32, bfloat16 or float16 (its loss is scaled); bfloat16 on cuda."),
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


class ManyPaths(TyperCommand):
    """A command whose options of paths take every path up to the next option.

    So a shell's wildcards do too.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite --test A B as --test A --test B, the form that the parser accepts."""
        spelt: list[str] = []
        option = ""
        for word in args:
            if word.startswith("--"):
                option = word if word in ("--test", "--valid") else ""
            elif option and spelt[-1] != option:
                spelt.append(option)
            spelt.append(word)
        return super().parse_args(ctx, spelt)


def two_names(verb: str, option: str, text: str) -> tuple[str, str]:
    """The two names, separated by a comma, that an option was given."""
    first, comma, second = (part.strip() for part in text.partition(","))
    if not (first and comma and second) or "," in second:
        raise SettingError(f"{verb}: {option} takes two names and a comma, got '{text}'.")
    return first, second


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


def decoding_rules(
    verb: str, usual: DecodingRecipe, penalty: float | None, ngrams: int | None
) -> Sequence[Rule]:
    """The rules of the recipe, with what was given in their place."""
    try:
        return DecodingRecipe(
            repetition_penalty=usual.repetition_penalty if penalty is None else penalty,
            no_repeated_ngrams=usual.no_repeated_ngrams if ngrams is None else ngrams,
        ).rules
    except SettingError as error:
        said = str(error)
        for key in ("repetition_penalty", "no_repeated_ngrams"):
            said = said.replace(f"decoding.{key}", f"--{key.replace('_', '-')}")
        raise SettingError(f"{verb}: {said}") from error


def rules_given(penalty: float | None, ngrams: int | None) -> dict[str, object]:
    """The options of rules, and whether each was given."""
    return {
        "--repetition-penalty": penalty is not None,
        "--no-repeated-ngrams": ngrams is not None,
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
    if path is not None:
        check_can_be_made(path, verb)
        # it is written beside its name, and then renamed
        check_can_be_made(path.parent, verb)
