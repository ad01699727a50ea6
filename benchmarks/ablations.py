"""What each part of the Transformer is for: one part left out at a time, at equal budget.

    python benchmarks/ablations.py recipes/multi30k-en-de.toml --out runs/ablations --at-once 4

Every variant trains by the same recipe, seed and number of updates, several as processes side by
side; then it answers the recipe's test split (or its validation split) by beam search. One that
does not survive its training is kept with the reason. What comes out: `ablations.json`, and
`ablations.html` with the curves of the validation loss.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from regard import load
from regard.evaluating import score_all
from regard.plots.curves import curves
from regard.plots.page import page, table
from regard.training.recipes import examples, read_recipe

VARIANTS: Mapping[str, Sequence[str]] = {
    "whole": (),
    "no scaling": ("model.score=dot",),
    "no residual": ("model.norm=no_residual",),
    "no norm": ("model.norm=no_norm",),
    "no feed-forward": ("model.feed_forward=none",),
    "no positions": ("model.positions=none",),
    "one head": ("model.n_heads=1",),
}


def trained(recipe: Path, out: Path, changes: Sequence[str]) -> str:
    """Train one variant in a process of its own; empty, or why it stopped before its end.

    A finished run is left as it is.
    """
    command = [sys.executable, "-m", "regard", "train", str(recipe), "--out", str(out), "--resume"]
    for change in changes:
        command += ["--set", change]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and not (out / "metrics.jsonl").exists():
        raise SystemExit(f"{out.name}: {done.stderr.strip()}")
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


@dataclass(frozen=True)
class Found:
    """What one variant reached."""

    losses: list[tuple[float, float]]
    """Validation losses by update."""
    stopped: str
    """Why the training did not come to its end; empty if it did."""
    scores: dict[str, float] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)

    @property
    def best_loss(self) -> float:
        """The lowest of them."""
        return min((loss for _, loss in self.losses), default=float("nan"))


def measured(run: Path, stopped: str) -> Found:
    """Losses by update, and scores on the test split (validation where there is none)."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [(row["step"], row["valid_loss"]) for row in rows if "valid_loss" in row]
    if stopped:
        return Found(losses, stopped)
    recipe = read_recipe(run / "recipe.toml")
    choice = recipe.data.test or recipe.data.valid
    test = list(examples(choice, "test" if recipe.data.test else "valid")())
    said = load(run).predict([each.source for each in test])
    scores = score_all([each.text for each in said], [list(each.targets) for each in test])
    return Found(
        losses,
        stopped,
        scores={score.name: score.value for score in scores},
        signatures={score.name: score.signature for score in scores},
    )


def shown(found: Mapping[str, Found]) -> str:
    """One page: a table, and a curve for each variant."""
    rows = [
        [name, f"{one.best_loss:.3f}", *(_score(one, key) for key in SHOWN), one.stopped]
        for name, one in found.items()
    ]
    lines = {name: one.losses for name, one in found.items() if one.losses}
    drawn = curves(lines, title="Validation loss, nats per target token")
    heads = ["variant", "best loss", *SHOWN, "stopped"]
    return page("One part left out", [table(heads, rows, caption="At equal budget"), drawn])


def _score(one: Found, key: str) -> str:
    return f"{one.scores[key]:.1f}" if key in one.scores else "none"


SHOWN = ("BLEU", "chrF2", "exact match")

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="A folder for the runs.")
    parser.add_argument("--set", action="append", default=[], help="Change a key for all.")
    parser.add_argument("--at-once", type=int, default=1, help="Variants side by side.")
    given = parser.parse_args()
    folders = {name: given.out / name.replace(" ", "-") for name in VARIANTS}
    with ThreadPoolExecutor(given.at_once) as pool:
        jobs = {
            name: pool.submit(trained, given.recipe, folder, [*given.set, *VARIANTS[name]])
            for name, folder in folders.items()
        }
        stopped = {name: job.result() for name, job in jobs.items()}
    found = {name: measured(folder, stopped[name]) for name, folder in folders.items()}
    (given.out / "ablations.json").write_text(
        json.dumps({name: asdict(one) for name, one in found.items()}, indent=1) + "\n"
    )
    (given.out / "ablations.html").write_text(shown(found))
    for name, one in found.items():
        print(f"{name:<16} loss {one.best_loss:.3f}", one.scores, one.stopped)
