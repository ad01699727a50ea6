"""Every way to say where a word stands, on one task: who reads texts longer than it learned from?

    python -m studies.positions.study --data data/wikitext2 --out runs/positions --at-once 8 \
        --seed 1 --seed 2 --seed 3
    python -m studies.positions.study --data data/wikitext2 --out runs/positions \
        --summary studies/positions/results.json

Cells learn by recipes/wikitext2-positions.toml, with the same rows, updates and seeds, and differ
in model.positions and model.relation alone. Each then reads the test text cut into rows of one, two
and four times the length of its training rows; the words that count are the same at every length.
A line for each cell and seed is added to OUT/results.jsonl. docs/positions.md says what was found.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy, pad

from regard import load
from regard.data.subword_kinds import BOS
from regard.errors import LengthError
from regard.hardware.hardware import Hardware
from regard.models import LanguageModel
from regard.recipes.recipe import Recipe, examples, read_recipe
from regard.runs.trained import Trained
from regard.training.events import Validated
from regard.training.run import run
from studies.side_by_side import (
    device_name,
    given_to,
    prepared_once,
    recording,
    rows_of,
    side_by_side,
)

RECIPE = Path(__file__).parents[2] / "recipes" / "wikitext2-positions.toml"
CELLS: Mapping[str, Sequence[str]] = {
    "none": ("model.positions=none",),
    "sinusoidal": ("model.positions=sinusoidal",),
    "learned": ("model.positions=learned",),
    "rotary": ("model.positions=rotary",),
    "shaw": ("model.positions=none", "model.relation=shaw"),
    "bucketed": (
        "model.positions=none",
        'model.relation={ name = "bucketed", is_causal = true }',
    ),
    "linear_bias": ("model.positions=none", "model.relation=linear_bias"),
}
"""Positions alone, and relations without positions. Those of trees need parsed sentences."""
TIMES = (1, 2, 4)
"""How many training lengths a row has when it is read."""
PLACES = 32
"""Words whose losses are averaged for one point of the curve."""
TOKENS_AT_ONCE = 4096


def recipe_of(cell: str, seed: int, given: argparse.Namespace) -> Recipe:
    """The recipe with this cell's positions, and the data where they are."""
    data = [
        f"data.{split}.path={given.data}/wiki.{split}.tokens.xz"
        for split in ("train", "valid", "test")
    ]
    return read_recipe(RECIPE, [*data, *CELLS[cell], f"training.seed={seed}", *given.set])


def learned(cell: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Train one cell, and let it read the test text at every length."""
    recipe, out = recipe_of(cell, seed, given), given.out / f"{cell}-{seed}"
    given_to(given.out / "prepared", out)
    start, losses = time.monotonic(), []
    for event in run(recipe, out, resume=out.exists(), hardware=recording(given.device)):
        if isinstance(event, Validated):
            losses.append((event.step, event.loss))
            print(f"{cell} {seed}: {losses[-1]}", file=sys.stderr, flush=True)
    seconds, trained = time.monotonic() - start, load(out, device=given.device, precision="float32")
    length = recipe.data.train.settings["words"]
    words = words_of_test(trained, TIMES[-1] * length, given.words)
    return {
        "cell": cell, "seed": seed, "length": length, "losses": losses, "seconds": seconds,
        "words": words.numel(), "read": {
            str(times): read(trained, words.view(-1, times * length)) for times in TIMES
        },
        "parameters": sum(weight.numel() for weight in trained.loaded.model.parameters()),
        "updates": recipe.training.steps,
        "tokens_per_update": recipe.training.target_tokens_per_update,
        "device": device_name(trained.hardware), "torch": torch.__version__,
    }  # fmt: skip


def words_of_test(trained: Trained, longest: int, most: int | None) -> Int[Tensor, " n"]:
    """The numbers of the test text's words, as many as fill whole rows of the longest length."""
    choice = trained.loaded.recipe.data.test
    assert choice is not None
    texts = [each.targets[0] for each in examples(choice, "test")()]
    numbers = [number for row in trained.loaded.target.encode_all(texts) for number in row]
    count = min(len(numbers), most or len(numbers)) // longest * longest
    return torch.tensor(numbers[:count])


@torch.no_grad()
def read(trained: Trained, rows: Int[Tensor, "r n"]) -> dict[str, Any]:
    """The mean loss of all words, and by their places in the row; or why they cannot be read."""
    model, where = trained.loaded.model, trained.hardware
    assert isinstance(model, LanguageModel)
    try:
        found = torch.cat(
            [
                nats(model, where.put(some), where).cpu()
                for some in rows.split(max(1, TOKENS_AT_ONCE // rows.shape[1]))
            ]
        ).double()
    except LengthError as error:
        return {"loss": None, "refused": str(error)}
    by_place = found.mean(0).split(PLACES)
    return {"loss": float(found.mean()), "by_place": [float(some.mean()) for some in by_place]}


def nats(model: LanguageModel, rows: Int[Tensor, "r n"], where: Hardware) -> Float[Tensor, "r n"]:
    """The loss of each word after those before it in its row; the first follows the begin token."""
    before = pad(rows[:, :-1], (1, 0), value=BOS)
    with where.products():
        logits = model(before)
    return cross_entropy(logits.float().flatten(0, 1), rows.flatten(), reduction="none").view(
        rows.shape
    )


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the page is made of: of every cell and seed the losses, in the order of the table."""
    shared = ("length", "words", "updates", "tokens_per_update", "device", "torch")
    (settings,) = {tuple((key, row[key]) for key in shared) for row in rows}
    return {
        **dict(settings),
        "cells": {
            cell: {
                "parameters": own[0]["parameters"],
                "seeds": {
                    str(row["seed"]): {"losses": row["losses"], "read": row["read"]} for row in own
                },
            }
            for cell in CELLS
            if (own := sorted((r for r in rows if r["cell"] == cell), key=lambda r: r["seed"]))
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="The folder of WikiText-2.")
    parser.add_argument("--out", type=Path, required=True, help="A folder for runs and results.")
    parser.add_argument("--seed", type=int, action="append", help="1 unless given; repeatable.")
    parser.add_argument("--cell", action="append", choices=CELLS, help="All unless given.")
    parser.add_argument("--set", action="append", default=[], help="Change a key for all.")
    parser.add_argument("--words", type=int, help="Most words of the test text; all unless given.")
    parser.add_argument("--at-once", type=int, default=1, help="Trainings side by side.")
    parser.add_argument("--seconds", type=float, default=math.inf, help="Stop after so many.")
    parser.add_argument("--device", help="cpu or cuda; cuda where there is one.")
    parser.add_argument("--here", action="store_true", help="Train here; print what is found.")
    parser.add_argument("--summary", type=Path, help="Train nothing; write what the page needs.")
    given, start = parser.parse_args(), time.monotonic()
    given.data, given.out = given.data.absolute(), given.out.absolute()
    results, seeds = given.out / "results.jsonl", given.seed or [1]
    if given.summary is not None:
        given.summary.write_text(json.dumps(summary(rows_of(results)), indent=1) + "\n")
        return
    wanted = [(cell, seed) for seed in seeds for cell in given.cell or CELLS]
    if given.here:
        for cell, seed in wanted:
            print(json.dumps(learned(cell, seed, given)), flush=True)
        return
    prepared_once(recipe_of(next(iter(CELLS)), 1, given), given.out / "prepared")
    done = {(row["cell"], row["seed"]) for row in rows_of(results)}
    same = ["--here", "--data", str(given.data), "--out", str(given.out)]
    for key, values in (("device", [given.device]), ("words", [given.words]), ("set", given.set)):
        same += [word for value in values if value for word in (f"--{key}", str(value))]
    work = [
        ("-m", "studies.positions.study", *same, "--cell", cell, "--seed", str(seed))
        for cell, seed in wanted
        if (cell, seed) not in done
    ]
    left = given.seconds - (time.monotonic() - start)
    side_by_side(work, results, at_once=given.at_once, seconds=left)


if __name__ == "__main__":
    main()
