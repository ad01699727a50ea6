"""A run directory → a model that works. Files are data: whatever they hold, nothing of it runs.

Sizes are checked before anything is allocated: what the recipe and the vocabulary say must be what
the weights' file holds, to the last shape.
"""

from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from regard.data.subwords import Subwords
from regard.errors import CheckpointError, RunError
from regard.models import Transformer, build_transformer, transformer_shapes
from regard.training.checkpoints import load_weights
from regard.training.recipes import Recipe, read_recipe


@dataclass(frozen=True)
class Loaded:
    """What a finished run gives."""

    recipe: Recipe
    source: Subwords
    target: Subwords
    model: Transformer


def load_run(path: Path) -> Loaded:
    """Read a finished run; anything that does not fit together is refused."""
    weights = path / "model.safetensors"
    if not weights.is_file():
        raise RunError(
            f"'{path}' is not a finished run: there is no model.safetensors in it. Train it to its "
            "end with regard train --resume."
        )
    recipe = read_recipe(path / "recipe.toml")
    if recipe.tokens.is_joint:
        source = target = Subwords.load(path / "tokenizer.json")
    else:
        source = Subwords.load(path / "tokenizer.source.json")
        target = Subwords.load(path / "tokenizer.target.json")
    wanted = transformer_shapes(
        recipe.model, n_source_tokens=len(source), n_target_tokens=len(target)
    )
    _check_shapes(weights, wanted)
    model = build_transformer(
        recipe.model, n_source_tokens=len(source), n_target_tokens=len(target)
    )
    load_weights(weights, model)
    return Loaded(recipe, source, target, model.eval())


def _check_shapes(path: Path, wanted: dict[str, tuple[int, ...]]) -> None:
    try:
        with safe_open(path, framework="pt") as file:
            names = file.keys()
            held = {name: tuple(file.get_slice(name).get_shape()) for name in names}
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"'{path}' cannot be read as safetensors: {error}.") from error
    for name, shape in wanted.items():
        if name in held and held[name] != shape:
            raise CheckpointError(
                f"'{path}': '{name}' must be {shape} by the recipe, got {held[name]}."
            )
    if missing := sorted(wanted.keys() - held.keys()):
        raise CheckpointError(f"'{path}' lacks {missing[:3]}, which the recipe asks for.")
