"""Planned against real seconds of short trainings, both by the command line.

    python benchmarks/plan_against_truth.py --data FOLDER [--only copy,tagging] [--json FILE]

FOLDER holds `data/`, where the recipes look for a treebank, Multi30k and WikiText-2. Each recipe
is shortened, and the large ones made small, so that it takes about half a minute. The truth is the
wall time of the whole process. Exit 1 if a plan is more than a fifth away from it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

LIMIT = 0.2
RECIPES = Path(__file__).parents[1] / "recipes"
SMALL = ("model.d_model=64", "model.d_hidden=128")
SHORTENED = {
    "copy": ("training.steps=900", "training.validate_every=300"),
    "demo-dates": ("training.steps=500", "training.validate_every=250"),
    "tagging": ("training.steps=150", "training.validate_every=75"),
    "treebank-structural": ("training.steps=150", "training.validate_every=75"),
    "dates-luong": ("training.steps=200", "training.validate_every=100"),
    "scenes-soft": ("training.steps=100", "training.validate_every=50"),
    "multi30k-de-en": (
        *SMALL, "model.n_encoder_layers=2", "model.n_decoder_layers=2", "training.steps=60",
        "training.validate_every=30", "training.checkpoint_every=10",
        "training.target_tokens_per_update=2048", "training.target_tokens_per_batch=2048",
    ),
    "wikitext2-lm": (
        *SMALL, "model.n_layers=2", "tokens.size=8000", "data.train.every=256",
        "training.steps=100", "training.validate_every=100",
        "training.target_tokens_per_update=2048", "training.target_tokens_per_batch=2048",
    ),
}  # fmt: skip
"""The recipes, and the settings that make them short."""


def run(words: Sequence[str], folder: Path) -> tuple[str, float]:
    """What a verb prints, and how long its process takes."""
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "regard", *words], cwd=folder, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout, time.perf_counter() - begun


def compared(name: str, folder: Path, more: Sequence[str]) -> dict[str, object]:
    """Planned and real seconds of a recipe, and the parts of both."""
    recipe, changes = str(RECIPES / f"{name}.toml"), (*SHORTENED[name], *more)
    settings = [word for change in changes for word in ("--set", change)]
    planned, plan_took = run(["plan", recipe, "--json", "--device", "cpu", *settings], folder)
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        words = ["train", recipe, "--out", str(out), "--device", "cpu", *settings]
        _, real = run(words, folder)
        rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        threads = json.loads((out / "environment.json").read_text())["threads"]
    updates = [row["seconds"] for row in rows if "train_loss" in row]
    validations = [row for row in rows if "valid_loss" in row]
    plan = json.loads(planned)
    return {
        "recipe": name,
        "planned": plan["time"]["total"],
        "real": real,
        "ratio": plan["time"]["total"] / real,
        "plan_took": plan_took,
        "plan": plan["time"],
        "notes": plan["notes"],
        "real_threads": threads,
        "real_per_update": sum(updates) / len(updates),
        "real_validations": [row["seconds"] for row in validations],
        "real_decoded": [row.get("decoded_examples") for row in validations],
    }


def main() -> None:
    """Print a table, a line for each recipe as it is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(), help="The folder that holds data/.")
    parser.add_argument("--only", help="Only these recipes, separated by commas.")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--json", type=Path, help="Write everything measured to this file.")
    given = parser.parse_args()
    names = list(SHORTENED) if given.only is None else given.only.split(",")
    found = []
    print(f"{'recipe':<22}{'planned s':>10}{'real s':>9}{'ratio':>7}   s an update, a validation")
    for name in names:
        row = compared(name, given.data, given.settings)
        found.append(row)
        plan, validations = row["plan"], row["real_validations"]
        each = ", ".join(f"{one:.2f}" for one in validations)
        print(
            f"{name:<22}{row['planned']:>10.1f}{row['real']:>9.1f}{row['ratio']:>7.2f}   "
            f"{plan['per_update']:.3f} ({row['real_per_update']:.3f}), "
            f"{plan['per_validation']:.2f} ({each}); {plan['decoded_examples']} decoded "
            f"({row['real_decoded'][-1]})",
            flush=True,
        )
        if given.json is not None:
            given.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(any(abs(row["ratio"] - 1) > LIMIT for row in found))


if __name__ == "__main__":
    main()
