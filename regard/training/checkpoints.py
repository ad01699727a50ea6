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
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.data.atomic_writes import move_into_place
from regard.data.permissions import as_any_file
from regard.errors import CheckpointError
from regard.training.random_states import CPU_STATE, CUDA_STATE, random_states, restore

PARTIAL = ".partial"
NAME = re.compile(r"step-\d+")

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
    partial = folder / (path.name + PARTIAL)
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        write_tensors(partial / "model.safetensors", distinct_tensors(model))
        write_tensors(
            partial / "optimiser.safetensors", {**states, **_optimiser_tensors(model, optimiser)}
        )
        if average is not None:
            write_tensors(partial / "average.safetensors", {k: w.cpu() for k, w in average.items()})
        write_text(partial / "state.json", json.dumps(asdict(progress), indent=1) + "\n")
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        before = checkpoints(folder)
        kept = f"the last whole one is '{before[-1].name}'" if before else "there is none yet"
        raise OSError(
            f"checkpoint '{path}' cannot be written ({error}); {kept}. Make room and go on with "
            "--resume."
        ) from error
    if path.exists():
        shutil.rmtree(path)
    move_into_place(partial, path)
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
    load_weights(path / "model.safetensors", model)
    tensors = read_tensors(path / "optimiser.safetensors")
    if CPU_STATE not in tensors:
        raise CheckpointError(f"checkpoint '{path}': '{CPU_STATE}' is missing.")
    kept = {n: tensors[n + suffix] for n in (CPU_STATE, CUDA_STATE) if n + suffix in tensors}
    restore(kept, _device(model))
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        names = [f"{key}.{name}" for key in KEPT]
        if any(each not in tensors for each in names):
            raise CheckpointError(f"checkpoint '{path}': the optimiser knows nothing of '{name}'.")
        if tensors[names[0]].shape != parameter.shape:
            raise CheckpointError(f"checkpoint '{path}': '{name}' has another shape.")
        optimiser.state[parameter] = {
            key: tensors[each].to(parameter.device) for key, each in zip(KEPT, names, strict=True)
        }
    return read_progress(path)


def read_progress(path: Path) -> Progress:
    """The progress a checkpoint was written at."""
    try:
        return Progress(**json.loads((path / "state.json").read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(
            f"checkpoint '{path}': state.json cannot be read: {error}."
        ) from error


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
    try:
        return load_file(path)
    except (OSError, SafetensorError, ValueError) as error:
        raise CheckpointError(f"'{path}' cannot be read as safetensors: {error}.") from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write beside the name, then rename."""
    partial = path.with_name(path.name + PARTIAL)
    with as_any_file(partial):
        save_file(dict(tensors), partial)
    move_into_place(partial, path)


def write_text(path: Path, text: str) -> None:
    """Write beside the name, then rename."""
    partial = path.with_name(path.name + PARTIAL)
    partial.write_text(text, encoding="utf-8")
    move_into_place(partial, path)


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
