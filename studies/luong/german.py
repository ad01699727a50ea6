"""Word alignments of English and German: models that learn from Tatoeba, held against Europarl.

    python -m studies.luong.german --data data/tatoeba --gold data/alignment --out runs/german

Each kind learns by its recipe (recipes/tatoeba-luong.toml, tatoeba-transformer.toml) and is made to
write the German of the 100 gold sentences. A line for each kind and seed is added to
OUT/german.jsonl; what is there is not done again. docs/luong.md says what was found.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from regard import load
from regard.evaluating import bleu, chrf
from regard.recipes.recipe import Recipe, examples, read_recipe
from regard.runs.evaluation import answer, search_for
from regard.tasks.predictions import AnswerOptions
from regard.training.run import run
from studies.luong.study import BEAM, PENALTY, german_errors
from studies.side_by_side import history_of, recording

RECIPES = Path(__file__).parents[2] / "recipes"
KINDS = ("luong", "transformer")
FILES = {"train": "train", "valid": "dev", "test": "test"}


def recipe_of(kind: str, seed: int, given: argparse.Namespace) -> Recipe:
    """The kind's recipe, with the data where they are."""
    data = [f"data.{split}.path={given.data}/en-de.{file}.tsv.xz" for split, file in FILES.items()]
    changes = [*data, f"training.seed={seed}", *given.set]
    return read_recipe(RECIPES / f"tatoeba-{kind}.toml", changes)


def learned(kind: str, seed: int, given: argparse.Namespace) -> dict[str, Any]:
    """Train one model, let it answer the test split, and hold its attention against gold."""
    recipe, out = recipe_of(kind, seed, given), given.out / f"{kind}-{seed}"
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
    return {
        "study": "tatoeba", "system": kind, "seed": seed,
        "losses": history.losses, "target_tokens": history.target_tokens,
        "parameters": sum(weight.numel() for weight in trained.loaded.model.parameters()),
        "scores": {score.name: score.value for score in scores},
        "signatures": {score.name: score.signature for score in scores},
        "alignment": german_errors(trained, given.gold),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="The folder of Tatoeba.")
    parser.add_argument("--gold", type=Path, required=True, help="The folder that holds de-en.")
    parser.add_argument("--out", type=Path, required=True, help="A folder for runs and results.")
    parser.add_argument("--kind", choices=KINDS, action="append", help="Both unless given.")
    parser.add_argument("--seed", type=int, action="append", help="1 unless given; repeatable.")
    parser.add_argument("--set", action="append", default=[], help="Change a key for all.")
    parser.add_argument("--device", help="cpu or cuda; cuda where there is one.")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    results = given.out / "german.jsonl"
    lines = results.read_text().splitlines() if results.exists() else []
    done = {(row["system"], row["seed"]) for row in map(json.loads, lines)}
    for kind in given.kind or KINDS:
        for seed in given.seed or [1]:
            if (kind, seed) not in done:
                with results.open("a") as file:
                    file.write(json.dumps(learned(kind, seed, given)) + "\n")


if __name__ == "__main__":
    main()
