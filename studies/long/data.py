"""Text as one long row of tokens, cut into rows of any length; ListOps as its recipes have it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.data.corpus import Corpus
from regard.data.subword_kinds import EOS
from regard.recipes.recipe import Recipe, examples, read_recipe
from regard.training.preparation import Prepared, prepare
from regard.training.workers import SINGLE_PROCESS

RECIPES = Path(__file__).parents[2] / "recipes"
TEXT = (
    "tokens.kind=bpe", "tokens.size=8000", "data.max_tokens=32768",
    "data.train.words=4096", "data.train.every=4096",
    "data.valid.words=4096", "data.valid.context=0",
    "training.steps=500", "training.warmup_steps=50", "training.learning_rate=1.5e-3",
    "training.target_tokens_per_update=16384", "training.target_tokens_per_batch=16384",
)  # fmt: skip
"""What differs from recipes/wikitext2-lm.toml: sub-words, and a training of a minute."""
COUNTS = "counts.json"


@dataclass(frozen=True)
class Text:
    """The tokens of a text, one after another."""

    train: np.ndarray
    valid: np.ndarray
    n_tokens: int
    """Size of the vocabulary."""
    n_words: int
    """Words of the validation text, each end of a line counted as one."""


def text_recipe(folder: Path, changes: Sequence[str] = ()) -> Recipe:
    """How models of running text learn; the files are in the folder."""
    splits = ("train", "valid", "test")
    files = [f"data.{split}.path={folder}/wiki.{split}.tokens.xz" for split in splits]
    return read_recipe(RECIPES / "wikitext2-lm.toml", [*TEXT, *files, *changes])


def listops_recipe(kind: str, folder: Path, changes: Sequence[str] = ()) -> Recipe:
    """How models of one kind learn ListOps; train.tsv and valid.tsv are in the folder."""
    files = [f"data.{split}.path={folder}/{split}.tsv" for split in ("train", "valid")]
    return read_recipe(RECIPES / f"listops-{kind}.toml", [*files, *changes])


def opened(recipe: Recipe, folder: Path) -> Prepared:
    """The recipe's corpora, made in the folder the first time."""
    folder.mkdir(parents=True, exist_ok=True)
    made = prepare(recipe, folder, SINGLE_PROCESS)
    if not (folder / COUNTS).exists():
        texts = (text for one in examples(recipe.data.valid, "valid")() for text in one.targets)
        counts = {"words": sum(len(text.split()) for text in texts)}
        (folder / COUNTS).write_text(json.dumps(counts))
    return made


def text(recipe: Recipe, folder: Path) -> Text:
    """A running text in one piece."""
    made = opened(recipe, folder)
    counts = json.loads((folder / COUNTS).read_text())
    train, valid = (_joined(one.corpus) for one in (made.train, made.valid))
    return Text(train, valid, len(made.target), counts["words"])


def _joined(corpus: Corpus) -> np.ndarray:
    ids = np.asarray(corpus.target_ids)
    return ids[ids != EOS]


def rows_of(ids: np.ndarray, length: int, every: int) -> Corpus:
    """Rows of so many tokens that begin so far apart; all are targets, and none has an end.

    What is left behind the last whole row stands in none.
    """
    begins = np.arange(0, len(ids) - length + 1, every)
    cut = ids[begins[:, None] + np.arange(length)]
    count = len(begins)
    return Corpus(
        path=Path(),
        source_ids=np.zeros(0, dtype=ids.dtype),
        target_ids=cut.reshape(-1),
        source_begins=np.zeros(count + 1, dtype=np.int64),
        target_begins=np.arange(count + 1, dtype=np.int64) * length,
        examples=np.arange(count, dtype=np.int64),
        fingerprints=("", ""),
    )
