"""What regard predict --vectors writes: a row for each text."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from regard.cli.progress import counting
from regard.data.atomic_writes import written_beside
from regard.data.permissions import as_any_file
from regard.errors import SettingError
from regard.runs.trained import Trained


def _npy(path: Path, rows: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, rows)


def _safetensors(path: Path, rows: np.ndarray) -> None:
    with as_any_file(path):
        save_file({"vectors": rows}, path)


FORMATS: Mapping[str, Callable[[Path, np.ndarray], None]] = {
    ".npy": _npy,
    ".safetensors": _safetensors,
}
"""How vectors are written, by the end of the file's name."""


def check_file(path: Path) -> None:
    """Refuse a file that cannot be written, before the vectors are computed."""
    if path.suffix not in FORMATS:
        raise SettingError(f"predict: --vectors ends in {' or '.join(FORMATS)}; got '{path}'.")
    if not path.parent.is_dir():
        raise SettingError(f"predict: there is no folder '{path.parent}' for '{path.name}'.")


def write_vectors(trained: Trained, texts: Sequence[str], path: Path) -> None:
    """Write the vectors of all texts, in their order, beside the name, and rename."""
    with counting("vectors", len(texts)) as each:
        rows = trained.vectors(texts, each=each).numpy()
    with written_beside(path) as partial:
        FORMATS[path.suffix](partial, rows)
