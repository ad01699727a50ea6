"""The verbs: what each is for, and the module that is loaded when it is used.

`regard --help`, a mistyped verb and shell completion need names and summaries alone, so they load
neither torch nor any verb.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, final

import typer
from typer.core import TyperGroup


@final
@dataclass(frozen=True)
class Verb:
    """A verb of the command line."""

    module: str
    """Where it is, below `regard.cli`."""
    attribute: str
    """The function there, or the typer application of a verb with parts."""
    summary: str
    """The first sentence of its help."""

    def load(self, name: str) -> Any:
        """The command itself, by which arguments are read and the verb is run."""
        found = getattr(import_module(f"regard.cli.{self.module}"), self.attribute)
        if not isinstance(found, typer.Typer):
            alone = typer.Typer(
                add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
            )
            alone.command(name)(found)
            found = alone
        return typer.main.get_command(found)


VERBS: Mapping[str, Verb] = {
    "demo": Verb(
        "demo",
        "demo",
        "Train a small Transformer on dates in 22 languages, score it, and show where it looked.",
    ),
    "list": Verb("list", "list_mechanisms", "List every mechanism."),
    "explain": Verb(
        "explain",
        "explain",
        "Explain a mechanism: equation, settings, cost, the path it takes, a drawing.",
    ),
    "train": Verb("train", "train", "Train a model by a recipe."),
    "plan": Verb(
        "plan",
        "plan",
        "Say what a recipe will take: parameters, updates, memory, time and disk.",
    ),
    "predict": Verb(
        "predict",
        "predict",
        "Answer texts with a trained run; without files and --text, standard input is read.",
    ),
    "evaluate": Verb(
        "evaluate",
        "evaluate",
        "Score a run: BLEU, chrF, TER, exact match, length ratio, loss, perplexity and speed.",
    ),
    "compare": Verb(
        "compare",
        "compare",
        "Compare systems on the same sentences: differences, p-values, and where they come from.",
    ),
    "average": Verb(
        "average", "average", "Average weights of one shape, and make a finished run of the mean."
    ),
    "verify": Verb(
        "verify",
        "verify",
        "Check a run's card: the hashes of its files and data, and its scores, computed again.",
    ),
    "look": Verb(
        "look",
        "look",
        "Show which source words each target word came from: coloured words in the terminal.",
    ),
    "import": Verb(
        "import_",
        "import_model",
        "Make a run of a published model, on which predict, look and evaluate work.",
    ),
    "export": Verb("export", "export", "Write a translation run in another library's layout."),
    "serve": Verb(
        "serve", "serve", "Serve runs to a browser: see what they look at while they answer."
    ),
    "doctor": Verb(
        "doctor",
        "app",
        "Look for what is wrong with data: exit 0 when it is clean, 1 when something was found.",
    ),
    "bench": Verb(
        "bench", "bench", "Measure time and memory, as ratios to peers measured in the same run."
    ),
}


def not_loaded() -> None:
    """Stand for a verb in the list of verbs; `VerbGroup` loads the verb before it is run."""


@final
class VerbGroup(TyperGroup):
    """All verbs, each loaded when it is used."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the verb that the first word names, and load it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else VERBS[name].load(name), rest
