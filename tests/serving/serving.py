"""Small runs behind a server, for tests of the server and of the page."""

from pathlib import Path

from regard.data import Example
from regard.data.kinds import KINDS
from regard.data.subwords import Subwords
from regard.evaluating import Gold
from regard.models import build_model
from regard.serving.shelf import GoldPairs, Shelf, open_runs
from regard.training import read_recipe
from regard.training.checkpoints import distinct_tensors, write_tensors
from tests.making import ENCODER, make_run

HOSTILE = "<img src=x onerror=alert(1)>"
TEXTS = ("a dog ate the food because it was hungry", HOSTILE, "</script>", "الكلب يأكل", "我很好")
PAIRS = GoldPairs(
    (Example("a dog ate", ("dog a ate",)), Example("the food", ("food the",))),
    (
        Gold(frozenset({(0, 1), (2, 2)}), frozenset({(1, 0)})),
        Gold(frozenset({(0, 1), (1, 0)})),
    ),
)


def make_shelf(folder: Path) -> Shelf:
    """Two runs that read texts, on the CPU; one of them has curves."""
    runs = [make_run(folder / name, *TEXTS, max_len=48) for name in ("first", "second")]
    (runs[0] / "metrics.jsonl").write_text(
        '{"step": 1, "train_loss": 4.0, "learning_rate": 0.001, "gradient_norm": 2.0}\n'
        '{"step": 2, "train_loss": 3.5, "learning_rate": 0.002, "gradient_norm": null}\n'
        '{"step": 2, "valid_loss": 3.75, "exact_match": 0.25}\n'
    )
    return open_runs(runs, device="cpu", gold=PAIRS)


def make_readers(folder: Path) -> Shelf:
    """Runs that read and do not write, named by their tasks; the first fills in hidden words."""
    others = [
        make_run(folder / task, *TEXTS, model=ENCODER.format(task=task))
        for task in ("tags", "label", "vectors")
    ]
    return open_runs([make_filler(folder / "words", *TEXTS), *others], device="cpu", gold=PAIRS)


def make_filler(folder: Path, *texts: str, kind: str = "characters") -> Path:
    """A run that fills in hidden words, whose vocabulary has a piece for them."""
    make_run(folder, *texts, model=ENCODER.format(task="words"), kind=kind)
    masked = Subwords.train(texts, kind=KINDS[kind], size=300).with_mask()
    size = len(masked)
    masked.save(folder / "tokenizer.json")
    recipe = read_recipe(folder / "recipe.toml")
    made = build_model(recipe.model, n_source_tokens=size, n_target_tokens=size)
    write_tensors(folder / "model.safetensors", distinct_tensors(made))
    return folder
