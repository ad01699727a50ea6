"""Tags of an English treebank by selection: the task that local_monotonic is made for.

    python -m studies.luong.tagging --data data/treebank --out runs/tagging --at-once 2 \
        --seed 1 --seed 2 --seed 3

Systems learn by recipes/tagging-luong.toml and differ in where they look. Each writes the tags of
the test sentences greedily. A line for each system and seed is added to OUT/results.jsonl; what is
there is not done again. summary.py puts the accuracies into results.json; docs/luong.md says what
was found.
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard import load
from regard.decoding import Greedy
from regard.evaluating.accuracy import measured_token_accuracy
from regard.recipes.recipe import Recipe, examples, read_recipe
from regard.runs.evaluation import answer
from regard.tasks.predictions import AnswerOptions
from regard.training.events import Step
from regard.training.run import run
from studies.side_by_side import (
    ROOT,
    given_to,
    prepared_once,
    recording,
    rows_of,
    side_by_side,
)

RECIPE = ROOT / "recipes" / "tagging-luong.toml"
FILES: Mapping[str, str] = {"train": "train", "valid": "dev", "test": "test"}
SYSTEMS: Mapping[str, Sequence[str]] = {
    "local_monotonic, 1 word on each side": (),
    "local_monotonic, 10 words on each side": ("model.select=local_monotonic",),
    "soft": ("model.select=soft",),
    "local_predictive": ("model.select=local_predictive",),
    "no attention": ("model.select=soft", "model.attends=none", "model.attends_to_end=false"),
}
"""What is changed in the recipe for each."""


def recipe_of(name: str, seed: int, given: argparse.Namespace) -> Recipe:
    """The recipe with this system's selection, and the treebank where it is."""
    data = [
        f"data.{split}.path={given.data}/en_ewt-ud-{file}.conllu.xz"
        for split, file in FILES.items()
    ]
    return read_recipe(RECIPE, [*data, *SYSTEMS[name], f"training.seed={seed}", *given.set])


def learned(name: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Train one system, and let it tag the test sentences."""
    recipe = recipe_of(name, seed, given)
    out = given.out / f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
    given_to(given.out / "prepared", out)
    events = run(recipe, out, resume=out.exists(), hardware=recording(given.device))
    seconds = sum(event.seconds for event in events if isinstance(event, Step))
    trained = load(out, device=given.device)
    assert recipe.data.test is not None
    test = list(examples(recipe.data.test, "test")())
    search = Greedy(limits=trained.default_search().limits)
    said = answer(trained, [each.source for each in test], AnswerOptions(search))
    score = measured_token_accuracy(said.texts, [list(each.targets) for each in test]).score
    return {
        "system": name, "seed": seed, "accuracy": score.value, "signature": score.signature,
        "sentences": len(test), "seconds": seconds,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="The folder of the treebank.")
    parser.add_argument("--out", type=Path, required=True, help="A folder for runs and results.")
    parser.add_argument("--seed", type=int, action="append", help="1 unless given; repeatable.")
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="All unless given.")
    parser.add_argument("--set", action="append", default=[], help="Change a key for all.")
    parser.add_argument("--at-once", type=int, default=1, help="Trainings side by side.")
    parser.add_argument("--device", help="cpu or cuda; cuda where there is one.")
    parser.add_argument("--here", action="store_true", help="Train here; print what is found.")
    given = parser.parse_args()
    given.data, given.out = given.data.absolute(), given.out.absolute()
    wanted = [(name, seed) for seed in given.seed or [1] for name in given.system or SYSTEMS]
    if given.here:
        for name, seed in wanted:
            print(json.dumps(learned(name, seed, given)), flush=True)
        return
    prepared_once(recipe_of(*wanted[0], given), given.out / "prepared")
    results = given.out / "results.jsonl"
    done = {(row["system"], row["seed"]) for row in rows_of(results)}
    same = ["--here", "--data", str(given.data), "--out", str(given.out)]
    for key, values in (("device", [given.device]), ("set", given.set)):
        same += [word for value in values if value for word in (f"--{key}", value)]
    work = [
        ("-m", "studies.luong.tagging", *same, "--seed", str(seed), "--system", name)
        for name, seed in wanted
        if (name, seed) not in done
    ]
    side_by_side(work, results, at_once=given.at_once, seconds=math.inf)


if __name__ == "__main__":
    main()
