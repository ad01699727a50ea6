"""A folder in Hugging Face's layout, read as data: config.json, safetensors, and text files.

    config.json                         sizes and switches
    model.safetensors                   the weights, in one file
    model.safetensors.index.json        or which of several files holds each of them
    tokenizer.json · vocab.json · *.spm the vocabulary

No code of such a folder is run, and what asks for code is refused. A pickle (pytorch_model.bin) can
run code, so it is never opened. A link must end in the folder, or in what a hub's cache keeps of
the same model. Files are measured before they are read.
"""

from collections.abc import Collection, Mapping, Sequence
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
MAX_BYTES = 1 << 26
"""A larger file of text is no configuration and no vocabulary."""
MAX_SETTINGS = 1 << 24
"""A larger file is no configuration."""
SETTINGS = (
    CONFIG, "tokenizer_config.json", "preprocessor_config.json", "processor_config.json",
    "generation_config.json",
)  # fmt: skip
"""Files of a folder that may name code."""
SNAPSHOTS, CACHED = "snapshots", "models--"
"""How a hub's cache names the folder of revisions, and that of a model."""


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
    def home(self) -> Path:
        """The folder in which every link must end."""
        here = self.path.resolve()
        is_cached = here.parent.name == SNAPSHOTS and here.parents[1].name.startswith(CACHED)
        return here.parents[1] if is_cached else here

    def check_safe(self) -> None:
        """Refuse links out of the folder, and what asks for code to be run."""
        for path in sorted(self.path.iterdir()):
            self.file(path.name)
        for name in SETTINGS:
            if self.has(name) and (found := _named_code(self.json(name))):
                raise self.refusal(
                    f" wants code of its own to be run (auto_map: {found}), and it is never run. "
                    "Take a model of an architecture that transformers has itself.",
                    name,
                )

    def file(self, name: str) -> Path:
        """The path of a file; one that is a link out of the folder is refused."""
        path = self.path / name
        if path.is_symlink() and not path.resolve().is_relative_to(self.home):
            raise self.refusal(
                f" is a link out of the folder, to '{path.resolve()}', and such are not followed. "
                "Copy the file into the folder.",
                name,
            )
        return path

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
        held = self.parsed(name)
        if not isinstance(held, dict):
            raise self.refusal(f" must hold an object, got a {type(held)}.", name)
        return held

    def parsed(self, name: str) -> Any:
        """What a file of JSON holds."""
        if not self.has(name):
            raise self.refusal(
                f" has no {name}. Give a folder in Hugging Face's layout: {CONFIG}, {WEIGHTS} and "
                "a vocabulary."
            )
        try:
            return parse_json(self.text(name))
        except Unreadable as error:
            raise self.refusal(f" {error}.", name) from error

    def text(self, name: str) -> str:
        """The text of a file, without a byte order mark."""
        most = MAX_SETTINGS if name in SETTINGS else MAX_BYTES
        path = self.file(name)
        if path.stat().st_size > most:
            raise self.refusal(f" is larger than {most >> 20} MiB.", name)
        try:
            return read_text(path).removeprefix("\ufeff")
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

    def tensors(self, names: Collection[str]) -> dict[str, Tensor]:
        """Some of the weights, by the names that the folder gives them."""
        found: dict[str, Tensor] = {}
        for path, here in self._files().items():
            found |= read_tensors(path, [name for name in here if name in names])
        return found

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of all weights; no numbers are read."""
        return {
            name: shape for path in self._files() for name, (_, shape) in tensor_forms(path).items()
        }

    def tensor_names(self) -> set[str]:
        """The names of all weights."""
        return {name for names in self._files().values() for name in names}

    def _files(self) -> dict[Path, list[str]]:
        """The files of weights, and the names that each of them holds."""
        if not self.has(INDEX):
            path = self._weights(WEIGHTS)
            return {path: [*tensor_forms(path)]}
        places = self.json(INDEX).get("weight_map")
        if not isinstance(places, dict):
            raise self.refusal(" has no 'weight_map'.", INDEX)
        files: dict[Path, list[str]] = {}
        for name, file in places.items():
            files.setdefault(self._weights(str(file)), []).append(name)
        for path, names in files.items():
            if lacking := sorted({*names} - tensor_forms(path).keys()):
                raise self.refusal(
                    f" lacks '{lacking[0]}', which {INDEX} says is there.", path.name
                )
        return files

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
        return self.file(name)


def _named_code(held: Any) -> str:
    """The code that an object of a file names, however deep; empty if it names none."""
    found, left = set[str](), [held]
    while left:
        one = left.pop()
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        own = one.get("auto_map") if isinstance(one, dict) else None
        if own:
            found |= {str(name) for name in own.values()} if isinstance(own, dict) else {str(own)}
    return ", ".join(sorted(found))
