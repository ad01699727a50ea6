"""Card: writes card.md with a run's recipe, data, duration and scores, and how to repeat it.

Its last part holds the same facts as JSON (`card_json.py`), so that `regard verify` can check them.
"""

import platform
import sys
from collections.abc import Mapping, Sequence
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
from regard.tasks.loaded_run import subword_files
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
from regard.training.events import PRINTED, Validated
from regard.training.metrics_file import rows as read_metrics
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
    weights: Mapping[str, Tensor] | None = None,
    final: Validated | None = None,
) -> Path:
    """Write the card at the end of a run; scores and times are those of `metrics.jsonl`.

    `weights` are the final ones, which may not be written yet; their hash comes into the card.
    `final` is their validation, if that is not the last one of the training.
    """
    rows = read_metrics(run / "metrics.jsonl")
    checked = [row for row in rows if row.get("valid_loss") is not None]
    data, data_quoted = _data(recipe, run)
    threads = progress.environment.get("threads", str(torch.get_num_threads()))
    reason = progress.environment.get("threads_reason")
    device, precision = hardware.device.type, str(hardware.precision).removeprefix("torch.")
    capability = torch.backends.cpu.get_cpu_capability()
    processor = capability if hardware.gpu is None else hardware.gpu.name()
    made_with = {
        "regard": regard.__version__,
        "code": code_hash(),
        "torch": torch.__version__,
        "device": device,
        "precision": precision,
    }
    seeds = [workers.seed(recipe.training.seed, rank) for rank in range(workers.count)]
    surroundings = {
        "regard": f"{regard.__version__}, SHA-256 of its code {made_with['code']}",
        "torch": torch.__version__,
        "Python": f"{sys.version.split()[0]} on {platform.system()} {platform.machine()}",
        "device": f"{hardware.device} ({processor})",
        "precision": precision,
        "compiled": "yes" if hardware.compiles else "no",
        "threads": f"{threads}: {reason}" if reason else threads,
        "processes": str(workers.count),
        "seeds of dropout": ", ".join(map(str, seeds)),
    }
    quoted = Quoted(
        data=data_quoted,
        files=_own_files(run, recipe, None if weights is None else weights_hash(weights)),
        scores=_quoted_scores(checked, recipe, final),
        made_with=made_with,
    )
    start = "regard"
    if workers.count > 1:
        start = f"torchrun --nproc-per-node {workers.count} -m regard"
    command = (
        f"{start} train {quote(str(run / 'recipe.toml'))} --out {quote(f'{run}-again')} --device "
        f"{device} --precision {precision} "
        f"{'--compile' if hardware.compiles else '--no-compile'}"
        f"{f' --threads {threads}' if device == 'cpu' else ''}"
    )
    training = {
        "parameters": f"{parameters:,}",
        "updates": f"{progress.step:,}",
        "epochs": str(progress.epoch + 1),
        "target tokens seen": f"{progress.target_tokens:,}",
        "time of updates and validations": f"{sum(row.get('seconds', 0.0) for row in rows):,.1f} s",
        "batches cut for memory": f"{sum(row.get('splits', 0) for row in rows):,}",
    }
    if progress.loss_scale is not None:
        training["updates skipped in float16"] = f"{progress.loss_scale.skipped:,}"
    return _write(
        run,
        f"# {run.name}",
        _section("Data", data),
        _section("Training", training),
        _section("Scores", _scores(checked, recipe, final)),
        _section("Made with", surroundings),
        f"## To repeat it\n\n```sh\n{command}\n```",
        quoted_text(quoted),
    )


def write_mean_card(
    run: Path, recipe: Recipe, paths: Sequence[Path], data: tuple[QuotedFile, ...]
) -> Path:
    """Write the card of a run whose weights, already written, are the mean of these files.

    `recipe` is that of the runs that the files are from, and `data` what their cards quote.
    """
    start = read_start(run)
    names = {path: path if start is None else start.path_from(path) for path in paths}
    parts = tuple(QuotedFile("", str(name), file_hash(path)) for path, name in names.items())
    facts = {part.path: f"SHA-256 {part.sha256}" for part in parts}
    files = _own_files(run, recipe, file_hash(run / MODEL))
    quoted = Quoted(data, files, None, {"regard": regard.__version__, "code": code_hash()}, parts)
    name = run.name.removesuffix(PARTIAL)
    return _write(run, f"# {name}", _section("The mean of", facts), quoted_text(quoted))


def _write(run: Path, *parts: str) -> Path:
    write_text(run / "card.md", "\n\n".join(parts) + "\n")
    return run / "card.md"


def _section(name: str, facts: Facts) -> str:
    lines = "\n".join(f"| {_cell(key)} | {_cell(value)} |" for key, value in facts.items())
    return f"## {name}\n\n| | |\n|---|---|\n{lines}"


def _cell(text: str) -> str:
    """A text for a table's cell, where bars and line ends would begin another cell or row."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def _data(recipe: Recipe, run: Path) -> tuple[Facts, tuple[QuotedFile, ...]]:
    """The data of each split, and their files, each with its hash."""
    facts: dict[str, str] = {}
    quoted: list[QuotedFile] = []
    for split in ("train", "valid", "test"):
        choice: Choice | None = getattr(recipe.data, split)
        found = [] if choice is None else data_files(choice, run)
        if choice is not None and not found:
            kind = "reader" if choice.name in READERS else "generator"
            settings = ", ".join(f"{key} = {value}" for key, value in choice.settings.items())
            facts[f"{split}: {kind} {choice.name}"] = settings or "as it is"
        for name, path in found:
            quoted.append(QuotedFile(split, str(name), file_hash(path)))
            facts[f"{split}: {name}"] = _file(quoted[-1], path)
    return facts, tuple(quoted)


def _file(file: QuotedFile, path: Path) -> str:
    if path.is_dir():
        count = sum(1 for each in path.rglob("*") if each.is_file())
        return f"{count:,} files, SHA-256 of their names and sizes {file.sha256}"
    try:
        if path.suffix == ".zip":
            return f"{path.stat().st_size:,} bytes, SHA-256 {file.sha256}"
        unpack = PACKINGS.get(path.suffix)
        with unpack(path) if unpack else path.open("rb") as unpacked:
            count = sum(1 for _ in unpacked)
    except UNPACKING as error:
        return f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return f"{count:,} lines, SHA-256 {file.sha256}"


def _own_files(run: Path, recipe: Recipe, weights: str | None) -> dict[str, str | None]:
    """The hashes of the run's own files; the weights' too, if it is known."""
    hashes = {name: file_hash(run / name) for name in ("recipe.toml", *subword_files(recipe))}
    return hashes if weights is None else {**hashes, MODEL: weights}


def _quoted_scores(
    checked: Sequence[dict[str, Any]], recipe: Recipe, final: Validated | None
) -> QuotedScores | None:
    """The last validation, and which weights it was made with."""
    if final is not None:
        return QuotedScores.of(final.record(), MODEL)
    if not checked:
        return None
    is_mean = recipe.training.average_last > 1
    folder = f"checkpoints/step-{checked[-1]['step']:06d}/" if is_mean else ""
    return QuotedScores.of(checked[-1], folder + MODEL)


def _scores(checked: Sequence[dict[str, Any]], recipe: Recipe, final: Validated | None) -> Facts:
    if not checked:
        return {"validation": "none was made"}
    facts = {} if final is None else {"final weights": _score(final.record())}
    facts["last"] = _score(checked[-1])
    facts["best loss"] = _score(min(checked, key=lambda row: row["valid_loss"]))
    if measured := [row for row in checked if "bleu" in row]:
        facts["best BLEU"] = _score(max(measured, key=lambda row: row["bleu"]))
        facts["BLEU's signature"] = measured[-1]["bleu_signature"]
    facts["how"] = "loss in nats per target token, without smoothing"
    if "exact_match" in checked[-1]:
        count = checked[-1].get("decoded_examples") or recipe.training.validate_examples
        facts["how"] += f"; greedy decoding of {count:,} validation examples"
    if final is None and recipe.training.average_last > 1:
        facts["of what"] = (
            "the weights of those updates; the run's final weights are a mean of the last "
            "checkpoints', which was not validated"
        )
    return facts


def _score(row: Mapping[str, Any]) -> str:
    text = f"loss {row['valid_loss']:.4f}"
    if row.get("valid_loss_per_character") is not None:
        text += f" ({row['valid_loss_per_character']:.4f} per character)"
    for key, (name, digits) in PRINTED.items():
        if key in row:
            text += f", {name} {row[key]:.{digits}f}"
    return f"{text}, at update {row['step']:,}"
