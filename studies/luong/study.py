"""Every score with every selection, at one budget: the study of Luong, Pham and Manning, again.

    python -m studies.luong.study multi30k --data data/multi30k --out runs/luong --at-once 8
    python -m studies.luong.study hansards --data data/hansards --gold data/alignment \
        --out runs/luong

Systems of one data set learn by its recipe (recipes/multi30k-luong.toml, hansards-luong.toml), with
the same updates, batches and seed, and differ in their [model] alone. Several train side by side;
afterwards each is timed alone. With --gold the attention is held against the word links that people
drew. Results are added to OUT/results.jsonl, a line for each system and seed; what is there is not
done again. docs/luong.md says what was found.
"""

import argparse
import json
import math
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli_w
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard import load
from regard.bench.training_gpu import Clock
from regard.data import Example, lines
from regard.data.batches import Batch
from regard.evaluating import Gold, bleu, chrf
from regard.models import build_model
from regard.recipes.recipe import Recipe, examples, read_recipe
from regard.runs.alignment import align, read_gold
from regard.runs.evaluation import answer, search_for
from regard.runs.evaluation_texts import places_of_short
from regard.runs.trained import Trained
from regard.tasks.predictions import AnswerOptions
from regard.training.accumulation import Accumulator
from regard.training.losses import Objective
from regard.training.run import run
from studies.side_by_side import (
    Work,
    given_to,
    history_of,
    prepared_once,
    recording,
    rows_of,
    side_by_side,
)

ROOT = Path(__file__).parents[2]
LANGUAGES: Mapping[str, tuple[str, str, str]] = {
    "multi30k": ("en", "de", "gz"),
    "hansards": ("en", "fr", "xz"),
}
SPLITS: Mapping[str, Mapping[str, str]] = {
    "multi30k": {"train": "train", "valid": "val", "test": "test_2016_flickr"},
    "hansards": {"train": "train", "valid": "dev", "test": "test"},
}
SHORT = 18
"""The most English words of a short sentence; the Hansards that are learned from have no more."""
SHORT_GERMAN = 14
"""The same of German gold sentences: half of them, and 98.7 % of Tatoeba, their training text."""
GERMAN = 100
SLIP = (62, (16, 12), (12, 12))
"""Of the German gold file: a line counted from 0, the link that is there, and the one meant."""
BEAM, PENALTY = 5, 1.0
N_ROWS, LENGTH, WARM_UP, REPEATS = 512, 16, 4, 20
"""The batch on which all models are timed; its rows are as long as Multi30k's sentences."""

Model = Mapping[str, Any]
ONE_WAY: Model = {
    "is_bidirectional": False, "reverses_source": True, "bridge": "copy", "feeds_input": False,
}  # fmt: skip
"""An LSTM that reads backwards and one that writes, as Luong has them, with one layer each."""
NO_LOOK: Model = {"attends": "none", "feeds_input": False, "readout": "attentional"}
SCORES = ("dot", "general", "concat", "additive", "location")
SELECTIONS = ("soft", "local_monotonic", "local_predictive")
GRID: Mapping[str, Model] = {
    f"{score}, {select}": {**ONE_WAY, "score": score, "select": select}
    for select in SELECTIONS
    for score in SCORES
}
BAHDANAU: Model = {
    "cell": "gru", "attends": "previous", "attends_to_end": True, "score": "additive",
    "feeds_input": False, "readout": "maxout", "bridge": "backward", "tied": "none",
}  # fmt: skip
OTHER_KINDS: Mapping[str, Model] = {
    "convolution": {
        "kind": "convolutional", "d_model": 432, "n_encoder_layers": 4, "n_decoder_layers": 4,
        "dropout": 0.3,
    },
    "transformer": {
        "kind": "transformer", "d_model": 320, "n_heads": 5, "d_hidden": 1280,
        "n_encoder_layers": 4, "n_decoder_layers": 4, "norm": "pre_norm", "dropout": 0.3,
    },
}  # fmt: skip
SYSTEMS: Mapping[str, Mapping[str, Model]] = {
    "multi30k": {
        **GRID,
        "no attention": {**ONE_WAY, **NO_LOOK},
        "general, soft, fed": {**ONE_WAY, "feeds_input": True},
        "general, local_predictive, fed": {
            **ONE_WAY, "feeds_input": True, "select": "local_predictive",
        },
        "general, soft, both ways": {"feeds_input": False},
        "general, soft, both ways, fed": {},
        "general, soft, both ways, fed, covered": {"has_coverage": True},
        "Bahdanau": BAHDANAU,
        **OTHER_KINDS,
    },
    "hansards": {
        "no attention": {**ONE_WAY, **NO_LOOK},
        "general, soft": ONE_WAY,
        "general, local_predictive": {**ONE_WAY, "select": "local_predictive"},
        "general, soft, both ways": {"feeds_input": False},
        "general, soft, both ways, fed": {},
        "Bahdanau": BAHDANAU,
        "transformer": {**OTHER_KINDS["transformer"], "dropout": 0.1},
    },
}  # fmt: skip


def recipe_of(study: str, name: str, given: argparse.Namespace, seed: int) -> Recipe:
    """The data set's recipe with this system's [model]; a system of another kind has its own."""
    table = tomllib.loads((ROOT / "recipes" / f"{study}-luong.toml").read_text())
    model = SYSTEMS[study][name]
    table["model"] = {**({} if "kind" in model else table["model"]), **model}
    source, target, packed = LANGUAGES[study]
    for split, file in SPLITS[study].items():
        for side, language in (("source", source), ("target", target)):
            table["data"][split][side] = str(given.data / f"{file}.{language}.{packed}")
    table["training"]["seed"] = seed
    path = given.out / "recipes" / f"{folder_of(study, name, seed)}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tomli_w.dumps(table))
    return read_recipe(path, given.set)


def folder_of(study: str, name: str, seed: int) -> str:
    """What its run is called."""
    return f"{study}-{name.replace(', ', '-').replace(' ', '-')}-{seed}"


def prepared_for(given: argparse.Namespace) -> Path:
    """The folder of what all systems of the study begin with: sub-words and texts as numbers."""
    folder: Path = given.out / "prepared" / given.study
    return folder


def learned(study: str, name: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Train one system, let it answer the test split, and hold its attention against gold."""
    recipe, out = recipe_of(study, name, given, seed), given.out / folder_of(study, name, seed)
    given_to(prepared_for(given), out)
    for _ in run(recipe, out, resume=out.exists(), hardware=recording(given.device)):
        pass
    history = history_of(out)
    trained = load(out, device=given.device)
    assert recipe.data.test is not None
    test = list(examples(recipe.data.test, "test")())
    search = search_for(trained, beam=BEAM, length_penalty=PENALTY)
    said = answer(trained, [each.source for each in test], AnswerOptions(search))
    references = [list(each.targets) for each in test]
    scores = [bleu(said.texts, references), chrf(said.texts, references)]
    is_aligned = given.gold is not None and SYSTEMS[study][name].get("attends") != "none"
    return {
        "study": study, "system": name, "seed": seed,
        "losses": history.losses, "target_tokens": history.target_tokens,
        "scores": {score.name: score.value for score in scores},
        "signatures": {score.name: score.signature for score in scores},
        "hypotheses": list(said.texts),
        "alignment": gold_errors(trained, given.gold) if is_aligned else {},
    }  # fmt: skip


def gold_errors(trained: Trained, gold: Path) -> dict[str, Any]:
    """Alignment errors on all English-French gold sentences and on the short ones."""
    sources, targets = zip(
        *(line.split("|||") for line in (gold / "enfr.src-tgt").read_text().splitlines()),
        strict=True,
    )
    given = [
        Example(" ".join(source.split()), (" ".join(target.split()),))
        for source, target in zip(sources, targets, strict=True)
    ]
    golds = read_gold(gold / "enfr.gold", sentences=len(given), kind="pharaoh", first=1)
    return _errors(trained, given, golds, SHORT)


def german_errors(trained: Trained, gold: Path) -> dict[str, Any]:
    """The same on the English-German ones, for a run that reads English and writes German."""
    sides = (lines(gold / "de-en" / f"test.{language}") for language in ("en", "de"))
    given = [Example(source, (target,)) for source, target in zip(*sides, strict=True)]
    return _errors(trained, given, german_gold(gold / "de-en" / "de-en.wa"), SHORT_GERMAN)


def german_gold(path: Path) -> list[Gold]:
    """The links of the German file, English first, with its one slip put right.

    The file has German words first. It links the full stop of line 63, word 12 on both sides, to a
    word 16 that English does not have there.
    """
    found = [one.swapped() for one in read_gold(path, sentences=GERMAN, kind="pharaoh", first=0)]
    place, wrong, right = SLIP
    found[place] = Gold(found[place].sure - {wrong} | {right})
    return found


def _errors(
    trained: Trained, given: Sequence[Example], golds: Sequence[Gold], words: int
) -> dict[str, Any]:
    short = places_of_short(given, max_source_words=words, max_target_words=None)
    return {
        "all": align(trained, given, golds).as_json(),
        "short": align(trained, given, golds, places=short).as_json(),
    }


def cost(study: str, name: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """What one system takes, alone: parameters, operations of a target word, speed and memory."""
    recipe, where = recipe_of(study, name, given, seed), recording(given.device)
    n_tokens = recipe.tokens.size
    torch.manual_seed(seed)
    model = build_model(recipe.model, n_source_tokens=n_tokens, n_target_tokens=n_tokens)
    draws = torch.randint(4, n_tokens, (2, N_ROWS, LENGTH))
    lengths, few = torch.full((N_ROWS,), LENGTH), N_ROWS // 32
    batch = Batch(*draws, lengths, lengths, torch.arange(N_ROWS))
    with FlopCounterMode(display=False) as counted:
        Objective(0.1)(
            model.loss_inputs, model.output, *draws[:, :few], scale=torch.ones(())
        ).total.backward()
    update = Accumulator(where.place(model), Objective(0.1), where)
    optimiser = torch.optim.Adam(model.parameters(), fused=True)

    def updates(count: int) -> None:
        for _ in range(count):
            update.gather([batch], N_ROWS * LENGTH)
            optimiser.step()

    updates(WARM_UP)
    clock = Clock(where.device)
    with clock:
        updates(REPEATS)
    return {
        "study": study, "system": name, "parameters": sum(p.numel() for p in model.parameters()),
        "operations_per_word": counted.get_total_flops() / (few * LENGTH),
        "words_per_second": REPEATS * N_ROWS * LENGTH / clock.seconds,
        "peak_bytes": clock.peak_bytes,
    }  # fmt: skip


WORK = {"learn": learned, "cost": cost}


def words_of(given: argparse.Namespace, do: str, name: str, seed: int) -> Work:
    """What a process is told that does one piece of the work."""
    words = [
        "-m",
        "studies.luong.study",
        given.study,
        "--data",
        str(given.data),
        "--out",
        str(given.out),
    ]
    for key, values in (("gold", [given.gold]), ("device", [given.device]), ("set", given.set)):
        words += [word for value in values if value for word in (f"--{key}", str(value))]
    return [*words, "--do", do, "--seed", str(seed), "--system", name]


def pending(
    results: Path, study: str, wanted: Sequence[tuple[str, int | None]]
) -> Iterator[tuple[str, int | None]]:
    """What no line of the results is about."""
    done = {(row["study"], row["system"], row.get("seed")) for row in rows_of(results)}
    return ((name, seed) for name, seed in wanted if (study, name, seed) not in done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=SYSTEMS)
    parser.add_argument("--data", type=Path, required=True, help="The folder of the data set.")
    parser.add_argument("--gold", type=Path, help="The folder of the gold alignments.")
    parser.add_argument("--out", type=Path, required=True, help="A folder for runs and results.")
    parser.add_argument("--seed", type=int, action="append", help="1 unless given; repeatable.")
    parser.add_argument("--system", action="append", help="All unless given; repeatable.")
    parser.add_argument("--set", action="append", default=[], help="Change a key for all.")
    parser.add_argument("--at-once", type=int, default=1, help="Trainings side by side.")
    parser.add_argument("--seconds", type=float, default=math.inf, help="Stop after so many.")
    parser.add_argument("--device", help="cpu or cuda; cuda where there is one.")
    parser.add_argument("--do", choices=WORK, help="Do it here and now, and print what is found.")
    given = parser.parse_args()
    given.data, given.out = given.data.absolute(), given.out.absolute()
    given.gold = given.gold and given.gold.absolute()
    names, seeds = given.system or list(SYSTEMS[given.study]), given.seed or [1]
    if given.do is not None:
        for name in names:
            print(json.dumps(WORK[given.do](given.study, name, seeds[0], given)), flush=True)
        return
    prepared_once(recipe_of(given.study, names[0], given, seeds[0]), prepared_for(given))
    results, end = given.out / "results.jsonl", time.monotonic() + given.seconds
    everyone = [(name, seed) for seed in seeds for name in names]
    # costs run one after another, each in a process of its own: no model is slowed down by another,
    # and no measured memory holds another's recorded graphs
    for do, wanted, at_once in (
        ("learn", everyone, given.at_once),
        ("cost", [(name, None) for name in names], 1),
    ):
        work = [
            words_of(given, do, name, seed or seeds[0])
            for name, seed in pending(results, given.study, wanted)
        ]
        side_by_side(work, results, at_once=at_once, seconds=end - time.monotonic())


if __name__ == "__main__":
    main()
