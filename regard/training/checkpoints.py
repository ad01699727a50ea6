"""Checkpoints: one directory each with safetensors and JSON, either complete or absent.

    checkpoints/step-000500/   model.safetensors  optimiser.safetensors  state.json
                               hashes.json  average.safetensors  if a moving average is kept

hashes.json shows later damage (checkpoint_hashes.py), and optimiser.safetensors holds the random
states of every worker too. A checkpoint is written under another name and renamed when it is on
disk, so that a kill leaves the last one whole.
"""

import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.data.atomic_writes import as_any_file, sync_all, write_text, written_beside
from regard.data.files import Unreadable, check_is_regular, read_json
from regard.errors import CheckpointError
from regard.hardware.hardware import CPU_STATE, gpu_state, random_states, restore
from regard.recipes.optimisers import remembered_by
from regard.recipes.sections import read_fields
from regard.training.checkpoint_hashes import write_hashes
from regard.training.loss_scale import LossScale

NAME = re.compile(r"step-\d+")
ENVIRONMENT = "environment.json"
"""The file, in the run, of what it was begun with."""
DECODED_EXAMPLES = "decoded_examples"
"""The entry there of how many examples each validation decodes, once that is chosen."""
MAX_COUNT = 2**63
"""The limit of the counts of a progress (exclusive)."""
_DELETE = "Or delete '{}': --resume goes on from the checkpoint before it, or from the start."
TensorForm = tuple[str, tuple[int, ...]]
"""The type and the shape of a tensor, as a safetensors file names them."""


@dataclass(frozen=True)
class Progress:
    """The progress of a training, besides its tensors."""

    step: int = 0
    epoch: int = 0
    update: int = 0
    """Updates done in this epoch."""
    target_tokens: int = 0
    best_loss: float | None = None
    best_bleu: float | None = None
    best_step: int = 0
    """The update with the best score of early stopping."""
    stale: int = 0
    """Validations since the best one."""
    loss_scale: LossScale | None = None
    """The loss scale of a training in float16."""
    environment: dict[str, str] = field(default_factory=dict)
    """What bit-equality depends on (torch, CPU capability, threads), and why it is so."""


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    *,
    random: Mapping[str, Tensor] | None = None,
    average: Mapping[str, Tensor] | None = None,
    run_hashes: Mapping[str, str | None] | None = None,
) -> Path:
    """Write a checkpoint into the folder of all; it has its name only once it is complete.

    `random` are the random states of all workers, or of this process, `average` is the moving
    average of the weights, if one is kept, and `run_hashes` are of what the training reads.
    """
    states = random_states(_device(model)) if random is None else random
    path = folder / f"step-{progress.step:06d}"
    try:
        with written_beside(path) as partial:
            partial.mkdir(parents=True)
            write_tensors(partial / "model.safetensors", distinct_tensors(model))
            remembered = {
                f"{key}.{name}": torch.as_tensor(value).detach().cpu().contiguous()
                for name, parameter in model.named_parameters()
                for key, value in optimiser.state[parameter].items()
            }
            write_tensors(partial / "optimiser.safetensors", {**states, **remembered})
            if average is not None:
                on_cpu = {name: weight.cpu() for name, weight in average.items()}
                write_tensors(partial / "average.safetensors", on_cpu)
            write_text(partial / "state.json", json.dumps(asdict(progress), indent=1) + "\n")
            write_hashes(partial, run_hashes or {})
            if path.exists():
                # an old one of the same update is deleted once the new one is on disk
                sync_all(partial)
                shutil.rmtree(path)
    except (OSError, SafetensorError) as error:
        before = checkpoints(folder)
        last = f"the last whole one is '{before[-1].name}'" if before else "there is none yet"
        raise OSError(
            f"checkpoint '{path}' cannot be written ({error}); {last}. Make room and go on with "
            "--resume."
        ) from error
    return path


def load_checkpoint(
    path: Path, model: nn.Module, optimiser: torch.optim.Optimizer, *, suffix: str = ""
) -> Progress:
    """Restore model, optimiser and random states.

    `suffix` is that of the names of this worker's random states; the first worker has none.
    """
    progress = read_progress(path)
    try:
        load_weights(path / "model.safetensors", model)
        tensors = read_tensors(path / "optimiser.safetensors")
        if CPU_STATE not in tensors:
            raise CheckpointError(f"checkpoint '{path}': '{CPU_STATE}' is missing.")
        names = (
            name for name in (CPU_STATE, gpu_state(_device(model))) if name + suffix in tensors
        )
        restore({name: tensors[name + suffix] for name in names}, _device(model))
        kept = remembered_by(optimiser)
        for name, parameter in model.named_parameters():
            # there is no state for a frozen parameter
            if parameter.requires_grad:
                optimiser.state[parameter] = _remembered(path, tensors, kept, name, parameter)
    except CheckpointError as error:
        raise CheckpointError(f"{error} {_DELETE.format(path)}") from error
    return progress


def _remembered(
    path: Path, tensors: Mapping[str, Tensor], kept: tuple[str, ...], name: str, parameter: Tensor
) -> dict[str, Tensor]:
    own = {key: tensors[f"{key}.{name}"] for key in kept if f"{key}.{name}" in tensors}
    if len(own) < len(kept):
        raise CheckpointError(f"checkpoint '{path}': the optimiser knows nothing of '{name}'.")
    form = (parameter.shape, parameter.dtype)
    for key, each in own.items():
        is_count = key == "step" and each.numel() == 1 and each.is_floating_point()
        if not is_count and (key == "step" or (each.shape, each.dtype) != form):
            raise CheckpointError(f"checkpoint '{path}': '{name}' has another shape or type.")
    return {key: each.to(parameter.device) for key, each in own.items()}


def read_progress(path: Path) -> Progress:
    """The progress at which a checkpoint was written."""
    try:
        progress = _as_progress(read_json(path / "state.json"))
        if path.name != f"step-{progress.step:06d}":
            raise Unreadable(f"is of step {progress.step}")
    except Unreadable as error:
        raise CheckpointError(
            f"checkpoint '{path}': state.json {error}. Put back a whole copy of it. "
            f"{_DELETE.format(path)}"
        ) from error
    return progress


def first_progress(run: Path, progress: Progress) -> Progress:
    """The first progress of a training; a restarted run keeps its first environment."""
    if not (run / ENVIRONMENT).exists():
        write_environment(run, progress.environment)
    return replace(progress, environment=read_environment(run))


def read_environment(run: Path) -> dict[str, str]:
    """What a run was begun with, and what was chosen for it; nothing where it is not recorded."""
    path = run / ENVIRONMENT
    if not path.exists():
        return {}
    try:
        return _as_progress({"environment": read_json(path)}).environment
    except Unreadable as error:
        raise CheckpointError(
            f"'{path}' {error}. Delete it: the training then begins with what this machine has."
        ) from error


def write_environment(run: Path, environment: Mapping[str, str]) -> None:
    """Write what a run was begun with, which it keeps until it has a checkpoint, and after."""
    write_text(run / ENVIRONMENT, json.dumps(environment, indent=1) + "\n")


def _as_progress(fields: Any) -> Progress:
    progress = read_fields(Progress, fields)
    for name, value in vars(progress).items():
        if type(value) is int and not 0 <= value < MAX_COUNT:
            raise Unreadable(f"must hold a count as '{name}', got {value:.3g}")
    for name in ("threads", DECODED_EXAMPLES):
        count = progress.environment.get(name, "1")
        if not re.fullmatch(r"[1-9]\d{0,3}", count):
            raise Unreadable(f"must hold a count as 'environment.{name}', got {count[:40]!r}")
    return progress


def checkpoints(folder: Path) -> list[Path]:
    """Every complete checkpoint, by the number of its update."""
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted((p for p in found if NAME.fullmatch(p.name) and p.is_dir()), key=update_of)


def prune(folder: Path, *, keep: int, best_step: int) -> None:
    """Keep the newest and the best."""
    for path in checkpoints(folder)[:-keep]:
        if update_of(path) != best_step:
            shutil.rmtree(path)


def distinct_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The state of a model, with each shared tensor once."""
    first: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict().items():
        first.setdefault(tensor.data_ptr(), (name, tensor))
    return {name: tensor.detach().cpu().contiguous() for name, tensor in first.values()}


@torch.no_grad()
def load_weights(path: Path, model: nn.Module) -> None:
    """Read weights into a model of the same shape; anything else is refused."""
    tensors, own = read_tensors(path), model.state_dict()
    wanted = distinct_tensors(model)
    missing = sorted(wanted.keys() - tensors.keys())
    strange = sorted(tensors.keys() - wanted.keys())
    if missing or strange:
        raise CheckpointError(
            f"'{path}' is not this model's: it lacks {missing[:3] or 'nothing'} and has "
            f"{strange[:3] or 'nothing'} beside it."
        )
    for name, tensor in tensors.items():
        if tensor.shape != own[name].shape or tensor.dtype != own[name].dtype:
            raise CheckpointError(
                f"'{path}': '{name}' must be {tuple(own[name].shape)} of {own[name].dtype}, got "
                f"{tuple(tensor.shape)} of {tensor.dtype}."
            )
    for name, tensor in tensors.items():
        own[name].copy_(tensor)


def read_tensors(path: Path, names: Iterable[str] | None = None) -> dict[str, Tensor]:
    """Read a safetensors file, or some of its tensors; any other file is refused, a pickle too."""
    with _reading(path):
        if names is None:
            return load_file(path)
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in names}


def tensor_forms(path: Path) -> dict[str, TensorForm]:
    """The type and shape of each tensor in a safetensors file; the numbers are not read."""
    with _reading(path), safe_open(path, framework="pt") as file:
        slices = ((name, file.get_slice(name)) for name in [*file.keys()])
        return {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """A context in which a safetensors file is read; an error if it is damaged."""
    try:
        check_is_regular(path)
        yield
    except Unreadable as error:
        raise CheckpointError(f"'{path}' {error}. Put back a whole copy of it.") from error
    except (OSError, RuntimeError, SafetensorError, ValueError) as error:
        raise CheckpointError(
            f"'{path}' cannot be read as safetensors: {error}. Put back a whole copy of it."
        ) from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write beside the name, then rename."""
    with written_beside(path) as partial, as_any_file(partial):
        try:
            save_file(dict(tensors), partial)
        except SafetensorError as error:
            # its errors of the system are of no system's type
            raise OSError(f"'{path}' cannot be written: {error}. Make room.") from error


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def update_of(path: Path) -> int:
    """The number of the update after which a checkpoint was written."""
    return int(path.name.removeprefix("step-"))
