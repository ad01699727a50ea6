"""Checkpoints: one directory each, safetensors and JSON, complete or not there at all.

    checkpoints/step-000500/   model.safetensors  optimiser.safetensors  state.json
                               average.safetensors  if a moving average is kept

optimiser.safetensors holds the random states too: of the CPU, of the GPU where there is one, and
of every worker.

A checkpoint is written under another name and renamed when it is complete and on disk, so that a
kill at any instant leaves the last one whole. Nothing in it can run.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.data.atomic_writes import sync_all, write_text, written_beside
from regard.data.json_fields import read_fields
from regard.data.permissions import as_any_file
from regard.data.regular_files import Unreadable, check_is_regular, read_json
from regard.errors import CheckpointError
from regard.hardware.random_states import CPU_STATE, CUDA_STATE, random_states, restore

NAME = re.compile(r"step-\d+")
MAX_COUNT = 2**63
"""The counts of a progress lie below it."""
_DELETE = "Or delete '{}': --resume goes on from the checkpoint before it, or from the start."
TensorForm = tuple[str, tuple[int, ...]]
"""The type and the shape of a tensor, as a safetensors file names them."""

KEPT = ("exp_avg", "exp_avg_sq", "step")
"""What Adam remembers of each parameter."""


@dataclass(frozen=True)
class Progress:
    """Where a training stands, beside its tensors."""

    step: int = 0
    epoch: int = 0
    update: int = 0
    """Updates done in this epoch."""
    target_tokens: int = 0
    best_loss: float | None = None
    best_bleu: float | None = None
    best_step: int = 0
    """Where what the recipe stops on was best."""
    stale: int = 0
    """Validations since the best."""
    environment: dict[str, str] = field(default_factory=dict)
    """What bit-equality depends on: torch, CPU capability, threads."""


def save_checkpoint(
    folder: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    *,
    random: Mapping[str, Tensor] | None = None,
    average: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write a checkpoint; it has its name only once it is complete.

    Args:
        folder: where all checkpoints are.
        model: its weights are saved.
        optimiser: what it remembers is saved.
        progress: where training stands.
        random: the random states of all workers; this process's unless given.
        average: the moving average of the weights, if one is kept.
    """
    states = random_states(_device(model)) if random is None else random
    path = folder / f"step-{progress.step:06d}"
    try:
        with written_beside(path) as partial:
            partial.mkdir(parents=True)
            write_tensors(partial / "model.safetensors", distinct_tensors(model))
            remembered = {**states, **_optimiser_tensors(model, optimiser)}
            write_tensors(partial / "optimiser.safetensors", remembered)
            if average is not None:
                kept = {name: weight.cpu() for name, weight in average.items()}
                write_tensors(partial / "average.safetensors", kept)
            write_text(partial / "state.json", json.dumps(asdict(progress), indent=1) + "\n")
            if path.exists():
                # one of the same update goes once the new one is on disk
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
    path: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    *,
    suffix: str = "",
) -> Progress:
    """Put model, optimiser and random numbers back where they stood.

    Args:
        path: the checkpoint.
        model: takes the weights.
        optimiser: takes what it remembered.
        suffix: of the names of this worker's random states; the first worker has none.
    """
    progress = read_progress(path)
    try:
        load_weights(path / "model.safetensors", model)
        tensors = read_tensors(path / "optimiser.safetensors")
        if CPU_STATE not in tensors:
            raise CheckpointError(f"checkpoint '{path}': '{CPU_STATE}' is missing.")
        kept = {n: tensors[n + suffix] for n in (CPU_STATE, CUDA_STATE) if n + suffix in tensors}
        restore(kept, _device(model))
        for name, parameter in model.named_parameters():
            optimiser.state[parameter] = _remembered(path, tensors, name, parameter)
    except CheckpointError as error:
        raise CheckpointError(f"{error} {_DELETE.format(path)}") from error
    return progress


def _remembered(
    path: Path, tensors: Mapping[str, Tensor], name: str, parameter: Tensor
) -> dict[str, Tensor]:
    """What Adam remembers of a parameter."""
    held = {key: tensors[f"{key}.{name}"] for key in KEPT if f"{key}.{name}" in tensors}
    if len(held) < len(KEPT):
        raise CheckpointError(f"checkpoint '{path}': the optimiser knows nothing of '{name}'.")
    *moments, count = held.values()
    form = (parameter.shape, parameter.dtype)
    is_count = count.numel() == 1 and count.is_floating_point()
    if not is_count or any((each.shape, each.dtype) != form for each in moments):
        raise CheckpointError(f"checkpoint '{path}': '{name}' has another shape or type.")
    return {key: each.to(parameter.device) for key, each in held.items()}


def read_progress(path: Path) -> Progress:
    """The progress a checkpoint was written at."""
    try:
        progress = read_fields(Progress, read_json(path / "state.json"))
        _check_counts(progress)
        if path.name != f"step-{progress.step:06d}":
            raise Unreadable(f"is of step {progress.step}")
    except Unreadable as error:
        raise CheckpointError(
            f"checkpoint '{path}': state.json {error}. Put back a whole copy of it. "
            f"{_DELETE.format(path)}"
        ) from error
    return progress


def first_progress(run: Path, progress: Progress) -> Progress:
    """Where a training begins; a run that is begun again has the environment it began with.

    Args:
        run: its directory, which keeps the environment.
        progress: of a training that begins now.
    """
    path = run / "environment.json"
    if not path.exists():
        write_text(path, json.dumps(progress.environment, indent=1) + "\n")
        return progress
    try:
        begun = read_fields(Progress, {"environment": read_json(path)})
        _check_counts(begun)
    except Unreadable as error:
        raise CheckpointError(
            f"'{path}' {error}. Delete it: the training then begins with what this machine has."
        ) from error
    return begun


def _check_counts(progress: Progress) -> None:
    for name, value in vars(progress).items():
        if type(value) is int and not 0 <= value < MAX_COUNT:
            raise Unreadable(f"must hold a count as '{name}', got {value:.3g}")
    threads = progress.environment.get("threads", "1")
    if not re.fullmatch(r"[1-9]\d{0,3}", threads):
        raise Unreadable(f"must hold a count as 'environment.threads', got {threads[:40]!r}")


def checkpoints(folder: Path) -> list[Path]:
    """Every complete checkpoint, by the number of its update."""
    found = folder.iterdir() if folder.is_dir() else []
    named = [path for path in found if NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(named, key=_update)


def prune(folder: Path, *, keep: int, best_step: int) -> None:
    """Keep the newest and the best."""
    for path in checkpoints(folder)[:-keep]:
        if _update(path) != best_step:
            shutil.rmtree(path)


def distinct_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The state of a model, a shared tensor once."""
    seen: dict[int, str] = {}
    out = {}
    for name, tensor in model.state_dict().items():
        if tensor.data_ptr() not in seen:
            seen[tensor.data_ptr()] = name
            out[name] = tensor.detach().cpu().contiguous()
    return out


def load_weights(path: Path, model: nn.Module) -> None:
    """Read weights into a model of the same shape; anything else is refused."""
    tensors, own = read_tensors(path), model.state_dict()
    wanted = distinct_tensors(model)
    missing, strange = (
        sorted(wanted.keys() - tensors.keys()),
        sorted(tensors.keys() - wanted.keys()),
    )
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
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file; a pickle under that name, or any other file, is refused."""
    with _reading(path):
        return load_file(path)


def tensor_forms(path: Path) -> dict[str, TensorForm]:
    """The type and shape of each tensor in a safetensors file; the numbers are not read."""
    with _reading(path), safe_open(path, framework="pt") as file:
        names = file.keys()
        slices = {name: file.get_slice(name) for name in names}
        return {name: (x.get_dtype(), tuple(x.get_shape())) for name, x in slices.items()}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Where a safetensors file is read; one that is damaged is an error that names it."""
    try:
        check_is_regular(path)
        yield
    except Unreadable as error:
        raise CheckpointError(f"'{path}' {error}. Put back a whole copy of it.") from error
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(
            f"'{path}' cannot be read as safetensors: {error}. Put back a whole copy of it."
        ) from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write beside the name, then rename."""
    with written_beside(path) as partial, as_any_file(partial):
        save_file(dict(tensors), partial)


def _optimiser_tensors(model: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    out: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        for key, value in optimiser.state[parameter].items():
            out[f"{key}.{name}"] = torch.as_tensor(value).detach().cpu().contiguous()
    return out


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _update(path: Path) -> int:
    """The number of the update after which a checkpoint was written."""
    return int(path.name.removeprefix("step-"))
