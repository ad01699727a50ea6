"""regard explain: one mechanism in full, or one of the small lessons.

What a mechanism computes (its path and its drawing) is kept in computed.json for the sizes and
settings that hold without options, so that explaining a mechanism needs no torch.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import typer

from regard.catalogue import Mechanism, mechanism, mechanisms
from regard.choices import Choice, unknown
from regard.errors import SettingError, UnknownChoice

LESSONS: Mapping[str, Sequence[str]] = {
    "worked": (),
    "scaling": (),
    "paths": ("length", "window", "width"),
}
"""The lessons, and the sizes that each takes."""
SIZES_OF_MECHANISMS = ("queries", "keys", "heads", "width")

MAX_TOKENS = 10**12
"""The most queries or keys that a cost can be asked for."""

COMPUTED = Path(__file__).with_name("computed.json")
"""The lines that `computed_lines` gives for each mechanism; `make docs` writes the file."""


class Sizes(NamedTuple):
    """The sizes for which a mechanism or a lesson is explained."""

    queries: int = 1024
    keys: int = 1024
    heads: int = 8
    width: int = 512
    length: int = 50
    window: int = 5


USUAL = Sizes()


def explain(
    name: str = typer.Argument(
        help="A mechanism (regard list), or a lesson: worked, scaling, paths."
    ),
    queries: int | None = typer.Option(
        None, min=1, max=MAX_TOKENS, show_default=str(USUAL.queries), help="Number of queries."
    ),
    keys: int | None = typer.Option(
        None, min=1, max=MAX_TOKENS, help="Number of keys; as many as queries unless given."
    ),
    heads: int | None = typer.Option(
        None, min=1, show_default=str(USUAL.heads), help="Number of heads."
    ),
    width: int | None = typer.Option(
        None, min=1, show_default=str(USUAL.width), help="Model width, shared by the heads."
    ),
    length: int | None = typer.Option(
        None, show_default=str(USUAL.length), help="Words in the sentence (paths)."
    ),
    window: int | None = typer.Option(
        None, show_default=str(USUAL.window), help="Words in a window (paths)."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Explain a mechanism: equation, settings, cost, the path it takes, a drawing.

    Settings may follow the name, as in sliding_window:size=128.

    Example: regard explain sliding_window --queries 4096
    """
    each = (queries, keys, heads, width, length, window)
    named = zip(Sizes._fields, each, strict=True)
    given = {name: size for name, size in named if size is not None}
    choice = Choice.parse(name)
    known = [*LESSONS, *(entry.name for entry in mechanisms())]
    if choice.name not in known:
        raise UnknownChoice(unknown(choice.name, known))
    _check_options(choice.name, given)
    sizes = USUAL._replace(**{"keys": queries or USUAL.keys, **given})
    if choice.name in LESSONS:
        check_settings(choice, {})
        from regard.cli.explanations import lesson

        text, data = lesson(choice.name, sizes)
    elif as_json:
        from regard.cli.explanations import mechanism_data

        text, data = "", mechanism_data(choice, sizes)
    else:
        text, data = _text(choice, sizes), {}
    print(json.dumps(data, ensure_ascii=False) if as_json else text)


def _check_options(name: str, given: Mapping[str, int]) -> None:
    """Refuse a size that would change nothing, and name those that would."""
    takes = LESSONS.get(name, SIZES_OF_MECHANISMS)
    if size := next((size for size in given if size not in takes), None):
        options = ", ".join(f"--{size}" for size in takes) or "no sizes"
        raise SettingError(
            f"explain: '{name}' takes {options}; got --{size} {given[size]}, which would change "
            "nothing. Leave it out."
        )


def check_settings(choice: Choice, known: Mapping[str, str]) -> None:
    """Refuse unknown settings, which would be printed but have no effect."""
    for key in choice.settings:
        if key not in known:
            takes = ", ".join(f"{name}={value}" for name, value in known.items()) or "no settings"
            raise SettingError(f"'{choice.name}' has no setting '{key}'; it takes {takes}.")


def all_settings(entry: Mechanism, choice: Choice) -> dict[str, str]:
    """The settings of a mechanism: those that the choice names, and the defaults of the others."""
    return {**entry.settings, **{name: repr(value) for name, value in choice.settings.items()}}


def _text(choice: Choice, sizes: Sizes) -> str:
    entry = mechanism(choice.name)
    kept = json.loads(COMPUTED.read_text(encoding="utf-8"))
    if choice.settings or sizes != USUAL or choice.name not in kept:
        from regard.cli.explanations import computed_lines

        computed = computed_lines(choice, sizes)
    else:
        computed = kept[choice.name]
    lines = [f"{entry.name} ({entry.kind})", entry.summary, ""]
    lines += [f"    {line}" for line in entry.equation.splitlines()]
    lines += ["", f"paper     {entry.paper}", f"cost      {entry.cost}"]
    shown = ", ".join(f"{key} = {value}" for key, value in all_settings(entry, choice).items())
    lines += [f"settings  {shown or 'none'}", f"file      {entry.file}", *computed]
    return "\n".join(lines)
