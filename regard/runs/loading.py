"""A run directory → a model that works. Files are data: whatever they hold, nothing of it runs.

Sizes are checked before anything is allocated: what the recipe and the vocabulary say must be what
the weights' file holds, to the last shape.
"""

from pathlib import Path

from regard.errors import CheckpointError
from regard.models import build_model, shapes_of
from regard.recipes.recipe import read_recipe
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
