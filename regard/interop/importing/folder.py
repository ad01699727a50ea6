"""A folder in Hugging Face's layout, read as data: config.json, safetensors, and text files.

    config.json                         sizes and switches
    model.safetensors                   the weights, in one file
    model.safetensors.index.json        or which of several files holds each of them
    tokenizer.json · vocab.json · *.spm the vocabulary

No code of such a folder is run. A pickle (pytorch_model.bin) can run code, so it is never opened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, final

from torch import Tensor

from regard.data.files import Unreadable, parse_json, read_text
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
    """The folder of a published model."""

    path: Path
    who: str = "import"
    """What reads it, in errors."""

    def __post_init__(self) -> None:
        if self.path.is_dir():
            return
        if self.path.exists():
            raise self.refusal(f" is a file; give its folder: '{self.path.parent}'.")
        raise CheckpointError(
            f"{self.who}: there is no folder '{self.path}'. Nothing is downloaded: give the folder "
            "of a model that is already here."
        )

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """Sizes and switches."""
        return self.json(CONFIG)

    def refusal(self, text: str, name: str = "") -> CheckpointError:
        """An error that begins with the path of the folder, or of a file in it."""
        return CheckpointError(f"{self.who}: '{self.path / name}'{text}")

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return (self.path / name).is_file()

    def json(self, name: str) -> Mapping[str, Any]:
        """An object in a file."""
        if not self.has(name):
            raise self.refusal(
                f" has no {name}. Give a folder in Hugging Face's layout: {CONFIG}, {WEIGHTS} and "
                "a vocabulary."
            )
        if (self.path / name).stat().st_size > MAX_BYTES:
            raise self.refusal(f" is larger than {MAX_BYTES >> 20} MiB.", name)
        try:
            held = parse_json(read_text(self.path / name).removeprefix("\ufeff"))
        except Unreadable as error:
            raise self.refusal(f" {error}.", name) from error
        if not isinstance(held, dict):
            raise self.refusal(f" must hold an object, got a {type(held)}.", name)
        return held

    def text(self, name: str) -> str:
        """The text of a file, without a byte order mark."""
        try:
            return read_text(self.path / name).removeprefix("\ufeff")
        except Unreadable as error:
            raise self.refusal(f" {error}.", name) from error

    def setting(self, kind: type[T], *names: str) -> T:
        """A setting of the configuration, under the first of these names that it has."""
        found = [self.config[name] for name in names if self.config.get(name) is not None]
        value = found[0] if found else None
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise self.refusal(f": '{names[0]}' must be a {kind.__name__}, got {value!r}.", CONFIG)
        return value

    def check_switches(self, switches: Mapping[str, Sequence[Any]]) -> None:
        """Refuse settings with values that are not supported; a missing one has its default."""
        for name, able in switches.items():
            value = self.config.get(name, able[0])
            if value not in able:
                said = " or ".join(repr(one) for one in able)
                raise self.refusal(
                    f": '{name}' must be {said}, got {value!r}: such models are not read.", CONFIG
                )

    def tensors(self) -> dict[str, Tensor]:
        """All weights by the names that the folder gives them."""
        files = [WEIGHTS]
        if self.has(INDEX):
            places = self.json(INDEX).get("weight_map")
            if not isinstance(places, dict):
                raise self.refusal(" has no 'weight_map'.", INDEX)
            files = sorted({str(name) for name in places.values()})
        found: dict[str, Tensor] = {}
        for name in files:
            found |= read_tensors(self._weights(name))
        return found

    def tensor_names(self) -> set[str]:
        """The names alone, which are quickly read."""
        if self.has(INDEX):
            return set(self.json(INDEX).get("weight_map", {}))
        return set(tensor_forms(self._weights(WEIGHTS)))

    def _weights(self, name: str) -> Path:
        if Path(name).name != name or not self.has(name):
            pickled = next(self.path.glob("*.bin"), None)
            hint = (
                f" '{pickled.name}' is a pickle, which could run code and is never opened: convert "
                "it to safetensors first."
                if pickled
                else " Fetch the model's weights into the folder too: nothing is downloaded."
            )
            raise self.refusal(f" has no {name}.{hint}")
        return self.path / name
