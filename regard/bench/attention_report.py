"""The measurements of attentions, as data and as text."""

from regard.bench.cases import Scale
from regard.bench.environment import environment
from regard.bench.measure import Measured


def attention_report(
    results: dict[int, dict[str, Measured]], threads: int, scale: Scale
) -> dict[str, object]:
    """Every case with its ratios to its peers."""
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
                    "speed_up_over_flex": _ratio(got.flex_s, got.both_s),
                    "memory": _ratio(got.both_bytes, row["dense"].both_bytes),
                    "memory_of_sdpa": _ratio(got.both_bytes, row["sdpa"].both_bytes),
                }
            )
    measured_on = environment(scale.device)
    return {**measured_on, "threads": threads, "scale": scale.described, "rows": rows}


def _ratio(top: float | int | None, bottom: float | int | None) -> float | None:
    if top is None or bottom is None:
        return None
    return top / bottom if bottom else None


def attention_text(report: dict[str, object]) -> str:
    """The same as tables, one for each length."""
    rows = report["rows"]
    assert isinstance(rows, list)
    lines = [
        f"regard {report['regard']}, torch {report['torch']}, {report['device']}, "
        f"{report['threads']} threads; {report['scale']}.",
        "Speed: how many times faster than dense (d), than torch's SDPA (s) and, on a GPU, than "
        "compiled flex_attention (f). Memory: share of theirs, beside the inputs.",
    ]
    for n in dict.fromkeys(row["n"] for row in rows):
        lines += [
            "",
            f"n = {n:<19} {'forward':>11} {'d':>7} {'fwd+bwd':>11} {'d':>7} {'s':>7} {'f':>7}"
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
        f" {_times(row['speed_up_over_flex'])}"
        f" {memory / 2**20:>7.1f} MiB {_times(row['memory'])} {_times(row['memory_of_sdpa'])}"
    )


def _times(ratio: float | str | None) -> str:
    return f"{ratio:>7.2f}" if isinstance(ratio, float) else f"{'-':>7}"
