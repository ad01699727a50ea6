"""Preparation: a recipe → sub-words, corpora, and the rows to train on.

Everything is made once and kept in the run directory, where a resumed run finds it. With
BPE-dropout the training texts are cut anew for every epoch, into `corpus/train-epoch-N`. The first
example of every split, the test split too, is read first, so that a missing file is told at once.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import final

import numpy as np

from regard.choices import Choice
from regard.data.batches import padding_share
from regard.data.bpe_merges import Dropping
from regard.data.corpus import Corpus
from regard.data.labels import LABELS_FILE, LABELS_OF_TEXTS, LABELS_OF_WORDS, MAX_LABELS
from regard.data.parsed_words import PARSED_WORDS, heads_of_source
from regard.data.subwords import Subwords
from regard.data.vocabulary_files import ALL_KINDS
from regard.errors import DataError, LengthError, RecipeError, RunError, SettingError, counted
from regard.hardware.hardware import Hardware
from regard.models import Model, build_model
from regard.recipes.data_paths import examples_of, path_or_unchanged, paths_of
from regard.recipes.idle_settings import idle_settings
from regard.recipes.recipe import HELD_OUT, Recipe, TokensRecipe, read_recipe
from regard.tasks import check_task, task_of
from regard.tasks.loaded_run import has_old_labels, load_subwords, subword_files
from regard.tasks.sources import Split
from regard.tasks.trees import check_trees
from regard.training.data_notes import DataNotes
from regard.training.loop import Material, epoch_updates, updates_in
from regard.training.run_folder import finished_weights
from regard.training.size_notes import size_notes
from regard.training.workers import Workers

DOES = {"source": "reads", "target": "writes"}
"""The verbs of a model for each side, in errors."""
WHERE_DATA_COME_FROM = (
    "Bring the files to these places, or name others with --set data.train.KEY=PATH. The recipes "
    "that come with regard say in their first lines where their data come from."
)
"""What to do where files of a recipe are missing."""


@final
@dataclass(frozen=True)
class Prepared:
    """Vocabularies and corpora of a training."""

    recipe: Recipe
    folder: Path
    workers: Workers
    source: Subwords
    target: Subwords
    train: Material
    valid: Material
    left_out: dict[str, int]
    """How many rows of a split are past the limit."""

    def build(self) -> Model:
        """The recipe's model with its first weights, which torch's random numbers give."""
        sizes = {"n_source_tokens": len(self.source), "n_target_tokens": len(self.target)}
        return build_model(self.recipe.model, **sizes)

    def of_epoch(self, epoch: int) -> Material:
        """The data of an epoch; a pure function of the recipe and the epoch."""
        corpus = self._cut(epoch) if self.recipe.tokens.dropout else self.train.corpus
        sources = self.train.corpus.sources.in_epoch(epoch)
        return replace(self.train, corpus=replace(corpus, sources=sources))

    def seen_by(self, model: Model, hardware: Hardware) -> "Prepared":
        """The data as a model with its first weights reads them; the first worker makes them."""

        def seen(name: str, material: Material) -> Material:
            split, sources = Split(self.recipe, self.folder, name), task_of(self.recipe).sources
            make = partial(sources.as_model_sees, material.corpus, split, model, hardware)
            self.workers.first_does(make)
            return replace(material, corpus=make())

        return replace(self, train=seen("train", self.train), valid=seen("valid", self.valid))

    def check_lengths(self) -> None:
        """Refuse examples that are too long for the model to read or to write."""
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
            task_of(self.recipe).check_corpus(
                self.recipe, material.corpus, material.used, f"data.{split}"
            )

    def notes(self) -> Iterator[str]:
        """Notes for the user before the first update."""
        yield from idle_settings(self.recipe, self.folder)
        limit = self.recipe.data.max_tokens
        for split, count in self.left_out.items():
            if count:
                verb = "is" if count == 1 else "are"
                n_rows = count + len({"train": self.train, "valid": self.valid}[split].used)
                more = " Raise data.max_tokens." if count > n_rows / 2 else ""
                yield (
                    f"{split}: {count:,} of {counted(n_rows, 'example')} past {limit} tokens "
                    f"{verb} left out.{more}"
                )
            yield from task_of(self.recipe).sources.notes(Split(self.recipe, self.folder, split))
        yield from self.data_notes()
        corpus, training = self.train.corpus, self.recipe.training
        updates = epoch_updates(corpus, training, 0, self.train.rows)
        share = padding_share(corpus, [batch for update in updates for batch in update])
        yield f"batches hold {100 * share:.1f} % padding"

    def data_notes(self) -> Iterator[str]:
        """Notes on what is odd about the data, and on a model that is too large for them."""
        sides = self.source, self.target
        data = DataNotes(self.recipe, self.folder, self.train, self.valid, *sides)
        yield from data
        if not data.is_few:
            yield from size_notes(self.recipe, self.train, *sides)

    def _cut(self, epoch: int) -> Corpus:
        """The training texts, with different merges dropped in every epoch."""
        path = self.folder / "corpus" / f"train-epoch-{epoch}"

        def cut() -> None:
            if path.exists():
                return
            for old in path.parent.glob("train-epoch-*"):
                shutil.rmtree(old)
            # without the end token; a text that fits in its usual pieces is never left out
            longest = min(self.recipe.data.max_tokens, self.recipe.model.max_len) - 1
            share, seed = self.recipe.tokens.dropout, f"{self.recipe.training.seed}/{epoch}"
            source = self.source.dropping(Dropping(share, f"{seed}/source", longest))
            target = self.target.dropping(Dropping(share, f"{seed}/target", longest))
            _write_corpus(Split(self.recipe, self.folder, "train"), path, source, target)

        self.workers.first_does(cut)
        return Corpus.open(path)


def check_data(recipe: Recipe, folder: Path) -> None:
    """Refuse data that a new run cannot begin with; one that has read them needs them no more."""
    check_trees(recipe)
    check_task(recipe)
    if not _is_encoded(folder):
        check_first_examples(recipe, folder)


def prepare(recipe: Recipe, folder: Path, workers: Workers) -> Prepared:
    """Make what is missing in the run directory, and open it all; the first worker makes."""
    workers.first_does(lambda: _make(recipe, folder))
    limit = recipe.data.max_tokens
    materials: dict[str, Material] = {}
    for name in ("train", "valid"):
        split = Split(recipe, folder, name)
        corpus = task_of(recipe).sources.open(folder / "corpus" / name, split)
        used = Material.within(corpus, limit)
        n_long = len(corpus) - len(used.used)
        if n_long and recipe.data.on_long == "error":
            row = int(np.setdiff1d(np.arange(len(corpus)), used.used)[0])
            raise LengthError(
                f"data.{name}: {n_long} of {len(corpus)} examples have more than {limit} tokens "
                f"(the first is number {int(corpus.examples[row]) + 1}, with "
                f"{len(corpus.source(row))} source and {len(corpus.target(row))} target tokens). "
                'Raise data.max_tokens, or set data.on_long = "skip".'
            )
        if not len(used.used):
            raise DataError(
                f"data.{name}: there is no example to use: {n_long} were read, all of them past "
                f"data.max_tokens = {limit}. Raise it, or give other data."
            )
        materials[name] = used
    left_out = {name: len(one.corpus) - len(one.used) for name, one in materials.items()}
    source, target = load_subwords(recipe, folder)
    recipe = _in_updates(recipe, materials["train"])
    return Prepared(recipe, folder, workers, source, target, **materials, left_out=left_out)


def in_updates(recipe: Recipe, folder: Path) -> Recipe:
    """A recipe whose epochs are counted in updates, once its texts have been read."""
    if not recipe.training.epochs or not _is_encoded(folder):
        return recipe
    corpus = task_of(recipe).sources.open(
        folder / "corpus" / "train", Split(recipe, folder, "train")
    )
    return _in_updates(recipe, Material.within(corpus, recipe.data.max_tokens))


def _in_updates(recipe: Recipe, train: Material) -> Recipe:
    training = recipe.training
    if not training.epochs:
        return recipe
    steps = updates_in(training.epochs, train, training)
    return replace(recipe, training=replace(training, steps=steps, epochs=0.0))


def _make(recipe: Recipe, folder: Path) -> None:
    check_data(recipe, folder)
    if _is_encoded(folder) and has_old_labels(recipe, folder):
        raise RunError(
            f"train: '{folder}' was begun by an earlier version, in which labels had no set of "
            "their own, and cannot go on. Train it anew: regard train RECIPE --out ANOTHER."
        )
    if not all((folder / name).exists() for name in subword_files(recipe)):
        bring = _copy_subwords if recipe.training.start_from else _learn_subwords
        bring(recipe, folder)
    source, target = load_subwords(recipe, folder)
    if not _is_encoded(folder):
        _check_table(recipe, source, target)
    for split, path in _corpora(folder).items():
        if not path.exists():
            _write_corpus(Split(recipe, folder, split), path, source, target)


def _corpora(folder: Path) -> dict[str, Path]:
    return {split: folder / "corpus" / split for split in ("train", "valid")}


def _is_encoded(folder: Path) -> bool:
    """Whether the texts were read to their end, so that their files are no longer needed."""
    return all(path.exists() for path in _corpora(folder).values())


def _write_corpus(split: Split, path: Path, source: Subwords, target: Subwords) -> None:
    read = examples_of(getattr(split.recipe.data, split.name), split.name, split.folder)
    task_of(split.recipe).sources.write(path, split, read, source, target)


def check_first_examples(recipe: Recipe, folder: Path | None = None) -> None:
    """Read the first example of each split, or raise one error with the mistakes of all.

    Paths start from `folder`, the run's directory, or from here without one.
    """
    found: list[str] = []
    has_all = True
    for split in ("train", "valid", "test"):
        choice = getattr(recipe.data, split)
        if choice is None:
            continue
        try:
            first = next(examples_of(choice, split, folder)(), None)
            if first is None:
                read = ", ".join(f"'{path}'" for path in _paths(choice, folder))
                where = f" from {read}" if read else ""
                share = choice.settings.get(HELD_OUT)
                held = f": the share of {share:g} holds none out" if share else ""
                remedy = "Raise the share, or bring more" if share else "Give at least one"
                found.append(
                    f"data.{split}: '{choice.name}' gives no example{where}{held}. {remedy}."
                )
            elif recipe.tokens.kind == PARSED_WORDS.name:
                heads_of_source(first.source)
        except (DataError, SettingError) as error:
            found.append(f"data.{split}: {error}")
            has_all = has_all and all(path.exists() for path in _paths(choice, folder))
    if not has_all:
        found.append(WHERE_DATA_COME_FROM)
    if found:
        raise DataError("\n".join(found))


def _paths(choice: Choice, folder: Path | None) -> list[Path]:
    """The files that a reader reads, each where it is found."""
    given = [path for paths in paths_of(choice).values() for path in paths]
    return given if folder is None else [path_or_unchanged(path, folder) for path in given]


def _check_table(recipe: Recipe, source: Subwords, target: Subwords) -> None:
    """Refuse two vocabularies that number pieces differently for one table of embeddings.

    Marian's models read and write by two files that number the same pieces alike.
    """
    remedy = recipe.model.table_apart
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
    """Learn sub-words from the training split alone."""
    read, task = examples_of(recipe.data.train, "train", folder), task_of(recipe)
    kind, size = ALL_KINDS[recipe.tokens.kind], recipe.tokens.size - task.hides_words
    of_labels = LABELS_OF_WORDS if recipe.model.labels_words else LABELS_OF_TEXTS
    texts = {
        "tokenizer.json": lambda: (
            text for e in read() for text in task.sources.texts_for_vocabulary(e)
        ),
        "tokenizer.source.json": lambda: (e.source for e in read()),
        "tokenizer.target.json": lambda: (text for e in read() for text in e.targets),
        LABELS_FILE: lambda: (text for e in read() for text in e.targets),
    }
    for name in subword_files(recipe):
        how = (of_labels, MAX_LABELS) if name == LABELS_FILE else (kind, size)
        learned = Subwords.train(texts[name](), kind=how[0], size=how[1])
        task.with_special_pieces(learned).save(folder / name)


def _copy_subwords(recipe: Recipe, folder: Path) -> None:
    """Copy sub-words from the run that the training starts from."""
    run = recipe.training.start_from
    assert run is not None
    try:
        finished_weights(run)
    except RunError as error:
        raise RunError(f"training.start_from: {error}") from error
    theirs = read_recipe(run / "recipe.toml")
    has, asks = _tokens_text(theirs.tokens), _tokens_text(recipe.tokens)
    if has != asks:
        raise RunError(
            f"training.start_from: '{run}' has tokens of {has}, this recipe asks for {asks}. Give "
            f"[tokens] what '{run}/recipe.toml' has."
        )
    for name in subword_files(recipe):
        Subwords.load(run / name).save(folder / name)


def _tokens_text(tokens: TokensRecipe) -> str:
    return f"kind {tokens.kind}, size {tokens.size}, {'joint' if tokens.is_joint else 'separate'}"


def _longest(material: Material, side: str) -> tuple[int, int]:
    """The most tokens on one side of what is used, and the number of that example, from 1."""
    corpus, rows = material.corpus, material.used
    lengths = {"source": corpus.source_lengths, "target": corpus.target_lengths}[side]
    row = int(rows[lengths[rows].argmax()])
    return int(lengths[row]), int(corpus.examples[row]) + 1
