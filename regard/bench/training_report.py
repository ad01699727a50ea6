"""The measurements of training, as text."""

from typing import Any


def training_text(report: dict[str, Any]) -> str:
    """A table of contestants with their ratios to regard."""
    is_cpu = report["device"] == "cpu"
    where = f"{report['threads']} threads" if is_cpu else report["device"]
    peak = "resident, beyond what the libraries take" if is_cpu else "of the GPU's allocator"
    lines = [
        f"regard {report['regard']}, torch {report['torch']}, {where}; {report['described']}, "
        f"{report['precision']}.",
        f"Speed: target tokens a second, padding not counted. Memory: the peak, {peak}.",
        "",
        f"{'':<24} {'tokens/s':>11} {'regard is':>10} {'memory':>12} {'regard has':>11}"
        f" {'loss':>16}",
    ]
    lines += [_line(row) for row in report["rows"]]
    lines += [f"  {row['name']}: {row['problem']}" for row in report["rows"] if row["problem"]]
    if all(row.get("parameters") for row in report["rows"]):
        counts = [f"{row['name']} {row['parameters']:,}" for row in report["rows"]]
        lines += ["", f"Parameters: {', '.join(counts)}."]
    if "real_share" in report:
        lines += [
            "",
            "Real sentences, counting only their own tokens, run at "
            f"{100 * report['real_share']:.0f} % of the speed of full batches "
            f"({100 * report['real_loop_share']:.0f} % with the loop's own work).",
        ]
    return "\n".join(lines)


def _line(row: dict[str, Any]) -> str:
    faster, share = row["regard_is_faster"], row["regard_memory"]
    return (
        f"{row['name']:<24} {row['tokens_per_second']:>11,.0f} {_times(faster, 10)}"
        f" {row['peak_bytes'] / 2**20:>8,.0f} MiB {_times(share, 11)}"
        f" {row['first_loss']:>6.2f} → {row['last_loss']:>5.2f}"
    )


def _times(ratio: float | None, width: int) -> str:
    return f"{'-' if ratio is None else f'{ratio:.2f} ×':>{width}}"
