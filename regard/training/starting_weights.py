"""Weights of a finished run, and a training that starts from them."""

from pathlib import Path

from regard.data.files import names_like
from regard.errors import RegardError, RunError
from regard.models import Model
from regard.training.checkpoints import load_weights


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


def start_from(run: Path, model: Model) -> None:
    """Give a model the weights of a finished run."""
    try:
        load_weights(finished_weights(run), model)
    except RegardError as error:
        raise RunError(
            f"training.start_from: {error} Expected a finished run whose [model] and tokens are "
            "this recipe's."
        ) from error
