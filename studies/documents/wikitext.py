"""WikiText-2: a language model's perplexity per word, and a masked-word model's loss beside it.

    python -m studies.documents.wikitext --data data/wikitext2 --out runs/wikitext2 --seconds 480

Both learn by their recipe (recipes/wikitext2-lm.toml, wikitext2-mlm.toml), side by side. The
language model's words are those of the release, so that nothing is converted:

    perplexity = exp(Σ −ln p(word) / words),    an end of a line is a word

A second figure adds a cache (Grave, Joulin & Usunier 2017): the words that followed where the model
was in a like state, among the last 2,000, have a share of the probability. How sharp it is and how
large its share, is chosen on the validation text. Results go to OUT/results.jsonl, a line a model;
curves are in OUT/*/metrics.jsonl.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import load
from regard.evaluating.neural_cache import ReadText, chosen_cache
from regard.hardware.hardware import Hardware
from regard.recipes.recipe import Recipe, read_recipe
from regard.runs.evaluation import numbered
from regard.runs.evaluation_texts import texts_of_split
from regard.runs.trained import Trained
from regard.training.corpus_losses import read_in_order, row_losses
from studies.documents.study import ROOT, learn

SPLITS = ("valid", "test")
CACHE = 2000
"""How many words back the cache reaches."""


def read_text(trained: Trained, split: str) -> ReadText:
    """Every word of a split once, behind the context that the recipe gives it."""
    loaded, hardware = trained.loaded, trained.hardware
    with numbered(texts_of_split(loaded.recipe, split), loaded, hardware) as corpus:
        return read_in_order(loaded.model, corpus, np.arange(len(corpus)), hardware=hardware)


def perplexity(nats: Tensor) -> float:
    """Per word."""
    return math.exp(float(nats.mean()))


def judged_text(trained: Trained) -> dict[str, Any]:
    """Perplexities of a language model, without and with a cache."""
    texts = {split: read_text(trained, split) for split in SPLITS}
    cache = chosen_cache(texts["valid"], size=CACHE)
    return {
        split: {
            "words": len(text.tokens),
            "perplexity": perplexity(text.nats),
            "with_cache": perplexity(cache.nats(text)),
        }
        for split, text in texts.items()
    } | {"cache": {"size": CACHE, "sharpness": cache.sharpness, "share": cache.share}}


def judged_guesses(trained: Trained) -> dict[str, Any]:
    """The loss of a masked-word model per hidden piece."""
    found: dict[str, Any] = {}
    for split in SPLITS:
        texts = texts_of_split(trained.loaded.recipe, split)
        with numbered(texts, trained.loaded, trained.hardware) as corpus:
            rows = np.arange(len(corpus))
            read = row_losses(
                trained.loaded.model, corpus, rows, target_tokens=8192, hardware=trained.hardware
            )
            pieces = int(corpus.target_lengths.sum())
        found[split] = {
            "loss": sum(read.nats) / sum(read.tokens),
            "hidden": sum(read.tokens),
            "pieces": pieces,
        }
    return found


MODELS: Mapping[str, Callable[[Trained], dict[str, Any]]] = {
    "lm": judged_text,
    "mlm": judged_guesses,
}
"""By the end of their recipe's name."""


def recipe_of(model: str, given: argparse.Namespace) -> Recipe:
    """With the data where they are."""
    changes = [
        f"data.{split}.path={given.data}/wiki.{split}.tokens.xz" for split in ("train", *SPLITS)
    ]
    own = [one.split(":", 1)[1] for one in given.set if one.split(":", 1)[0] == model]
    path = ROOT / "recipes" / f"wikitext2-{model}.toml"
    return read_recipe(path, [*changes, f"training.seed={given.seed}", *own])


def learned(model: str, given: argparse.Namespace) -> dict[str, Any]:
    """Train a model, for as long as there is time, and score it."""
    began, out = time.monotonic(), given.out / f"{model}-{given.seed}"
    compiles = False if given.no_compile else None
    where = Hardware.chosen(given.device, None, compiles=compiles)
    facts = learn(recipe_of(model, given), out, where, given.seconds, model)
    trained = load(out, device=given.device)
    return {
        "model": model, "seed": given.seed, **facts, "trained_s": time.monotonic() - began,
        "parameters": sum(p.numel() for p in trained.loaded.model.parameters()),
        **MODELS[model](trained), "seconds": time.monotonic() - began,
        "peak_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None,
    }  # fmt: skip


def in_a_process(given: argparse.Namespace, model: str) -> str:
    """Train one; if it cannot be compiled, once more as it is written."""
    command = [
        sys.executable,
        "-m",
        "studies.documents.wikitext",
        "--do",
        model,
        "--data",
        given.data,
        "--out",
        given.out,
        "--seed",
        str(given.seed),
    ]
    for key, values in (("device", [given.device]), ("set", given.set)):
        command += [word for value in values if value for word in (f"--{key}", value)]
    began = time.monotonic()
    for more in ([],) if given.no_compile else ([], ["--no-compile"]):
        left = ["--seconds", str(given.seconds - (time.monotonic() - began))]
        done = subprocess.run(
            [*command, *left, *(more or ["--no-compile"] * given.no_compile)],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        if not done.returncode:
            return done.stdout
        print(f"wikitext: {model} ended with {done.returncode} {more}", file=sys.stderr)
        shutil.rmtree(given.out / f"{model}-{given.seed}", ignore_errors=True)
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data/wikitext2"), help="The release.")
    parser.add_argument("--out", type=Path, required=True, help="A folder for runs and results.")
    parser.add_argument("--seed", type=int, default=1, help="Of both trainings.")
    parser.add_argument(
        "--set", action="append", default=[], help="Change a key of one: lm:training.steps=100."
    )
    parser.add_argument("--model", action="append", choices=MODELS, help="Both unless given.")
    parser.add_argument("--seconds", type=float, default=1e9, help="A training ends after so many.")
    parser.add_argument("--device", help="cpu or cuda; cuda where there is one.")
    parser.add_argument("--no-compile", action="store_true", help="Train as it is written.")
    parser.add_argument("--do", choices=MODELS, help="Do it here and now, and print what is found.")
    given = parser.parse_args()
    if given.do is not None:
        print(json.dumps(learned(given.do, given)), flush=True)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    names = given.model or list(MODELS)
    with ThreadPoolExecutor(len(names)) as pool, (given.out / "results.jsonl").open("a") as file:
        for line in pool.map(lambda name: in_a_process(given, name), names):
            file.write(line)
            file.flush()


if __name__ == "__main__":
    main()
