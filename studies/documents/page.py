"""The tables and the picture of docs/documents.md, from the numbers in results.json."""

import json
from collections.abc import Mapping
from pathlib import Path

from regard.plots.charts import curves
from studies.pictures import picture
from studies.tables import table

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = Path(__file__).with_name("results.json")
LINES = {"lm": "language model", "mlm": "masked-word model"}
LENGTHS = (768, 3072, 9216)
LEARN_ALL = "T-DMCA, all tokens"
SYSTEMS = (
    "recurrent", "encoder-decoder", "BigBird encoder", "Linformer encoder", "T-D", "window",
    "BigBird", "T-DMCA", LEARN_ALL,
)  # fmt: skip
NAMES = ("ROUGE-1", "ROUGE-2", "ROUGE-L")
NOTHING = "none"


def results() -> dict:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def tables() -> dict[str, str]:
    """What stands between each pair of marks; nothing of what was not measured."""
    found = results()
    made = {}
    if "cells" in found:
        made |= {
            "cells": cells(found),
            "longer": longer(found["longer"]),
            "cost": cost(found["cells"]),
        }
    if "wikitext" in found:
        made["wikitext"] = wikitext(found["wikitext"])
    return made


def cells(found: Mapping) -> str:
    rows = []
    for system in SYSTEMS:
        for length in LENGTHS:
            one = found["cells"].get(f"{system}, {length}")
            if one is not None:
                loss = f"{one['loss']:.3f}"
                rows.append([system, f"{length:,}", f"{one['updates']:,}", loss, *_scores(one)])
    for name, one in found["baselines"].items():
        rows.append([f"*{name}*", "", "", "", *_scores(one)])
    head = ["system", "tokens read", "updates", "loss per token", *NAMES, "words written"]
    return table(head, rows)


def _scores(one: Mapping) -> list[str]:
    if "rouge" not in one:
        return [NOTHING] * 4
    return [*(f"{one['rouge'][name]:.1f}" for name in NAMES), f"{one['words']:.0f}"]


def longer(found: Mapping) -> str:
    """What more of the paper changes, and how sure that is."""
    rows = []
    for system in SYSTEMS:
        for length in LENGTHS[1:]:
            one = found.get(f"{system}, {length}")
            if one is not None:
                said = [_apart(one.get(name), 3 if name == "loss" else 1) for name in _measures()]
                rows.append([system, f"{length:,}", *said])
    return table(["system", "tokens read", "loss per token", "ROUGE-1", "ROUGE-L"], rows)


def _measures() -> tuple[str, ...]:
    return ("loss", "ROUGE-1", "ROUGE-L")


def _apart(one: Mapping | None, digits: int) -> str:
    if one is None:
        return NOTHING
    # no minus before a zero
    mean = f"{round(one['mean'], digits) + 0.0:+.{digits}f}".replace("-", "−")
    return f"{mean} ± {one['error']:.{digits}f}"


def cost(found: Mapping) -> str:
    rows = []
    for system in (name for name in SYSTEMS if name != LEARN_ALL):
        for length in LENGTHS:
            one = found.get(f"{system}, {length}")
            if one is not None:
                rows.append([
                    system, f"{length:,}", f"{one['parameters']:,}", f"{one['trained_s']:.0f}",
                    f"{one['tokens_per_second']:,.0f}", _megabytes(one.get("peak_bytes")),
                    _megabytes(one.get("kept_bytes")),
                ])  # fmt: skip
    head = ["system", "tokens read", "parameters", "seconds to train", "tokens written a second",
            "most memory, MB", "kept of the longest paper, MB"]  # fmt: skip
    return table(head, rows)


def _megabytes(count: int | None) -> str:
    return NOTHING if count is None else f"{count / 1e6:,.1f}"


def wikitext(found: Mapping) -> str:
    rows = []
    if "lm" in found:
        for name, key in (("language model", "perplexity"), ("with a cache", "with_cache")):
            rows.append([name, *(f"{found['lm'][split][key]:.1f}" for split in ("valid", "test"))])
    if "mlm" in found:
        losses = (f"{found['mlm'][split]['loss']:.3f}" for split in ("valid", "test"))
        rows.append(["masked-word model, loss per hidden piece", *losses])
    return table(["", "validation", "test"], rows)


def pictures() -> dict[Path, str]:
    """How the language model and the masked-word model learn."""
    found = results().get("wikitext", {})
    title = "WikiText-2: training loss by update, nats per word and per hidden piece"
    lines = {name: found[model]["curve"] for model, name in LINES.items() if model in found}
    figure = curves(lines, title=title)
    return {DOCS / "img" / "wikitext-loss.svg": picture(figure, title, list(lines))}
