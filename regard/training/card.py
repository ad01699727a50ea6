"""card.md: what a run was made of, how long it took, what it reached, and how to repeat it."""

import hashlib
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import torch

import regard
from regard.choices import Choice
from regard.data import READERS
from regard.data.files import PACKINGS
from regard.training.checkpoints import Progress, write_text
from regard.training.hardware import Hardware
from regard.training.recipes import Recipe, data_files
from regard.training.workers import Workers

Facts = Mapping[str, str]


def write_card(
    run: Path,
    recipe: Recipe,
    progress: Progress,
    *,
    parameters: int,
    hardware: Hardware,
    workers: Workers,
) -> Path:
    """Write what is known at the end of a run; scores and times are those of `metrics.jsonl`."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    sections = {
        "Data": _data(recipe),
        "Training": _training(rows, progress, parameters),
        "Scores": _scores([row for row in rows if "valid_loss" in row], recipe),
        "Made with": _surroundings(progress, recipe, hardware, workers),
    }
    parts = [f"# {run.name}", *(_section(name, facts) for name, facts in sections.items())]
    parts.append(f"## To repeat it\n\n```sh\n{_command(run, progress, hardware, workers)}\n```")
    path = run / "card.md"
    write_text(path, "\n\n".join(parts) + "\n")
    return path


def _section(name: str, facts: Facts) -> str:
    lines = "\n".join(f"| {_cell(key)} | {_cell(value)} |" for key, value in facts.items())
    return f"## {name}\n\n| | |\n|---|---|\n{lines}"


def _cell(text: str) -> str:
    """A bar would begin another cell, and a line's end another row."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def _data(recipe: Recipe) -> Facts:
    splits = {name: getattr(recipe.data, name) for name in ("train", "valid", "test")}
    facts = [
        (f"{split}: {name}", said)
        for split, choice in splits.items()
        if choice is not None
        for name, said in _sources(choice, split)
    ]
    return dict(facts)


def _sources(choice: Choice, split: str) -> Iterator[tuple[str, str]]:
    if choice.name not in READERS:
        yield f"generator {choice.name}", _settings(choice)
        return
    files = data_files(choice, split)
    if not files:
        yield f"reader {choice.name}", _settings(choice)
    for path in files:
        yield str(path), _file(path)


def _settings(choice: Choice) -> str:
    return ", ".join(f"{key} = {value}" for key, value in choice.settings.items()) or "as it is"


def _file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mark = hashlib.file_digest(file, "sha256").hexdigest()
        with PACKINGS.get(path.suffix, _plain)(path) as unpacked:
            count = sum(1 for _ in unpacked)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return f"{count:,} lines, SHA-256 {mark}"


def _plain(path: Path) -> BufferedIOBase:
    return path.open("rb")


def _training(rows: Sequence[dict[str, Any]], progress: Progress, parameters: int) -> Facts:
    seconds = sum(row.get("seconds", 0.0) for row in rows)
    splits = sum(row.get("splits", 0) for row in rows)
    return {
        "parameters": f"{parameters:,}",
        "updates": f"{progress.step:,}",
        "epochs": str(progress.epoch + 1),
        "target tokens seen": f"{progress.target_tokens:,}",
        "time of updates and validations": f"{seconds:,.1f} s",
        "batches cut for memory": f"{splits:,}",
    }


def _scores(checked: Sequence[dict[str, Any]], recipe: Recipe) -> Facts:
    if not checked:
        return {"validation": "none was made"}
    facts = {
        "last": _score(checked[-1]),
        "best loss": _score(min(checked, key=lambda row: row["valid_loss"])),
    }
    measured = [row for row in checked if "bleu" in row]
    if measured:
        facts["best BLEU"] = _score(max(measured, key=lambda row: row["bleu"]))
        facts["BLEU's signature"] = measured[-1]["bleu_signature"]
    count = recipe.training.validate_examples
    facts["how"] = (
        f"loss in nats per target token, without smoothing; greedy decoding of at most {count:,} "
        "validation examples"
    )
    return facts


def _score(row: Mapping[str, Any]) -> str:
    said = [
        f"loss {row['valid_loss']:.4f}{_per_character(row)}",
        f"exact match {row['exact_match']:.4f}",
        *([f"BLEU {row['bleu']:.2f}"] if "bleu" in row else []),
        f"at update {row['step']:,}",
    ]
    return ", ".join(said)


def _per_character(row: Mapping[str, Any]) -> str:
    found = row.get("valid_loss_per_character")
    return "" if found is None else f" ({found:.4f} per character)"


def _surroundings(
    progress: Progress, recipe: Recipe, hardware: Hardware, workers: Workers
) -> Facts:
    seed = recipe.training.seed
    seeds = ", ".join(str(workers.seed(seed, rank)) for rank in range(workers.count))
    return {
        "regard": f"{regard.__version__}, SHA-256 of its code {_code()}",
        "torch": torch.__version__,
        "Python": f"{sys.version.split()[0]} on {platform.system()} {platform.machine()}",
        "device": _device(hardware.device),
        "precision": str(hardware.precision).removeprefix("torch."),
        "compiled": "yes" if hardware.compiles else "no",
        "threads": progress.environment.get("threads", str(torch.get_num_threads())),
        "processes": str(workers.count),
        "seeds of dropout": seeds,
    }


def _device(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    return f"{device} ({torch.backends.cpu.get_cpu_capability()})"


def _code() -> str:
    """One number for all files of the package."""
    mark, root = hashlib.sha256(), Path(regard.__file__).parent
    for path in sorted(root.rglob("*.py")):
        mark.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return mark.hexdigest()


def _command(run: Path, progress: Progress, hardware: Hardware, workers: Workers) -> str:
    kind = hardware.device.type
    threads = progress.environment.get("threads", str(torch.get_num_threads()))
    start = f"OMP_NUM_THREADS={threads} regard" if kind == "cpu" else "regard"
    if workers.count > 1:
        start = f"torchrun --nproc-per-node {workers.count} -m regard"
    precision = str(hardware.precision).removeprefix("torch.")
    return (
        f"{start} train {run / 'recipe.toml'} --out {run}-again --device {kind} "
        f"--precision {precision} {'--compile' if hardware.compiles else '--no-compile'}"
    )
