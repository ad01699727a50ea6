"""Engine: a run answers by CTranslate2, in float32 or int8.

    --engine ctranslate2
    --engine ctranslate2:quantization=int8
    --engine ctranslate2:cache=temporary

The model is converted once, and kept in RUN/engines/ctranslate2 with the hash of the weights it was
made from; `cache=temporary` writes nothing into the run. When it is opened it answers the run's own
examples, and must write what torch writes.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from regard.choices import find
from regard.data.atomic_writes import written_beside
from regard.data.files import Unreadable, read_json
from regard.errors import NotPortable, RunError, SettingError
from regard.hardware.hardware import Hardware
from regard.interop.answers import compared_answers
from regard.interop.ctranslate2.folder import ABOUT, VERSION, write_model
from regard.interop.ctranslate2.model_specs import library
from regard.interop.ctranslate2.searches import READERS, CTranslate2Search
from regard.runs.trained import Trained
from regard.training.card_json import MODEL, file_hash

FOLDER = Path("engines") / "ctranslate2"
"""Where a run keeps its model for CTranslate2."""
QUANTIZATIONS = ("float32", "float16", "int8")
CACHES = ("run", "temporary")


@final
@dataclass(frozen=True)
class CTranslate2:
    """How a run is opened by CTranslate2.

    Args:
        quantization: what products are made in: "float32", "int8", or "float16" on a GPU.
        cache: "run" keeps the converted model in the run; "temporary" deletes it once it is loaded.
    """

    quantization: str = "float32"
    cache: str = "run"

    def __post_init__(self) -> None:
        find(self.quantization, dict.fromkeys(QUANTIZATIONS), key="ctranslate2: quantization")
        find(self.cache, dict.fromkeys(CACHES), key="ctranslate2: cache")

    @property
    def name(self) -> str:
        """As the command line spells it."""
        default = CTranslate2()
        settings = [
            f"{key}={value}" for key, value in vars(self).items() if value != vars(default)[key]
        ]
        return f"ctranslate2:{','.join(settings)}" if settings else "ctranslate2"

    def opened(self, run: Trained) -> CTranslate2Search:
        """The run's model in CTranslate2, which answers as the run does; else it is refused."""
        device = run.hardware.device
        if run.others:
            raise SettingError(
                "--engine ctranslate2: several runs write together only with torch. Give one run, "
                "or leave --engine out."
            )
        able = library().get_supported_compute_types(device.type)
        if self.quantization not in able:
            raise SettingError(
                f"--engine ctranslate2: {self.quantization} is not made on this {device.type}; "
                f"it makes {', '.join(sorted(able))}. Take one of {', '.join(QUANTIZATIONS)}."
            )
        try:
            with self._folder(run) as folder:
                opened_by = str(read_json(folder / ABOUT)["opened_by"])
                model = open_model(folder, opened_by, self.quantization, run.hardware)
        except NotPortable as reason:
            raise SettingError(
                f"--engine ctranslate2: the run '{run.path}' cannot be answered by it: {reason}; "
                "or leave --engine out."
            ) from reason
        if opened_by not in READERS:
            raise SettingError(
                f"--engine ctranslate2: the run '{run.path}' is an encoder, and CTranslate2 has "
                "encoders without heads, which answer nothing. Leave --engine out."
            )
        reader = READERS[opened_by]
        engine = CTranslate2Search(self.name, model, reader(run.loaded), run.loaded.target)
        return engine.with_notes(self._checked(run, engine))

    def _checked(self, run: Trained, engine: CTranslate2Search) -> tuple[str, ...]:
        compared = compared_answers(run, engine)
        if self.quantization == "float32":
            try:
                compared.check("--engine ctranslate2")
            except RunError:
                shutil.rmtree(run.path / FOLDER, ignore_errors=True)
                raise
        return (f"{self.name}: {compared}",)

    @contextmanager
    def _folder(self, run: Trained) -> Iterator[Path]:
        """A folder with the run's model as it is now."""
        weights = file_hash(run.path / MODEL)
        about = {"weights": weights}
        if self.cache == "temporary":
            with tempfile.TemporaryDirectory(prefix="regard-ctranslate2-") as name:
                write_model(Path(name), run.loaded, quantization=None, is_closed=False, about=about)
                yield Path(name)
            return
        folder = run.path / FOLDER
        if not _is_of(folder, weights):
            try:
                shutil.rmtree(folder, ignore_errors=True)
                folder.parent.mkdir(exist_ok=True)
                with written_beside(folder) as partial:
                    write_model(
                        partial, run.loaded, quantization=None, is_closed=False, about=about
                    )
            except OSError as error:
                raise RunError(
                    f"--engine ctranslate2: '{folder}' cannot be written ({error}). Take "
                    "--engine ctranslate2:cache=temporary."
                ) from error
        yield folder


def open_model(folder: Path, opened_by: str, compute_type: str, hardware: Hardware) -> Any:
    """The model in a folder; "default" computes as its weights are held."""
    threads = hardware.threads
    return getattr(library(), opened_by)(
        str(folder),
        device=hardware.device.type,
        device_index=hardware.device.index or 0,
        compute_type=compute_type,
        inter_threads=1,
        intra_threads=torch.get_num_threads() if threads is None else threads.count,
    )


def _is_of(folder: Path, weights: str | None) -> bool:
    """Whether a folder was made by this version from these weights."""
    try:
        held = read_json(folder / ABOUT)
    except (OSError, Unreadable):
        return False
    return (
        isinstance(held, dict)
        and held.get("version") == VERSION
        and (held.get("weights") == weights and held.get("ctranslate2") == library().__version__)
    )
