"""regard bench: time and memory of every mechanism, as ratios to peers measured in the same run."""

import datetime
import json
import os
import platform
from pathlib import Path

import torch
import typer
from rich.console import Console
from rich.progress import track

import regard
from regard.choices import find
from regard.cli.benching.cases import PEERS, names
from regard.cli.benching.measure import Measured, free_memory, measure
from regard.errors import SettingError

LENGTHS = "128,512,2048,4096,8192"


def bench(
    what: str = typer.Argument(help="What to measure: attention."),
    lengths: str = typer.Option(LENGTHS, help="Sequence lengths, separated by commas."),
    only: str | None = typer.Option(None, help="Only these mechanisms, separated by commas."),
    out: Path | None = typer.Option(None, help="Write the results to this file as JSON."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of tables."),
) -> None:
    """Measure mechanisms at batch 1, 8 heads of 64, float32, on the CPU.

    Each case runs in a process of its own, after its result was checked against the dense chain.
    Times and extra memory are divided by those of dense softmax(QKᵀ)V, measured in the same run.

    Example: regard bench attention --lengths 512,4096 --only soft,sliding_window,big_bird
    """
    find(what, {"attention": None})
    sizes = _lengths(lengths)
    chosen = names() if only is None else [*PEERS, *(_known(name) for name in only.split(","))]
    console = Console(stderr=True)
    cases = [(name, n) for n in sizes for name in dict.fromkeys(chosen)]
    memory, threads = free_memory(), torch.get_num_threads()
    results: dict[int, dict[str, Measured]] = {n: {} for n in sizes}
    shown = track(
        cases, "measuring", console=console, transient=True, disable=not console.is_terminal
    )
    for name, n in shown:
        results[n][name] = measure(name, n, memory_bytes=memory, threads=threads)
    report = _report(results, threads)
    if out is not None:
        out.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report) if as_json else _text(report))
    if any(m.is_wrong for row in results.values() for m in row.values()):
        raise typer.Exit(1)


def _lengths(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise SettingError(
            f"bench: --lengths takes whole numbers separated by commas, got '{text}'."
        )
    return [int(part) for part in parts]


def _known(name: str) -> str:
    find(name.strip(), dict.fromkeys(names()))
    return name.strip()


def _report(results: dict[int, dict[str, Measured]], threads: int) -> dict[str, object]:
    rows = []
    for n, row in results.items():
        for name, got in row.items():
            rows.append(
                {
                    "name": name,
                    "n": n,
                    **got.__dict__,
                    "forward_speed_up": _ratio(row["dense"].forward_s, got.forward_s),
                    "forward_speed_up_over_sdpa": _ratio(row["sdpa"].forward_s, got.forward_s),
                    "speed_up": _ratio(row["dense"].both_s, got.both_s),
                    "speed_up_over_sdpa": _ratio(row["sdpa"].both_s, got.both_s),
                    "memory": _ratio(got.both_bytes, row["dense"].both_bytes),
                    "memory_of_sdpa": _ratio(got.both_bytes, row["sdpa"].both_bytes),
                }
            )
    return {
        "date": datetime.date.today().isoformat(),
        "regard": regard.__version__,
        "torch": torch.__version__,
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": threads,
        "rows": rows,
    }


def _ratio(top: float | int | None, bottom: float | int | None) -> float | None:
    if top is None or bottom is None:
        return None
    return top / bottom if bottom else None


def _text(report: dict[str, object]) -> str:
    rows = report["rows"]
    assert isinstance(rows, list)
    lines = [
        f"regard {report['regard']}, torch {report['torch']}, {report['threads']} threads; "
        "batch 1, 8 heads of 64, float32.",
        "Speed: how many times faster than dense (d) and than torch's SDPA (s). Memory: share of "
        "theirs, beside the inputs.",
    ]
    for n in dict.fromkeys(row["n"] for row in rows):
        lines += [
            "",
            f"n = {n:<19} {'forward':>11} {'d':>7} {'fwd+bwd':>11} {'d':>7} {'s':>7}"
            f" {'memory':>11} {'d':>7} {'s':>7}",
        ]
        lines += [_line(row) for row in rows if row["n"] == n]
    return "\n".join(lines)


def _line(row: dict[str, float | str | None]) -> str:
    if row["both_s"] is None:
        return f"  {row['name']:<21} {row['problem']}"
    forward, both, memory = (float(row[k] or 0) for k in ("forward_s", "both_s", "both_bytes"))
    return (
        f"  {row['name']:<21} {1000 * forward:>8.1f} ms {_times(row['forward_speed_up'])}"
        f" {1000 * both:>8.1f} ms {_times(row['speed_up'])} {_times(row['speed_up_over_sdpa'])}"
        f" {memory / 2**20:>7.1f} MiB {_times(row['memory'])} {_times(row['memory_of_sdpa'])}"
    )


def _times(ratio: float | str | None) -> str:
    return f"{ratio:>7.2f}" if isinstance(ratio, float) else f"{'-':>7}"
