"""card.md: what a run was made of, how long it took, what it reached, and how to repeat it.

The last part says the same to programs (`quoting.py`), so that `regard verify` can check it.
"""

import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from torch import Tensor

import regard
from regard.choices import Choice
from regard.data import READERS
from regard.data.atomic_writes import PARTIAL, write_text
from regard.data.files import PACKINGS, UNPACKING
from regard.hardware.hardware import Hardware
from regard.recipes.data_paths import data_files, read_start
from regard.recipes.recipe import Recipe
from regard.tasks.loaded import subword_files
from regard.training.card_json import (
    MODEL,
    Quoted,
    QuotedFile,
    QuotedScores,
    code_hash,
    file_hash,
    quoted_text,
    weights_hash,
)
from regard.training.checkpoints import Progress
from regard.training.events import Validated, validated_record
from regard.training.metrics_file import rows as read_metrics
from regard.training.workers import Workers

Facts = Mapping[str, str]
Found = tuple[QuotedFile, Path]
"""A file of the data as the card quotes it, and where it is found."""
SPLITS = ("train", "valid", "test")


def write_card(
    run: Path,
    recipe: Recipe,
    progress: Progress,
    *,
    parameters: int,
    hardware: Hardware,
    workers: Workers,
    weights: Mapping[str, Tensor] | None = None,
    final: Validated | None = None,
) -> Path:
    """Write what is known at the end of a run; scores and times are those of `metrics.jsonl`.

    Args:
        run: its directory.
        recipe: what it was made by.
        progress: where it ended.
        parameters: how many the model has.
        hardware: where it was made.
        workers: how many made it.
        weights: the final ones, which may not be written yet; their hash comes into the card.
        final: what those weights reached, if that is not the last validation of the training.
    """
    rows = read_metrics(run / "metrics.jsonl")
    checked = [row for row in rows if row.get("valid_loss") is not None]
    files = _files(recipe, run)
    sections = {
        "Data": _data(recipe, files),
        "Training": _training(rows, progress, parameters),
        "Scores": _scores(checked, recipe, final),
        "Made with": _surroundings(progress, recipe, hardware, workers),
    }
    quoted = Quoted(
        data=tuple(file for split in files.values() for file, _ in split),
        files=_own_files(run, recipe, weights),
        scores=_quoted_scores(checked, recipe, final),
        made_with=_made_with(hardware),
    )
    parts = [f"# {run.name}", *(_section(name, facts) for name, facts in sections.items())]
    parts.append(f"## To repeat it\n\n```sh\n{_command(run, progress, hardware, workers)}\n```")
    path = run / "card.md"
    write_text(path, "\n\n".join([*parts, quoted_text(quoted)]) + "\n")
    return path


def write_mean_card(
    run: Path, recipe: Recipe, paths: Sequence[Path], data: tuple[QuotedFile, ...]
) -> Path:
    """The card of a run whose weights, already there, are the mean of these files.

    Args:
        run: its directory.
        recipe: of the runs that the files are from.
        paths: the files.
        data: what the cards of those runs quote of their data.
    """
    start = read_start(run)
    names = {path: path if start is None else start.path_from(path) for path in paths}
    parts = tuple(QuotedFile("", str(name), file_hash(path)) for path, name in names.items())
    files = {**_own_files(run, recipe, None), MODEL: file_hash(run / MODEL)}
    facts = {part.path: f"SHA-256 {part.sha256}" for part in parts}
    quoted = Quoted(data, files, None, {"regard": regard.__version__, "code": code_hash()}, parts)
    name = run.name.removesuffix(PARTIAL)
    said = [f"# {name}", _section("The mean of", facts), quoted_text(quoted)]
    path = run / "card.md"
    write_text(path, "\n\n".join(said) + "\n")
    return path


def _section(name: str, facts: Facts) -> str:
    lines = "\n".join(f"| {_cell(key)} | {_cell(value)} |" for key, value in facts.items())
    return f"## {name}\n\n| | |\n|---|---|\n{lines}"


def _cell(text: str) -> str:
    """A bar would begin another cell, and a line's end another row."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def _files(recipe: Recipe, run: Path) -> dict[str, tuple[Found, ...]]:
    """The files of each split, each read once for its hash."""
    choices = {split: getattr(recipe.data, split) for split in SPLITS}
    return {
        split: tuple(
            (QuotedFile(split, str(name), file_hash(path)), path)
            for name, path in data_files(choice, run)
        )
        for split, choice in choices.items()
        if choice is not None
    }


def _data(recipe: Recipe, files: Mapping[str, Sequence[Found]]) -> Facts:
    facts = [
        (f"{split}: {name}", said)
        for split, found in files.items()
        for name, said in _sources(getattr(recipe.data, split), found)
    ]
    return dict(facts)


def _sources(choice: Choice, files: Sequence[Found]) -> Iterator[tuple[str, str]]:
    if choice.name not in READERS:
        yield f"generator {choice.name}", _settings(choice)
        return
    if not files:
        yield f"reader {choice.name}", _settings(choice)
    for file, path in files:
        yield file.path, _file(file, path)


def _settings(choice: Choice) -> str:
    return ", ".join(f"{key} = {value}" for key, value in choice.settings.items()) or "as it is"


def _file(file: QuotedFile, path: Path) -> str:
    if path.is_dir():
        count = sum(1 for each in path.rglob("*") if each.is_file())
        return f"{count:,} files, SHA-256 of their names and sizes {file.sha256}"
    try:
        if path.suffix == ".zip":
            return f"{path.stat().st_size:,} bytes, SHA-256 {file.sha256}"
        with PACKINGS.get(path.suffix, _plain)(path) as unpacked:
            count = sum(1 for _ in unpacked)
    except UNPACKING as error:
        return f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return f"{count:,} lines, SHA-256 {file.sha256}"


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


def _own_files(
    run: Path, recipe: Recipe, weights: Mapping[str, Tensor] | None
) -> dict[str, str | None]:
    """The hashes of the run's own files; the weights' too, if they are known."""
    names = ("recipe.toml", *subword_files(recipe))
    marks: dict[str, str | None] = {name: file_hash(run / name) for name in names}
    return marks if weights is None else {**marks, MODEL: weights_hash(weights)}


def _quoted_scores(
    checked: Sequence[dict[str, Any]], recipe: Recipe, final: Validated | None
) -> QuotedScores | None:
    """The last validation, and which weights it was made with."""
    if final is not None:
        return QuotedScores.of(validated_record(final), MODEL)
    if not checked:
        return None
    step = checked[-1]["step"]
    is_mean = recipe.training.average_last > 1
    weights = f"checkpoints/step-{step:06d}/{MODEL}" if is_mean else MODEL
    return QuotedScores.of(checked[-1], weights)


def _scores(checked: Sequence[dict[str, Any]], recipe: Recipe, final: Validated | None) -> Facts:
    if not checked:
        return {"validation": "none was made"}
    facts = {} if final is None else {"final weights": _score(validated_record(final))}
    facts |= {
        "last": _score(checked[-1]),
        "best loss": _score(min(checked, key=lambda row: row["valid_loss"])),
    }
    measured = [row for row in checked if "bleu" in row]
    if measured:
        facts["best BLEU"] = _score(max(measured, key=lambda row: row["bleu"]))
        facts["BLEU's signature"] = measured[-1]["bleu_signature"]
    count = recipe.training.validate_examples
    facts["how"] = "loss in nats per target token, without smoothing" + (
        f"; greedy decoding of at most {count:,} validation examples"
        if "exact_match" in checked[-1]
        else ""
    )
    if final is None and recipe.training.average_last > 1:
        facts["of what"] = (
            "the weights of those updates; the run's final weights are a mean of the last "
            "checkpoints', which was not validated"
        )
    return facts


def _score(row: Mapping[str, Any]) -> str:
    said = [
        f"loss {row['valid_loss']:.4f}{_per_character(row)}",
        *([f"exact match {row['exact_match']:.4f}"] if "exact_match" in row else []),
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
        "regard": f"{regard.__version__}, SHA-256 of its code {code_hash()}",
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


def _made_with(hardware: Hardware) -> dict[str, str]:
    return {
        "regard": regard.__version__,
        "code": code_hash(),
        "torch": torch.__version__,
        "device": hardware.device.type,
        "precision": str(hardware.precision).removeprefix("torch."),
    }


def _command(run: Path, progress: Progress, hardware: Hardware, workers: Workers) -> str:
    kind = hardware.device.type
    threads = progress.environment.get("threads", str(torch.get_num_threads()))
    start = f"OMP_NUM_THREADS={threads} regard" if kind == "cpu" else "regard"
    if workers.count > 1:
        start = f"torchrun --nproc-per-node {workers.count} -m regard"
    precision = str(hardware.precision).removeprefix("torch.")
    return (
        f"{start} train {quote(str(run / 'recipe.toml'))} --out {quote(f'{run}-again')} "
        f"--device {kind} "
        f"--precision {precision} {'--compile' if hardware.compiles else '--no-compile'}"
    )
