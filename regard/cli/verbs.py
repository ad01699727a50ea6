"""The verbs and what each is for; the module of a verb is loaded when the verb is used.

`regard --help`, a mistyped verb and shell completion need names and summaries alone, so they load
neither torch nor any verb.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, final

import typer
from typer.core import TyperGroup

VERBS: Mapping[str, str] = {
    "demo": (
        "Train a small Transformer on dates in 22 languages, score it, and show where it looked."
    ),
    "learn": "Learn attention in ten short chapters: read, run, and see every number.",
    "list": "List every mechanism.",
    "explain": "Explain a mechanism: equation, settings, cost, the path it takes, a drawing.",
    "new": (
        "Write a recipe for your own files: what they are for, how large a model, how long a "
        "training."
    ),
    "recipe": "List the shipped recipes, or print one to change.",
    "train": "Train a model by a recipe.",
    "plan": "Say what a recipe will take: parameters, updates, memory, time and disk.",
    "predict": "Answer texts with a trained run; without files and --text, standard input is read.",
    "evaluate": (
        "Score a run: BLEU, chrF, TER, exact match, length ratio, loss, perplexity and speed."
    ),
    "compare": (
        "Compare systems on the same sentences: differences, p-values, and where they come from."
    ),
    "average": "Average weights of one shape, and make a finished run of the mean.",
    "verify": (
        "Check a run's card: the hashes of its files and data, and its scores, computed again."
    ),
    "runs": "List runs with their task, scores, size and date, the newest first.",
    "show": (
        "Tell a run's story: what it is for, its data, model, training and scores, how to use it."
    ),
    "look": "Show which source words each target word came from: coloured words in the terminal.",
    "import": "Make a run of a published model, on which predict, look and evaluate work.",
    "export": "Write a run in another library's layout.",
    "serve": "Serve runs to people and programs: the studio, and an API with queues and bounds.",
    "doctor": (
        "Look for what is wrong with data: exit 0 when it is clean, 1 when something was found."
    ),
    "bench": "Measure time and memory, as ratios to peers measured in the same run.",
}
"""The first sentence of each verb's help."""

_PYTHON_NAMES = {"list": "list_", "import": "import_"}
"""The module of a verb, and its function, where Python keeps the word for itself."""


def load_verb(name: str) -> Any:
    """The command of a verb, which reads the arguments and runs it."""
    word = _PYTHON_NAMES.get(name, name)
    found = getattr(import_module(f"regard.cli.{word}"), word)
    if not isinstance(found, typer.Typer):
        alone = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
        )
        alone.command(name)(found)
        found = alone
    return typer.main.get_command(found)


def not_loaded() -> None:
    """Stand for a verb in the list of verbs; `VerbGroup` loads the verb before it is run."""


@final
class VerbGroup(TyperGroup):
    """All verbs, each loaded when it is used."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the verb that the first word names, and load it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load_verb(name), rest
