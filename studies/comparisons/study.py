"""Two ways to do one thing, on equal terms and with several seeds.

    python -m studies.comparisons.study branches --data data/multi30k --out runs/pairs --at-once 6 \
        --seed 1 --seed 2 --seed 3
    python -m studies.comparisons.study trees --data data/treebank --out runs/pairs --at-once 9 \
        --seed 1 --seed 2 --seed 3

branches: the Weighted Transformer against the plain one of the same size, Multi30k, English to
German, two phases each (recipes/multi30k-weighted.toml, multi30k-weighted-frozen.toml).
trees: structural positions against plain ones, tags of an English treebank
(recipes/treebank-structural.toml, treebank-plain.toml); as a control the trees of every sentence
are hung from other words. A line for each arm and seed is added to OUT/results.jsonl;
studies/comparisons/summary.py draws them together, and docs/comparisons.md says what was found.
"""

import argparse
import json
import lzma
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from regard import load
from regard.data import lines
from regard.data.treebanks import HEAD
from regard.hardware.hardware import Hardware
from regard.layers import WeightedBranches
from regard.recipes.recipe import Recipe, read_recipe
from regard.runs.evaluation import ScoredAnswers, answer, score, search_for
from regard.runs.evaluation_texts import texts_of_split
from regard.runs.trained import Trained
from regard.tasks.predictions import AnswerOptions
from regard.training.events import Step, Validated
from regard.training.run import run
from studies.side_by_side import (
    ROOT,
    device_name,
    exact,
    given_to,
    prepared_once,
    recording,
    rows_of,
    side_by_side,
)

BEAM, PENALTY = 5, 0.6
SHUFFLED = "shuffled"
"""The folder, in that of the results, of treebanks whose trees tell nothing."""


@dataclass(frozen=True)
class Phase:
    """A recipe, and what is changed of it."""

    recipe: str
    changes: Sequence[str] = ()


@dataclass(frozen=True)
class Arm:
    """One of the ways: trainings of which each starts from the one before."""

    phases: Sequence[Phase]
    has_shuffled_trees: bool = False


@dataclass(frozen=True)
class Pair:
    """Arms that learn from the same data, and what they are judged by."""

    arms: Mapping[str, Arm]
    files: Mapping[str, str]
    """Where in the data's folder a key's file lies, the keys as recipes name them."""
    metrics: Sequence[str]
    hardware: Callable[[str | None], Hardware]
    beam: int = 1
    shared: Sequence[str] = field(default=())
    """What is changed for every arm."""


PLAIN, BRANCHES = "plain", "weighted branches"
STRUCTURAL, CONTROL = "structural", "structural, trees shuffled"
PAIRS: Mapping[str, Pair] = {
    "branches": Pair(
        arms={
            PLAIN: Arm(
                (
                    Phase("multi30k-weighted", ("model.layer=plain",)),
                    Phase(
                        "multi30k-weighted-frozen",
                        ("model.layer=plain", "model.has_frozen_branches=false"),
                    ),
                )
            ),
            BRANCHES: Arm((Phase("multi30k-weighted"), Phase("multi30k-weighted-frozen"))),
        },
        files={
            f"{split}.{side}": f"{file}.{language}.gz"
            for split, file in (("train", "train"), ("valid", "val"), ("test", "test_2016_flickr"))
            for side, language in (("source", "en"), ("target", "de"))
        },
        metrics=("bleu", "chrf"),
        hardware=recording,
        beam=BEAM,
        # often, and without decoding: it is the loss by update that is compared
        shared=("training.validate_every=100", "training.validate_examples=1"),
    ),
    "trees": Pair(
        arms={
            PLAIN: Arm((Phase("treebank-plain"),)),
            STRUCTURAL: Arm((Phase("treebank-structural"),)),
            CONTROL: Arm((Phase("treebank-structural"),), has_shuffled_trees=True),
        },
        files={
            f"{split}.path": f"en_ewt-ud-{file}.conllu.xz"
            for split, file in (("train", "train"), ("valid", "dev"), ("test", "test"))
        },
        metrics=("accuracy",),
        hardware=exact,
        shared=("training.validate_every=250", "training.validate_examples=1"),
    ),
}


def recipe_of(given: argparse.Namespace, arm: str, number: int, seed: int) -> Recipe:
    """The recipe of one of an arm's phases, with the data where they are."""
    pair = PAIRS[given.pair]
    chosen = pair.arms[arm]
    folder = given.out / SHUFFLED if chosen.has_shuffled_trees else given.data
    changes = [f"data.{key}={folder / file}" for key, file in pair.files.items()]
    changes += [*pair.shared, *chosen.phases[number].changes, f"training.seed={seed}"]
    if number:
        changes.append(f"training.start_from={out_of(given, arm, number - 1, seed)}")
    recipe = ROOT / "recipes" / f"{chosen.phases[number].recipe}.toml"
    return read_recipe(recipe, [*changes, *given.set])


def out_of(given: argparse.Namespace, arm: str, number: int, seed: int) -> Path:
    """Where one of an arm's phases has its run."""
    return given.out / f"{folder_of(given.pair, arm)}-{seed}-{number + 1}"


def folder_of(pair: str, arm: str) -> str:
    """What an arm's folders begin with."""
    return f"{pair}-{arm.replace(', ', '-').replace(' ', '-')}"


def prepare_all(given: argparse.Namespace, arms: Sequence[str]) -> None:
    """Sub-words and corpora once for each arm, whatever its seeds."""
    pair = PAIRS[given.pair]
    if any(pair.arms[arm].has_shuffled_trees for arm in arms):
        for file in pair.files.values():
            shuffle_trees(given.data / file, given.out / SHUFFLED / file)
    for arm in arms:
        prepared_once(recipe_of(given, arm, 0, 1), _prepared(given, arm))


def _prepared(given: argparse.Namespace, arm: str) -> Path:
    return given.out / "prepared" / folder_of(given.pair, arm)


def learned(given: argparse.Namespace, arm: str, seed: int) -> dict[str, Any]:
    """Train one arm through all its phases, and judge it on the test split."""
    pair, start = PAIRS[given.pair], time.monotonic()
    losses: list[tuple[int, float]] = []
    before = tokens = 0
    for number in range(len(pair.arms[arm].phases)):
        recipe, out = recipe_of(given, arm, number, seed), out_of(given, arm, number, seed)
        given_to(_prepared(given, arm), out)
        done, learned_before = before, tokens
        for event in run(recipe, out, resume=out.exists(), hardware=pair.hardware(given.device)):
            if isinstance(event, Validated):
                losses.append((done + event.step, event.loss))
                print(f"{arm} {seed}: {losses[-1]}", file=sys.stderr, flush=True)
            if isinstance(event, Step):
                before = done + event.progress.step
                tokens = learned_before + event.progress.target_tokens
    trained_s, trained = (
        time.monotonic() - start,
        load(out, device=given.device, precision="float32"),
    )
    test = texts_of_split(recipe, "test")[: given.texts]
    search = search_for(trained, beam=pair.beam, length_penalty=PENALTY)
    said = answer(trained, [each.source for each in test], AnswerOptions(search))
    scores = score(ScoredAnswers(trained, test, said.texts), pair.metrics)
    model = trained.loaded.model
    return {
        "pair": given.pair, "arm": arm, "seed": seed, "losses": losses, "updates": before,
        "target_tokens": tokens, "seconds": trained_s, "test_texts": len(test),
        "scores": {one.name: one.value for one in scores},
        "signatures": {one.name: one.signature for one in scores},
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "branches": branches_of(trained), "device": device_name(trained.hardware),
        "torch": torch.__version__,
    }  # fmt: skip


def branches_of(trained: Trained) -> dict[str, dict[str, list[float]]]:
    """What each layer's branches count in the end; nothing of a plain model."""
    return {
        name.removesuffix(".branches"): {"kappa": part.kappa.tolist(), "alpha": part.alpha.tolist()}
        for name, part in trained.loaded.model.named_modules()
        if isinstance(part, WeightedBranches)
    }


def shuffle_trees(path: Path, out: Path) -> None:
    """Write a treebank again with every tree hung from other words of its sentence.

    Words, tags and the shape of each tree stay; which word stands where in it is drawn anew.
    """
    if out.exists():
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(path.name)
    with lzma.open(out, "wt", encoding="utf-8", preset=0) as file:
        file.writelines(f"{line}\n" for line in _shuffled(lines(path), drawn))


def _shuffled(text: Iterator[str], drawn: random.Random) -> Iterator[str]:
    for is_sentence, group in groupby(text, bool):
        if not is_sentence:
            yield from group
            continue
        cells = [line.split("\t") for line in group]
        words = [row for row in cells if row[0].isdigit()]
        # place[i] is the word that stands now where word i stood; the root's head is no word
        place = [0, *drawn.sample(range(1, len(words) + 1), len(words))]
        heads = {place[int(row[0])]: place[int(row[HEAD])] for row in words}
        for row in words:
            row[HEAD] = str(heads[int(row[0])])
        yield from ("\t".join(row) for row in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pair", choices=PAIRS)
    parser.add_argument("--data", type=Path, required=True, help="The folder of the data set.")
    parser.add_argument("--out", type=Path, required=True, help="A folder for runs and results.")
    parser.add_argument("--seed", type=int, action="append", help="1 unless given; repeatable.")
    parser.add_argument("--arm", action="append", help="All unless given; repeatable.")
    parser.add_argument("--set", action="append", default=[], help="Change a key for all.")
    parser.add_argument("--texts", type=int, help="Most texts of the test split; all unless given.")
    parser.add_argument("--at-once", type=int, default=1, help="Trainings side by side.")
    parser.add_argument("--seconds", type=float, default=math.inf, help="Stop after so many.")
    parser.add_argument("--device", help="cpu or cuda; cuda where there is one.")
    parser.add_argument("--here", action="store_true", help="Train here; print what is found.")
    given, start = parser.parse_args(), time.monotonic()
    given.data, given.out = given.data.absolute(), given.out.absolute()
    results, seeds = given.out / "results.jsonl", given.seed or [1]
    arms = given.arm or list(PAIRS[given.pair].arms)
    wanted = [(arm, seed) for seed in seeds for arm in arms]
    if given.here:
        for arm, seed in wanted:
            print(json.dumps(learned(given, arm, seed)), flush=True)
        return
    prepare_all(given, arms)
    done = {(row["pair"], row["arm"], row["seed"]) for row in rows_of(results)}
    same = [given.pair, "--here", "--data", str(given.data), "--out", str(given.out)]
    for key, values in (("device", [given.device]), ("texts", [given.texts]), ("set", given.set)):
        same += [word for value in values if value for word in (f"--{key}", str(value))]
    work = [
        ("-m", "studies.comparisons.study", *same, "--arm", arm, "--seed", str(seed))
        for arm, seed in wanted
        if (given.pair, arm, seed) not in done
    ]
    left = given.seconds - (time.monotonic() - start)
    side_by_side(work, results, at_once=given.at_once, seconds=left)


if __name__ == "__main__":
    main()
