"""A model of transformers in a folder, opened as data.

Only architectures of transformers itself are opened, with weights in safetensors: code that a
folder brings is never run, and no pickle is opened.
"""

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from regard.errors import MissingExtra
from regard.hardware.memory import available_memory
from regard.interop.importing.folder import CONFIG, Folder
from regard.interop.importing.hub_cache import folder_named

WHO = "look: --model"
ADAPTER = "adapter_config.json"
BYTES = 4
"""Of a number as it is computed with."""
MAX_SHARE, SPARE_NUMBERS = 2, 1 << 26
"""How many times the stored numbers a model may have, and how many more that it computes."""
READERS = {
    "input_ids": ("AutoTokenizer", "tokenizer.json"),
    "pixel_values": ("AutoImageProcessor", "preprocessor_config.json"),
}
"""By the input of a model: what makes it, and the file that describes how."""


@final
@dataclass(frozen=True)
class PublishedModel:
    """A model of a folder with what makes its inputs: a tokenizer, or a processor of pictures."""

    folder: Folder
    model: Any
    reader: Any

    @property
    def reads_pictures(self) -> bool:
        """Whether its inputs are pictures."""
        return bool(self.model.main_input_name == "pixel_values")


def open_folder(path: Path | str, who: str = WHO) -> PublishedModel:
    """Open the model of a folder, running nothing that the folder brings; errors name `who`."""
    folder = Folder(folder_named(str(path), who), who)
    _check_safe(folder)
    library = _transformers()
    kind = _architecture(folder, library)
    _check_size(folder, library, kind)
    if kind.main_input_name not in READERS:
        raise folder.refusal(
            f": {kind.__name__} reads {kind.main_input_name}, and texts and pictures can be looked "
            "at. Record it in Python: with regard.capture(model) as record."
        )
    return PublishedModel(folder, _loaded(folder, kind), _reader(folder, library, kind))


def _check_safe(folder: Folder) -> None:
    """Refuse code and pickles before any library reads the folder."""
    folder.check_safe()
    for path in folder.path.glob("*.json"):
        # a library that reads them would measure none
        folder.parsed(path.name)
    if folder.has(ADAPTER):
        raise folder.refusal(
            " is an adapter, whose other half is elsewhere. Merge it into its model, and save it.",
            ADAPTER,
        )
    if folder.config.get("quantization_config"):
        raise folder.refusal(
            ": 'quantization_config' says that the weights are quantised, and such are not read. "
            "Fetch the model in float16, bfloat16 or float32.",
            CONFIG,
        )
    # also tells a pickle, and files that are missing
    n_tensors = len(folder.tensor_names())
    for name, count in folder.config.items():
        # as many empty layers would be made first
        if ("layers" in name or name == "n_layer") and isinstance(count, int) and count > n_tensors:
            raise folder.refusal(
                f": '{name}' is {count:,}, and the folder has {n_tensors:,} tensors: they are of "
                "different models. Fetch both from one place.",
                CONFIG,
            )


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtra(
            "look: --model needs transformers: pip install 'regard[transformers]'."
        ) from error
    return transformers


def _architecture(folder: Folder, library: Any) -> Any:
    """The class of the model, which must be one of transformers itself."""
    names = folder.config.get("architectures") or []
    name = names[0] if isinstance(names, list) and names else None
    kind = getattr(library, name, None) if isinstance(name, str) else None
    if not (isinstance(kind, type) and issubclass(kind, library.PreTrainedModel)):
        raise folder.refusal(
            f": 'architectures' names {name!r}, which transformers {library.__version__} does not "
            "have. Give the folder of a model as save_pretrained writes it.",
            CONFIG,
        )
    return kind


def _check_size(folder: Folder, library: Any, kind: Any) -> None:
    """Refuse a configuration of other sizes than the weights, of which no number is made yet."""
    stored = sum(map(math.prod, folder.tensor_shapes().values()))
    if BYTES * stored > (free := available_memory()):
        raise folder.refusal(
            f": its weights take {BYTES * stored / 2**30:,.1f} GiB, and this machine has "
            f"{free / 2**30:,.1f} free. Look at it on a larger one."
        )
    with quiet(), torch.device("meta"):
        try:
            config = library.AutoConfig.from_pretrained(
                str(folder.path),
                local_files_only=True,
                trust_remote_code=False,
            )
            # a folder may name a kernel that would be fetched
            config._attn_implementation = "eager"
            made = kind(config)
        except Exception as error:  # a damaged folder raises errors of many types
            raise folder.refusal(f" cannot be opened: {_first_line(error)}") from error
    count = sum(one.numel() for one in (*made.parameters(), *made.buffers()))
    if count > MAX_SHARE * stored + SPARE_NUMBERS:
        raise folder.refusal(
            f" describes {count:,} numbers, and the folder has {stored:,}: they are of different "
            "models. Fetch both from one place.",
            CONFIG,
        )


def _loaded(folder: Folder, kind: Any) -> Any:
    with quiet():
        try:
            model, report = kind.from_pretrained(
                str(folder.path),
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                # a folder may name a kernel that would be fetched
                attn_implementation="eager",
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
        except Exception as error:  # a damaged folder raises errors of many types
            raise folder.refusal(f" cannot be opened: {_first_line(error)}") from error
    _check_weights(folder, report)
    for name, weight in model.named_parameters():
        if not bool(weight.isfinite().all()):
            raise folder.refusal(
                f": '{name}' holds numbers that are NaN or infinite: it was damaged, or its "
                "training failed. Fetch it again."
            )
    return model.eval().float()


def _check_weights(folder: Folder, report: Any) -> None:
    """Refuse weights of other shapes, or missing ones, which transformers would draw at random."""
    if wrong := sorted(report["mismatched_keys"], key=str):
        name, stored, expected = wrong[0]
        raise folder.refusal(
            f": '{name}' has the shape {tuple(stored)}, and {CONFIG} says {tuple(expected)}. The "
            "configuration and the weights are of different models; fetch both from one place."
        )
    # nothing looks at what a pooler gives
    missing = sorted(name for name in report["missing_keys"] if "pooler" not in name)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise folder.refusal(
            f" lacks the weights '{missing[0]}'{more}, without which the model would be random. "
            "Fetch the whole model, or name the architecture that was saved in config.json."
        )


def _reader(folder: Folder, library: Any, kind: Any) -> Any:
    """The tokenizer, or the processor of pictures."""
    name, files = READERS[kind.main_input_name]
    reason = "its vocabulary is empty"
    with quiet():
        try:
            reader = getattr(library, name).from_pretrained(
                str(folder.path), local_files_only=True, trust_remote_code=False
            )
        except Exception as error:  # as above
            reader, reason = None, _first_line(error)
    # without its files transformers makes a tokenizer that knows no word
    knows_words = reader is not None and (
        name != "AutoTokenizer" or len(reader) > len(set(reader.all_special_ids))
    )
    if not knows_words:
        raise folder.refusal(
            f" does not say how its inputs are made ({reason}). Fetch the other files of the model "
            f"too, such as {files}."
        )
    return reader


@contextmanager
def quiet() -> Iterator[None]:
    """Without the bars, notes and warnings of transformers."""
    logging: Any = _transformers().utils.logging
    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0].rstrip(".") if text else type(error).__name__
