"""A run directory → a model that works. Files are data: whatever they hold, nothing of it runs.

Sizes are checked before anything is allocated: what the recipe and the vocabulary say must be what
the weights' file holds, to the last shape.
"""

from dataclasses import dataclass
from pathlib import Path

from regard.data.carrying import for_sources
from regard.data.files import names_like
from regard.data.subwords import Subwords
from regard.errors import CheckpointError, RegardError, RunError
from regard.models import Model, build_model, shapes_of
from regard.training.checkpoints import load_weights, tensor_forms
from regard.training.recipes import Recipe, read_recipe


@dataclass(frozen=True)
class Loaded:
    """What a finished run gives."""

    recipe: Recipe
    source: Subwords
    target: Subwords
    model: Model


def load_run(path: Path) -> Loaded:
    """Read a finished run; anything that does not fit together is refused."""
    weights = finished_weights(path)
    recipe = read_recipe(path / "recipe.toml")
    source, target = load_subwords(recipe, path)
    wanted = shapes_of(recipe.model, n_source_tokens=len(source), n_target_tokens=len(target))
    _check_shapes(weights, wanted)
    model = build_model(recipe.model, n_source_tokens=len(source), n_target_tokens=len(target))
    load_weights(weights, model)
    return Loaded(recipe, source, target, model.eval())


def finished_weights(path: Path) -> Path:
    """The weights of a finished run."""
    weights = path / "model.safetensors"
    if path.is_file():
        raise RunError(
            f"'{path}' is not a finished run but a file. Give the folder that regard train made."
        )
    if not path.is_dir():
        raise RunError(
            f"'{path}' is not a finished run: there is no such folder. {names_like(path)}"
        )
    if not weights.exists():
        raise RunError(
            f"'{path}' is not a finished run: there is no model.safetensors in it. Train it to its "
            "end with regard train --resume."
        )
    return weights


def subword_files(recipe: Recipe) -> tuple[str, ...]:
    """The names of a run's vocabularies: one for both sides, or the source's and the target's."""
    if recipe.tokens.is_joint:
        return ("tokenizer.json",)
    return ("tokenizer.source.json", "tokenizer.target.json")


def load_subwords(recipe: Recipe, path: Path) -> tuple[Subwords, Subwords]:
    """The source's and the target's sub-words of a run; joint ones are one object.

    Those that carry trees are two, since a source must bring its tree and a target has none.
    """
    read = [Subwords.load(path / name) for name in subword_files(recipe)]
    return for_sources(read[0]), read[-1]


def start_from(run: Path, model: Model) -> None:
    """Give a model the weights of a finished run."""
    try:
        load_weights(finished_weights(run), model)
    except RegardError as error:
        raise RunError(
            f"training.start_from: {error} Expected a finished run whose [model] and tokens are "
            "this recipe's."
        ) from error


def _check_shapes(path: Path, wanted: dict[str, tuple[int, ...]]) -> None:
    held = {name: shape for name, (_, shape) in tensor_forms(path).items()}
    for name, shape in wanted.items():
        if name in held and held[name] != shape:
            raise CheckpointError(
                f"'{path}': '{name}' must be {shape} by the recipe, got {held[name]}."
            )
    if missing := sorted(wanted.keys() - held.keys()):
        raise CheckpointError(f"'{path}' lacks {missing[:3]}, which the recipe asks for.")
