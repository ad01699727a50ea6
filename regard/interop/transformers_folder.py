"""A model of transformers in a folder, opened as data.

Only architectures of transformers itself are opened, with weights in safetensors: code that a
folder brings is never run, and no pickle is opened.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from regard.errors import MissingExtra
from regard.interop.importing.folder import CONFIG, Folder

WHO = "look: --model"
SETTINGS = (
    CONFIG, "tokenizer_config.json", "preprocessor_config.json", "processor_config.json",
    "generation_config.json",
)  # fmt: skip
"""Files of a folder that may name code."""
ADAPTER = "adapter_config.json"
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


def open_folder(path: Path | str) -> PublishedModel:
    """Open the model of a folder, running nothing that the folder brings."""
    folder = Folder(Path(path), WHO)
    _check_safe(folder)
    library = _transformers()
    kind = _architecture(folder, library)
    if kind.main_input_name not in READERS:
        raise folder.refusal(
            f": {kind.__name__} reads {kind.main_input_name}, and texts and pictures can be looked "
            "at. Record it in Python: with regard.capture(model) as record."
        )
    return PublishedModel(folder, _loaded(folder, kind), _reader(folder, library, kind))


def _check_safe(folder: Folder) -> None:
    """Refuse code and pickles before any library reads the folder."""
    for name in SETTINGS:
        if folder.has(name) and (found := _named_code(folder.json(name))):
            raise folder.refusal(
                f" wants code of its own to be run (auto_map: {found}), and it is never run. Take "
                "a model of an architecture that transformers has itself.",
                name,
            )
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


def _named_code(held: Any) -> str:
    """The code that an object of a file names, however deep; empty if it names none."""
    inside = held.values() if isinstance(held, dict) else held if isinstance(held, list) else ()
    deeper = [named for one in inside if (named := _named_code(one))]
    own = held.get("auto_map") if isinstance(held, dict) else None
    if isinstance(own, dict):
        deeper += [str(one) for one in own.values()]
    elif own:
        deeper.append(str(own))
    return ", ".join(sorted(set(deeper)))


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
