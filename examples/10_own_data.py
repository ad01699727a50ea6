"""From a file of yours to a trained run: what `regard new` and `regard train` do, in Python.

Expected output, among other lines:

    96 examples, texts with 2 different labels: label
    question
    statement
"""

import tempfile
from pathlib import Path

import regard
from regard.data.recognised import recognise
from regard.recipes.new_recipe import SplitData, new_recipe

SUBJECTS = ("the train", "the boat", "my sister", "a small dog", "the old clock", "our neighbour")
WORDS = ("late", "here", "new", "loud", "gone", "blue", "cold", "open")

with tempfile.TemporaryDirectory() as folder:
    path, recipe = Path(folder) / "mine.tsv", Path(folder) / "mine.toml"
    rows = [(f"is {who} {how}", "question") for who in SUBJECTS for how in WORDS]
    rows += [(f"{who} is {how}", "statement") for who in SUBJECTS for how in WORDS]
    path.write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    found = recognise([path])
    print(f"{found.examples} examples, {found.reason}: {found.task}")
    recipe.write_text(new_recipe(found, SplitData(), has_gpu=False, name=recipe.name))
    run = regard.train(recipe, f"{folder}/run", changes=["training.steps=60"])
    for answer in run.predict(["is the boat blue", "my sister is here"]):
        print(answer.text)
