"""What each part of the Transformer is for: one part left out at a time, at equal budget.

    python -m studies.ablations.study recipes/multi30k-en-de.toml --out runs/ablations --at-once 4

Every variant trains by the same recipe, seed and number of updates, several as processes side by
side; then it answers the recipe's test split (or its validation split) by beam search. One that
cannot be built, or does not survive its training, is kept with the reason. What comes out:
`ablations.json`, and `ablations.html` with the curves of the validation loss. docs/ablations.md
says what was found on Multi30k.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard import load
from regard.errors import RegardError
from regard.evaluating import score_all
from regard.inspecting.capture import attention_of, weights_of
from regard.models import TransformerSpec, build_transformer
from regard.plots.charts import bars, curves
from regard.plots.page import page, table
from regard.recipes.recipe import examples, read_recipe

WHOLE = "whole"
VARIANTS: Mapping[str, Sequence[str]] = {
    WHOLE: (),
    "no scaling": ("model.score=dot",),
    "no residual": ("model.norm=no_residual",),
    "no norm": ("model.norm=no_norm",),
    "no feed-forward": ("model.feed_forward=none",),
    "no positions": ("model.positions=none",),
    "one head": ("model.n_heads=1",),
}
SHOWN = ("BLEU", "chrF2", "exact match")
N_TOKENS, N_SENTENCES, N_WORDS = 8000, 16, 12
"""Random sentences that an untrained model reads."""


@dataclass(frozen=True)
class Found:
    """What one variant reached."""

    losses: list[tuple[float, float]]
    """Validation losses by update."""
    stopped: str
    """Why the training did not come to its end; empty if it did."""
    scores: dict[str, float] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    start: dict[str, float | None] = field(default_factory=dict)
    """What the model was like before its first update; empty if it could not be built."""

    @property
    def best_loss(self) -> float:
        """The lowest of them; not a number if there are none."""
        return min((loss for _, loss in self.losses), default=math.nan)


def trained(recipe: Path, out: Path, changes: Sequence[str]) -> str:
    """Train one variant in a process of its own; empty, or why it stopped before its end.

    A finished run is left as it is.
    """
    # what was begun goes on, and a folder without a checkpoint is begun in
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "regard", "train", str(recipe), "--out", str(out), "--resume"]
    for change in changes:
        command += ["--set", change]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return reason(done.stderr) if done.returncode else ""


def reason(stderr: str) -> str:
    """What regard said when it gave up, in one line; else the last line that there is."""
    _, spoke, said = stderr.rpartition("regard: ")
    lines = stderr.strip().splitlines() or ["it stopped without a word"]
    return " ".join(said.split()) if spoke else lines[-1]


def measured(run: Path, stopped: str, start: Mapping[str, float | None]) -> Found:
    """Losses by update, and scores on the test split (validation where there is none)."""
    metrics = run / "metrics.jsonl"
    rows = (
        [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    )
    losses = [(row["step"], row["valid_loss"]) for row in rows if "valid_loss" in row]
    if stopped:
        return Found(losses, stopped, start=dict(start))
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
        start=dict(start),
    )


def at_start(spec: TransformerSpec) -> dict[str, float | None]:
    """What a model is like before its first update, on random words; None is not a number.

    Largest weight: of a row of the encoder's attention, the mean. Gradients: the norm over all
    parameters of a decoder layer. Reversed: by how much the logits change when the source is read
    from its end, as a share of the largest logit. Last word: by how much those of a row change when
    the word that it has just read is another.
    """
    torch.manual_seed(1)
    try:
        model = build_transformer(spec, n_source_tokens=N_TOKENS, n_target_tokens=N_TOKENS).eval()
    except RegardError:
        return {}
    source, target = torch.randint(4, N_TOKENS, (2, N_SENTENCES, N_WORDS))
    hidden, gold = model.loss_inputs(source, target)
    cross_entropy(model.output(hidden).flatten(0, 1), gold.flatten()).backward()
    other = target.clone()
    # the last row reads the word before the one that it has to say
    other[:, -2] = 4 + (other[:, -2] - 3) % (N_TOKENS - 4)
    with torch.no_grad():
        logits = model.output(hidden)
        backwards = model.output(model.loss_inputs(source.flip(1), target).hidden)
        reread = model.output(model.loss_inputs(source, other).hidden)
    maps = attention_of(model, source[0].tolist(), target[0].tolist())["encoder"]
    found = {
        "parameters": float(sum(weight.numel() for weight in model.parameters())),
        "largest logit": float(logits.abs().max()),
        "largest weight": float(weights_of(maps).amax(-1).mean()),
        "gradient of the first layer": _gradient(model.decoder[0]),
        "gradient of the last layer": _gradient(model.decoder[-1]),
        "reversed": _change(logits, backwards),
        "last word": _change(logits[:, -1], reread[:, -1]),
    }
    return {name: value if math.isfinite(value) else None for name, value in found.items()}


def _change(before: Tensor, after: Tensor) -> float:
    return float((after - before).abs().max() / before.abs().max())


def _gradient(layer: nn.Module) -> float:
    norms = [weight.grad.norm() for weight in layer.parameters() if weight.grad is not None]
    return float(torch.stack(norms).norm())


def shown(found: Mapping[str, Found]) -> str:
    """One page: a table, a curve for each variant, and bars of the scores."""
    rows = [
        [name, _number(one.best_loss, 3), *(_score(one, key) for key in SHOWN)]
        for name, one in found.items()
    ]
    lines = {
        name: [(float(step), loss) for step, loss in one.losses]
        for name, one in found.items()
        if one.losses
    }
    answered = [name for name, one in found.items() if one.scores]
    heights = {key: [found[name].scores[key] for name in answered] for key in SHOWN[:2]}
    body = [
        table(["variant", "best loss", *SHOWN], rows, caption="At equal budget"),
        *(
            f"<p>{name} stopped: {escape(one.stopped)}</p>"
            for name, one in found.items()
            if one.stopped
        ),
        curves(lines, title="Validation loss, nats per target token"),
        bars(answered, heights if answered else {}, title="Scores", x_title="variant"),
    ]
    return page("One part left out", body)


def _score(one: Found, key: str) -> str:
    return _number(one.scores.get(key, math.nan), 1)


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if math.isfinite(value) else "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="A folder for the runs.")
    parser.add_argument("--set", action="append", default=[], help="Change a key for all.")
    parser.add_argument("--at-once", type=int, default=1, help="Variants side by side.")
    given = parser.parse_args()
    changes = {name: [*given.set, *without] for name, without in VARIANTS.items()}
    specs = {name: read_recipe(given.recipe, changes[name]).model for name in VARIANTS}
    folders = {name: given.out / name.replace(" ", "-") for name in VARIANTS}
    with ThreadPoolExecutor(given.at_once) as pool:
        jobs = {
            name: pool.submit(trained, given.recipe, folder, changes[name])
            for name, folder in folders.items()
        }
        stopped = {name: job.result() for name, job in jobs.items()}
    if stopped[WHOLE]:
        raise SystemExit(f"ablations: there is nothing to compare with: {stopped[WHOLE]}")
    found = {
        name: measured(folder, stopped[name], at_start(specs[name]))
        for name, folder in folders.items()
    }
    (given.out / "ablations.json").write_text(
        json.dumps({name: asdict(one) for name, one in found.items()}, indent=1) + "\n"
    )
    (given.out / "ablations.html").write_text(shown(found))
    for name, one in found.items():
        print(f"{name:<16} loss {_number(one.best_loss, 3)}", one.scores, one.stopped)


if __name__ == "__main__":
    main()
