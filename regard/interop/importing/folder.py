"""A folder in Hugging Face's layout, read as data: config.json, safetensors, and text files.

    config.json                         sizes and switches
    model.safetensors                   the weights, in one file
    model.safetensors.index.json        or which of several files holds each of them
    tokenizer.json · vocab.json · *.spm the vocabulary

Nothing in such a folder is run. A pickle (pytorch_model.bin) could be, so it is never opened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, final

from torch import Tensor

from regard.data.regular_files import Unreadable, parse_json, read_text
from regard.errors import CheckpointError
from regard.training.checkpoints import read_tensors, tensor_forms

T = TypeVar("T", int, float, str, bool)

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
MAX_BYTES = 1 << 28
"""A larger JSON file is no configuration and no vocabulary."""


@final
@dataclass(frozen=True)
class Folder:
    """What somebody published."""

    path: Path

    def __post_init__(self) -> None:
        if self.path.is_dir():
            return
        if self.path.exists():
            raise CheckpointError(
                f"import: '{self.path}' is a file; give its folder: '{self.path.parent}'."
            )
        raise CheckpointError(
            f"import: there is no folder '{self.path}'. Nothing is downloaded: give the folder of "
            "a model that is already here."
        )

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """Sizes and switches."""
        return self.json(CONFIG)

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return (self.path / name).is_file()

    def json(self, name: str) -> Mapping[str, Any]:
        """An object in a file."""
        path = self.path / name
        if not path.is_file():
            raise CheckpointError(
                f"import: '{self.path}' has no {name}. Give a folder in Hugging Face's layout: "
                f"{CONFIG}, {WEIGHTS} and a vocabulary."
            )
        if path.stat().st_size > MAX_BYTES:
            raise CheckpointError(f"import: '{path}' is larger than {MAX_BYTES >> 20} MiB.")
        try:
            held = parse_json(read_text(path).removeprefix("\ufeff"))
        except Unreadable as error:
            raise CheckpointError(f"import: '{path}' {error}.") from error
        if not isinstance(held, dict):
            raise CheckpointError(f"import: '{path}' must hold an object, got a {type(held)}.")
        return held

    def text(self, name: str) -> str:
        """A file of lines; a mark of the byte order before them is no part of the first."""
        try:
            return read_text(self.path / name).removeprefix("\ufeff")
        except Unreadable as error:
            raise CheckpointError(f"import: '{self.path / name}' {error}.") from error

    def setting(self, kind: type[T], *names: str) -> T:
        """A setting of the configuration, under the first of these names that it has."""
        found = next((name for name in names if self.config.get(name) is not None), None)
        value = None if found is None else self.config[found]
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise CheckpointError(
                f"import: '{self.path / CONFIG}': '{names[0]}' must be a {kind.__name__}, got "
                f"{value!r}."
            )
        return value

    def check_switches(self, switches: Mapping[str, Sequence[Any]]) -> None:
        """Settings that only work one way here; one that is not there has its usual value."""
        for name, able in switches.items():
            value = self.config.get(name, able[0])
            if value not in able:
                said = " or ".join(repr(one) for one in able)
                raise CheckpointError(
                    f"import: '{self.path / CONFIG}': '{name}' must be {said}, got {value!r}: such "
                    "models are not read."
                )

    def tensors(self) -> dict[str, Tensor]:
        """All weights by the names that the folder gives them."""
        if self.has(INDEX):
            places = self.json(INDEX).get("weight_map")
            if not isinstance(places, dict):
                raise CheckpointError(f"import: '{self.path / INDEX}' has no 'weight_map'.")
            files = sorted({str(name) for name in places.values()})
        else:
            files = [WEIGHTS]
        found: dict[str, Tensor] = {}
        for name in files:
            found |= read_tensors(self._weights(name))
        return found

    def tensor_names(self) -> set[str]:
        """The names alone, of a folder with one file of weights; they are quickly read."""
        if self.has(INDEX):
            return set(self.json(INDEX).get("weight_map", {}))
        return set(tensor_forms(self._weights(WEIGHTS)))

    def _weights(self, name: str) -> Path:
        path = self.path / name
        if Path(name).name != name or not path.is_file():
            pickled = next(self.path.glob("*.bin"), None)
            hint = (
                f" '{pickled.name}' is a pickle, which could run code and is never opened: convert "
                "it to safetensors first."
                if pickled
                else ""
            )
            raise CheckpointError(f"import: '{self.path}' has no {name}.{hint}")
        return path
