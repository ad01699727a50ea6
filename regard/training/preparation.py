"""Preparing: a recipe → sub-words, corpora, and the rows that are learned from.

Everything is made once and kept in the run directory; a run that goes on finds it there. With
BPE-dropout the training texts are cut anew for every epoch, into `corpus/train-epoch-N`. Whatever
texts and pictures need differently is in regard.tasks.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import final

import numpy as np

from regard.data.batches import padding_share, too_long
from regard.data.corpus import Corpus
from regard.data.subwords import Dropping, Subwords
from regard.data.vocabulary_files import ALL_KINDS
from regard.errors import DataError, LengthError, RecipeError, RunError
from regard.hardware.hardware import Hardware
from regard.models import Model
from regard.recipes.data_paths import examples_of
from regard.recipes.idle_settings import idle_settings
from regard.recipes.recipe import Recipe, TokensRecipe, read_recipe
from regard.tasks import task_of
from regard.tasks.loaded import load_subwords, subword_files
from regard.tasks.sources import Split
from regard.tasks.trees import check_trees
from regard.training.loop import Material, epoch_updates
from regard.training.preflight import check_beginnings
from regard.training.starting_weights import finished_weights
from regard.training.workers import Workers

DOES = {"source": "reads", "target": "writes"}
"""What a model does with either side."""


@final
@dataclass(frozen=True)
class Prepared:
    """What a training works with."""

    recipe: Recipe
    folder: Path
    workers: Workers
    source: Subwords
    target: Subwords
    train: Material
    valid: Material
    left_out: dict[str, int]
    """How many rows of a split are past the limit."""

    def of_epoch(self, epoch: int) -> Material:
        """What is learned from in an epoch; a pure function of the recipe and the epoch."""
        corpus = self._cut(epoch) if self.recipe.tokens.dropout else self.train.corpus
        sources = self.train.corpus.sources.in_epoch(epoch)
        return replace(self.train, corpus=replace(corpus, sources=sources))

    def seen_by(self, model: Model, hardware: Hardware) -> "Prepared":
        """The same, as a model with its first weights reads it; the first worker makes it."""
        sources = task_of(self.recipe).sources

        def seen(name: str, material: Material) -> Material:
            split = Split(self.recipe, self.folder, name)

            def make() -> Corpus:
                return sources.as_model_sees(material.corpus, split, model, hardware)

            self.workers.first_does(make)
            return replace(material, corpus=make())

        return replace(self, train=seen("train", self.train), valid=seen("valid", self.valid))

    def check_lengths(self) -> None:
        """Refuse examples that the model could not read, or not write, once it is trained."""
        limit, materials = self.recipe.model.max_len, {"train": self.train, "valid": self.valid}
        found = [
            (*_longest(material, side), split, side)
            for split, material in materials.items()
            for side in DOES
        ]
        longest, number, split, side = max(found, key=lambda one: one[0])
        if longest > limit:
            raise LengthError(
                f"data.{split}: the longest {side} has {longest:,} tokens (example {number:,}), "
                f"but the model {DOES[side]} at most {limit:,} (model.max_len, the end token "
                f"counted). Raise model.max_len to {longest}, or leave longer examples out with "
                f'data.max_tokens = {limit} and data.on_long = "skip".'
            )
        for split, material in materials.items():
            assert material.rows is not None
            task_of(self.recipe).check_corpus(
                self.recipe, material.corpus, material.rows, f"data.{split}"
            )

    def padding(self) -> float:
        """The share of padding in the batches of the first epoch."""
        rows = self.train.rows
        updates = epoch_updates(self.train.corpus, self.recipe.training, 0, rows)
        return padding_share(self.train.corpus, [batch for each in updates for batch in each])

    def notes(self) -> Iterator[str]:
        """What a person should know before the first update."""
        yield from idle_settings(self.recipe, self.folder)
        limit = self.recipe.data.max_tokens
        for split, count in self.left_out.items():
            if count:
                yield f"{split}: {count} examples past {limit} tokens are left out"
            yield from task_of(self.recipe).sources.notes(Split(self.recipe, self.folder, split))
        yield f"batches hold {100 * self.padding():.1f} % padding"

    def _cut(self, epoch: int) -> Corpus:
        path = self.folder / "corpus" / f"train-epoch-{epoch}"
        self.workers.first_does(lambda: self._cut_anew(path, epoch))
        return Corpus.open(path)

    def _cut_anew(self, path: Path, epoch: int) -> None:
        if path.exists():
            return
        for old in path.parent.glob("train-epoch-*"):
            shutil.rmtree(old)
        cuts = [
            subwords.dropping(
                Dropping(
                    self.recipe.tokens.dropout,
                    f"{self.recipe.training.seed}/{epoch}/{side}",
                    # beside the end token; what plain cutting allows, dropout cannot forbid
                    min(self.recipe.data.max_tokens, self.recipe.model.max_len) - 1,
                )
            )
            for side, subwords in (("source", self.source), ("target", self.target))
        ]
        split = Split(self.recipe, self.folder, "train")
        read = examples_of(self.recipe.data.train, "train", self.folder)
        task_of(self.recipe).sources.write(path, split, read, *cuts)


def prepare(recipe: Recipe, folder: Path, workers: Workers) -> Prepared:
    """Make what is missing in the run directory, and open it all; the first worker makes."""
    workers.first_does(lambda: _make(recipe, folder))
    source, target = load_subwords(recipe, folder)
    sources = task_of(recipe).sources
    corpora = {
        split: sources.open(folder / "corpus" / split, Split(recipe, folder, split))
        for split in ("train", "valid")
    }
    limit = recipe.data.max_tokens
    long = {s: too_long(c, max_source=limit, max_target=limit) for s, c in corpora.items()}
    if recipe.data.on_long == "error":
        for split, rows in long.items():
            _refuse_long(split, corpora[split], rows, limit)
    rest = {s: np.setdiff1d(np.arange(len(c)), long[s]) for s, c in corpora.items()}
    for split, rows in rest.items():
        if not len(rows):
            raise DataError(
                f"data.{split}: there is no example to use: {len(long[split])} were read, all of "
                f"them past data.max_tokens = {limit}. Raise it, or give other data."
            )
    return Prepared(
        recipe=recipe,
        folder=folder,
        workers=workers,
        source=source,
        target=target,
        train=Material(corpora["train"], rest["train"]),
        valid=Material(corpora["valid"], rest["valid"]),
        left_out={split: len(rows) for split, rows in long.items()},
    )


def _make(recipe: Recipe, folder: Path) -> None:
    check_trees(recipe)
    corpora = {split: folder / "corpus" / split for split in ("train", "valid")}
    # what was read to its end may be gone when a run goes on
    is_begun = all(path.exists() for path in corpora.values())
    task_of(recipe).check_recipe(recipe)
    if not is_begun:
        check_beginnings(recipe, folder)
    if not all((folder / name).exists() for name in subword_files(recipe)):
        bring = _copy_subwords if recipe.training.start_from else _learn_subwords
        bring(recipe, folder)
    source, target = load_subwords(recipe, folder)
    if not is_begun:
        _check_table(recipe, source, target)
    for split, path in corpora.items():
        if not path.exists():
            read = examples_of(getattr(recipe.data, split), split, folder)
            place = Split(recipe, folder, split)
            task_of(recipe).sources.write(path, place, read, source, target)


def _check_table(recipe: Recipe, source: Subwords, target: Subwords) -> None:
    """One row of a table cannot be two pieces, be the vocabularies as large as each other or not.

    Marian's models read and write by two files that number the same pieces alike.
    """
    # most specs do not say; those that read and write by tables of their own do
    remedy = getattr(recipe.model, "table_apart", None)
    pairs = enumerate(zip_longest(source.pieces, target.pieces))
    number = next((number for number, (read, written) in pairs if read != written), None)
    if remedy is not None and number is not None:
        read, written = (
            f"'{side.readable(number)}'" if number < len(side) else "missing"
            for side in (source, target)
        )
        raise RecipeError(
            "tokens.is_joint = false makes two vocabularies, but the model has one table of "
            f"embeddings for both: piece {number} is {read} in the source and {written} in the "
            f"target. Set tokens.is_joint = true, or {remedy}."
        )


def _learn_subwords(recipe: Recipe, folder: Path) -> None:
    """From the training split alone."""
    read, tokens = examples_of(recipe.data.train, "train", folder), recipe.tokens
    task = task_of(recipe)
    texts = {
        "tokenizer.json": lambda: (
            text for e in read() for text in task.sources.texts_for_vocabulary(e)
        ),
        "tokenizer.source.json": lambda: (e.source for e in read()),
        "tokenizer.target.json": lambda: (text for e in read() for text in e.targets),
    }
    for name in subword_files(recipe):
        kind = ALL_KINDS[tokens.kind]
        size = tokens.size - task.n_special_pieces
        learned = Subwords.train(texts[name](), kind=kind, size=size)
        task.with_special_pieces(learned).save(folder / name)


def _copy_subwords(recipe: Recipe, folder: Path) -> None:
    """Of the run that training starts from."""
    run = recipe.training.start_from
    assert run is not None
    try:
        finished_weights(run)
    except RunError as error:
        raise RunError(f"training.start_from: {error}") from error
    theirs = read_recipe(run / "recipe.toml")
    if _shape(theirs.tokens) != _shape(recipe.tokens):
        raise RunError(
            f"training.start_from: '{run}' has tokens of {_said(theirs.tokens)}, this recipe asks "
            f"for {_said(recipe.tokens)}. Give [tokens] what '{run}/recipe.toml' has."
        )
    for name in subword_files(recipe):
        Subwords.load(run / name).save(folder / name)


def _shape(tokens: TokensRecipe) -> tuple[str, int, bool]:
    return tokens.kind, tokens.size, tokens.is_joint


def _said(tokens: TokensRecipe) -> str:
    return f"kind {tokens.kind}, size {tokens.size}, {'joint' if tokens.is_joint else 'separate'}"


def _longest(material: Material, side: str) -> tuple[int, int]:
    """The most tokens on one side of what is used, and the number of that example, from 1."""
    corpus, rows = material.corpus, material.rows
    assert rows is not None
    lengths = corpus.source_lengths if side == "source" else corpus.target_lengths
    row = int(rows[lengths[rows].argmax()])
    return int(lengths[row]), int(corpus.examples[row]) + 1


def _refuse_long(split: str, corpus: Corpus, rows: np.ndarray, limit: int) -> None:
    if not len(rows):
        return
    row = int(rows[0])
    raise LengthError(
        f"data.{split}: {len(rows)} of {len(corpus)} examples have more than {limit} tokens (the "
        f"first is number {int(corpus.examples[row]) + 1}, with {len(corpus.source(row))} source "
        f"and {len(corpus.target(row))} target tokens). Raise data.max_tokens, or set "
        'data.on_long = "skip".'
    )
