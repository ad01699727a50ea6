"""What the cells of the study found, with ROUGE, as studies/documents/results.json.

    python -m studies.documents.summary runs/documents/results --data data/documents

RESULTS is the folder of the cells' files, or one file with a line for each. Cells that are not
among them, and models of running text that are not among those of --wikitext, stay as they were.
Two baselines stand beside the cells, without a model: the paper's own first words, and the abstract
of another paper; a model that scores below them has used little of its input.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from regard.data import Example
from regard.data.documents import Documents
from regard.evaluating.rouge import measured_rouge
from studies.documents.study import FILES, LENGTHS, ROOT, SYSTEMS

LEAD = 130
"""Words of the first words' baseline: as long as an abstract."""
SMOOTHED = 100
"""Updates of which a point of a curve is the mean."""


def rows_of(results: Path) -> list[dict[str, Any]]:
    """The results of all cells."""
    files = sorted(results.glob("*.json")) if results.is_dir() else [results]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def papers(data: Path) -> dict[str, list[Example]]:
    """Those learned from, and those asked: the validation and the test papers."""
    read = {
        split: list(Documents(data / f"arxiv.{file}.jsonl.xz").examples())
        for split, file in FILES.items()
    }
    return {"train": read["train"], "asked": [*read["valid"], *read["test"]]}


def scored(answers: Sequence[str], asked: Sequence[Example]) -> dict[str, Any]:
    """ROUGE-1, -2 and -L, what each paper adds, and how many words an answer has."""
    measured = measured_rouge(answers, [list(one.targets) for one in asked])
    return {
        "rouge": {one.score.name: one.score.value for one in measured},
        "by_paper": {one.score.name: [round(x, 3) for x in one.by_sentence()] for one in measured},
        "signature": measured[0].score.signature,
        "words": mean(len(answer.split()) for answer in answers),
    }


def cell(row: Mapping[str, Any], asked: Sequence[Example]) -> dict[str, Any]:
    """One cell's figures."""
    kept = (
        "updates", "parameters", "losses", "trained_s", "learning_bytes", "peak_bytes",
        "kept_bytes", "kept_of",
    )  # fmt: skip
    found: dict[str, Any] = {name: row.get(name) for name in kept}
    found["loss"] = sum(row["nats"]) / sum(row["tokens"])
    each = [nats / count for nats, count in zip(row["nats"], row["tokens"], strict=True)]
    found["loss_by_paper"] = [round(one, 4) for one in each]
    if "answers" in row:
        found |= scored(row["answers"], asked)
        found["tokens_per_second"] = row["answer_tokens"] / row["answer_seconds"]
        found["example"] = row["answers"][-1]
    return found


def difference(first: Sequence[float], second: Sequence[float]) -> dict[str, float]:
    """The mean difference of two cells over the same papers, and its standard error."""
    apart = [one - other for one, other in zip(first, second, strict=True)]
    return {"mean": mean(apart), "error": stdev(apart) / len(apart) ** 0.5}


def summary(rows: Sequence[Mapping[str, Any]], data: Path) -> dict[str, Any]:
    """Everything that the page needs."""
    read = papers(data)
    asked, learned = read["asked"], read["train"]
    cells = {row["cell"]: cell(row, asked) for row in rows}
    lead = [" ".join(one.source.split()[:LEAD]) for one in asked]
    other = [learned[place % len(learned)].targets[0] for place in range(len(asked))]
    longer = {
        f"{system}, {length}": {
            "loss": difference(
                cells[f"{system}, {length}"]["loss_by_paper"],
                cells[f"{system}, {LENGTHS[0]}"]["loss_by_paper"],
            ),
            **{
                name: difference(values, cells[f"{system}, {LENGTHS[0]}"]["by_paper"][name])
                for name, values in cells[f"{system}, {length}"].get("by_paper", {}).items()
                if "by_paper" in cells[f"{system}, {LENGTHS[0]}"]
            },
        }
        for system in SYSTEMS
        for length in LENGTHS[1:]
        if {f"{system}, {length}", f"{system}, {LENGTHS[0]}"} <= cells.keys()
    }
    for one in cells.values():
        one.pop("by_paper", None)
        one.pop("loss_by_paper")
    baselines = {"first words": scored(lead, asked), "another abstract": scored(other, asked)}
    for one in baselines.values():
        one.pop("by_paper")
    return {
        "papers": len(asked),
        "cells": cells,
        "longer": longer,
        "baselines": baselines,
        "example": {"title": asked[-1].source[:80], "abstract": asked[-1].targets[0]},
    }


def together(before: Mapping[str, Any], made: Mapping[str, Any]) -> dict[str, Any]:
    """What was found now beside what stays; differences from a cell that is another now do not."""
    stays = {
        name: one
        for name, one in before.get("longer", {}).items()
        if not {name, _shortest(name)} & made["cells"].keys()
    }
    cells = {**before.get("cells", {}), **made["cells"]}
    return {**before, **made, "cells": cells, "longer": {**stays, **made["longer"]}}


def _shortest(name: str) -> str:
    return f"{name.rpartition(', ')[0]}, {LENGTHS[0]}"


def curve(row: Mapping[str, Any], found: Path) -> list[tuple[int, float]]:
    """The training loss, a mean over every hundred updates, per token that is asked for."""
    path = found.with_name(f"{found.stem}-{row['model']}.metrics.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    losses = {line["step"]: line["train_loss"] for line in lines if "train_loss" in line}
    every: dict[int, list[float]] = {}
    for step, loss in losses.items():
        every.setdefault(-(-step // SMOOTHED) * SMOOTHED, []).append(loss)
    return [(step, round(mean(some), 4)) for step, some in every.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="What the cells found.")
    parser.add_argument("--data", type=Path, default=Path("data/documents"), help="The papers.")
    parser.add_argument("--wikitext", type=Path, help="What studies/documents/wikitext.py found.")
    parser.add_argument("--out", type=Path, default=ROOT / "studies" / "documents" / "results.json")
    given = parser.parse_args()
    before = json.loads(given.out.read_text()) if given.out.exists() else {}
    found = together(before, summary(rows_of(given.results), given.data))
    if given.wikitext is not None:
        found["wikitext"] = before.get("wikitext", {}) | {
            row["model"]: {**row, "curve": curve(row, given.wikitext)}
            for row in rows_of(given.wikitext)
        }
    given.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
