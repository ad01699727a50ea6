"""The tables and pictures of docs/long.md, from the numbers in results.json."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from regard.plots.charts import bars
from studies.log_curves import log_curves
from studies.pictures import picture
from studies.tables import table

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = Path(__file__).with_name("results.json")
KINDS = {"causal": "next word", "masked": "hidden words"}
"""What the models of a kind are asked for."""
PARTS = {"all": "all", "short": "up to 1,024 tokens", "long": "longer"}
"""Expressions of ListOps."""
FAR = "16384"
"""The rows by whose places losses are told apart."""


def results() -> dict:
    return json.loads(RESULTS.read_text())


def tables() -> dict[str, str]:
    """What stands between each pair of marks."""
    found = results()
    made = {
        "speed": speed(found["cost"]),
        "text": text(found["text"]),
        "places": places(found["text"]),
        "listops": listops(found["listops"]),
    }
    if _is_weighed(found["cost"]):
        made["memory"] = memory(found["cost"])
    return made


def _is_weighed(systems: Mapping) -> bool:
    return all("row_bytes" in one for one in systems.values())


def _lengths(systems: Mapping) -> list[int]:
    return sorted({n for one in systems.values() for n in one["lengths"]})


def speed(systems: Mapping) -> str:
    lengths = _lengths(systems)
    rows = [
        [
            name,
            *_cells(one, "tokens_per_second", lengths, lambda value: f"{value / 1e3:,.0f}"),
            _slope(one["time_slope"]),
        ]
        for name, one in systems.items()
    ]
    return table(["thousand tokens/s", *(f"{n:,}" for n in lengths), "slope of time"], rows)


def memory(systems: Mapping) -> str:
    lengths = _lengths(systems)
    rows = [
        [
            name,
            *_cells(one, "peak_bytes", lengths, lambda value: f"{value / 1e9:.2f}"),
            _slope(one["memory_slope"]),
        ]
        for name, one in systems.items()
    ]
    return table(["peak, GB", *(f"{n:,}" for n in lengths), "slope of memory"], rows)


def _cells(one: Mapping, key: str, lengths: list[int], said: Callable[[float], str]) -> list[str]:
    there = dict(zip(one["lengths"], one[key], strict=True))
    return [said(there[n]) if n in there else "" for n in lengths]


def _slope(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def text(systems: Mapping) -> str:
    lengths = sorted({int(n) for one in systems.values() for n in one["lengths"]})
    rows = [
        [name, KINDS[one["kind"]], *(_loss(one["lengths"].get(str(n))) for n in lengths)]
        for name, one in systems.items()
    ]
    return table(["system", "asked for", *(f"{n:,}" for n in lengths)], rows, names=2)


def _loss(cell: Mapping | None) -> str:
    if cell is None:
        return ""
    words = cell["word_perplexity"]
    return f"{cell['loss']:.3f}" if words is None else f"{cell['loss']:.3f} / **{words:.0f}**"


def places(systems: Mapping) -> str:
    far = _far(systems)
    ends = sorted({end for line in far.values() for end, *_ in line})
    parts = [f"{a:,} to {b:,}" for a, b in zip([0, *ends], ends, strict=False)]
    rows = [[name, *(f"{loss:.3f}" for _, loss, _ in line)] for name, line in far.items()]
    return table(["tokens of the row", *parts], rows)


def _far(systems: Mapping) -> dict[str, list]:
    """Losses by place in the longest rows of systems that are asked for the next word."""
    return {
        name: one["lengths"][FAR]["by_place"]
        for name, one in systems.items()
        if one["kind"] == "causal" and FAR in one["lengths"]
    }


def listops(study: Mapping) -> str:
    rows = [
        [
            name,
            f"{one['parameters'] / 1e6:.1f}",
            *(_percent(one["accuracy"][part]["accuracy"]) for part in PARTS),
            f"{one['losses'][-1]:.2f}",
        ]
        for name, one in study["systems"].items()
    ]
    rows += [
        [f"no model: {said}", "", _percent(study["guesses"][key]), "", "", ""]
        for key, said in (
            ("commonest", "the commonest value"),
            ("first operator", "the commonest for the first operator"),
        )
    ]
    head = ["system", "parameters, million", *(f"right, %, {part}" for part in PARTS.values())]
    return table([*head, "training loss"], rows)


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def pictures() -> dict[Path, str]:
    """Every picture of the page, with what its file should hold."""
    found = results()
    costs, far = found["cost"], _far(found["text"])
    time = "Milliseconds of a training step for one row, with slopes"
    drawn = {"time": (_growth(costs, "row_seconds", 1e3, time), time, _with(costs, "time_slope"))}
    if _is_weighed(costs):
        weight = "Megabytes that a training step takes for one row, with slopes"
        lines = _with(costs, "memory_slope")
        drawn["memory"] = (_growth(costs, "row_bytes", 1e-6, weight), weight, lines)
    if far:
        place = "Validation loss by place in rows of 16,384, nats per token"
        points = {name: [(end, loss) for end, loss, _ in line] for name, line in far.items()}
        curves = log_curves(points, title=place, x_title="up to this token", has_log_y=False)
        drawn["places"] = (curves, place, list(far))
    said = "ListOps: right values in per cent, by length of the expression"
    systems = found["listops"]["systems"]
    heights = {
        name: [100 * (one["accuracy"][part]["accuracy"] or 0.0) for part in PARTS]
        for name, one in systems.items()
    }
    drawn["listops"] = (
        bars(list(PARTS.values()), heights, title=said, x_title="expressions"), said, list(heights),
    )  # fmt: skip
    return {
        DOCS / "img" / f"long-{name}.svg": picture(figure, title, names)
        for name, (figure, title, names) in drawn.items()
    }


def _growth(systems: Mapping, key: str, unit: float, title: str) -> str:
    lines = {
        name: [(n, unit * value) for n, value in zip(one["lengths"], one[key], strict=True)]
        for name, one in systems.items()
    }
    return log_curves(lines, title=title, x_title="tokens of the row")


def _with(systems: Mapping, key: str) -> list[str]:
    """Names with their slopes, where there are any."""
    return [
        name if one[key] is None else f"{name}: {one[key]:.2f}" for name, one in systems.items()
    ]
