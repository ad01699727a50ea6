"""Finished runs: a directory becomes a model that works, alone or beside others.

Files are data: whatever they hold, nothing of it runs.
"""

from pathlib import Path

from regard.errors import CheckpointError, RunError
from regard.models import build_model, shapes_of
from regard.recipes.recipe import read_recipe
from regard.tasks import task_of
from regard.tasks.loaded import Loaded, load_subwords
from regard.training.checkpoints import load_weights, tensor_forms
from regard.training.starting_weights import finished_weights


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


def _check_shapes(path: Path, wanted: dict[str, tuple[int, ...]]) -> None:
    held = {name: shape for name, (_, shape) in tensor_forms(path).items()}
    for name, shape in wanted.items():
        if name in held and held[name] != shape:
            raise CheckpointError(
                f"'{path}': '{name}' must be {shape} by the recipe, got {held[name]}."
            )
    if missing := sorted(wanted.keys() - held.keys()):
        raise CheckpointError(f"'{path}' lacks {missing[:3]}, which the recipe asks for.")


def check_can_write_together(first: Loaded, other: Loaded, who: str, with_whom: str) -> None:
    """Refuse a run that reads or writes other pieces than the first, or other sources.

    Args:
        first: what the others must be like.
        other: one of them.
        who: the other, for errors.
        with_whom: the first, for errors.
    """
    if _vocabularies(other) != _vocabularies(first):
        raise RunError(
            f"{who} has other vocabularies than {with_whom}. Train it with training.start_from, or "
            "with the same data and [tokens]."
        )
    if _sources(other) != _sources(first):
        raise RunError(
            f"{who} looks at other sources than {with_whom}: texts or pictures, of one size and "
            "framing, must be the same for all."
        )


def _vocabularies(run: Loaded) -> tuple[str, str]:
    return run.source.fingerprint, run.target.fingerprint


def _sources(run: Loaded) -> tuple[object, ...]:
    return task_of(run.recipe).sources.form(run.recipe)
