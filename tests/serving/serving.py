"""Small runs behind a server, for tests of the server and of the page."""

from pathlib import Path

from regard.data import Example
from regard.evaluating import Gold
from regard.recipes import read_recipe
from regard.recipes.data_paths import data_files
from regard.serving.registry import GoldPairs, Registry, open_runs
from regard.training.card_json import Quoted, QuotedFile, file_hash, quoted_text
from tests.factories import ENCODER, make_run

HOSTILE = "<img src=x onerror=alert(1)>"
TEXTS = ("a dog ate the food because it was hungry", HOSTILE, "</script>", "الكلب يأكل", "我很好")
PAIRS = GoldPairs(
    (Example("a dog ate", ("dog a ate",)), Example("the food", ("food the",))),
    (
        Gold(frozenset({(0, 1), (2, 2)}), frozenset({(1, 0)})),
        Gold(frozenset({(0, 1), (1, 0)})),
    ),
)


def make_registry(folder: Path) -> Registry:
    """Two runs that read texts, on the CPU; one of them has curves."""
    runs = [make_run(folder / name, *TEXTS, max_len=48) for name in ("first", "second")]
    (runs[0] / "metrics.jsonl").write_text(
        '{"step": 1, "train_loss": 4.0, "learning_rate": 0.001, "gradient_norm": 2.0}\n'
        '{"step": 2, "train_loss": 3.5, "learning_rate": 0.002, "gradient_norm": null}\n'
        '{"step": 2, "valid_loss": 3.75, "exact_match": 0.25}\n'
    )
    return open_runs(runs, device="cpu", gold=PAIRS)


def make_readers(folder: Path) -> Registry:
    """Runs that read and do not write, named by their tasks; the first fills in hidden words."""
    tasks = ("words", "tags", "label", "vectors")
    runs = [make_run(folder / task, *TEXTS, model=ENCODER.format(task=task)) for task in tasks]
    return open_runs(runs, device="cpu", gold=PAIRS)


def write_card(run: Path) -> None:
    """A card that records the validation data of a run, as a training writes it."""
    found = data_files(read_recipe(run / "recipe.toml").data.valid, run)
    data = tuple(QuotedFile("valid", str(name), file_hash(path)) for name, path in found)
    (run / "card.md").write_text(quoted_text(Quoted(data, {}, None, {})))
