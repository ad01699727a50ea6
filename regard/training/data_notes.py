"""Data notes: what is odd about the data of a training, told before its first update.

All is counted on encoded rows, so that a plan and a training say the same of every kind of data.
What stands in which line is the doctor's answer: regard doctor.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import final

import numpy as np
from jaxtyping import Bool, Int, UInt64

from regard.data import READERS
from regard.data.corpus import SIDES
from regard.data.examples import names_columns
from regard.data.subword_kinds import SPECIALS, UNK
from regard.data.subwords import Subwords
from regard.data.unknown_words import words_with
from regard.errors import RegardError, counted
from regard.recipes.data_paths import examples_of
from regard.recipes.idle_settings import validates_on_training_data
from regard.recipes.recipe import Recipe
from regard.tasks import task_of
from regard.training.loop import Material

FEW_TRAINING, FEW_TRAINING_TOKENS = 100, 10_000
"""Fewer training examples than this, with fewer tokens than this, are learned by heart."""
FEW_VALIDATION, FEW_VALIDATION_TOKENS = 10, 1_000
"""Fewer validation examples than this, with fewer tokens than this, measure nothing."""
MIN_LEAK, MIN_REPEATED, MIN_COPIED = 0.1, 0.2, 0.5
"""The shares of rows from which leaks, repetitions and copied sources are told."""
MIN_UNSEEN, MIN_UNKNOWN = 0.02, 0.1
"""The shares of pieces from which unseen ones, and unknown ones of the training, are told."""
MAX_READ_EXAMPLES = 1000
"""How many examples of another split are read for it."""
MAX_NAMED_WORDS = 5
IDS_AT_ONCE = 1 << 22


@final
@dataclass(frozen=True)
class DataNotes:
    """The data of a training, and their sub-words."""

    recipe: Recipe
    folder: Path
    train: Material
    valid: Material
    source: Subwords
    target: Subwords

    def __iter__(self) -> Iterator[str]:
        """Sentences for the user, each with what to do."""
        yield from self._few()
        if self.recipe.data.train.name in READERS and self.recipe.data.valid.name in READERS:
            yield from self._rows()
            yield from self._first_lines()
        # nearly all is new to a model that has seen a few texts; another run may have seen more
        is_told = not self.is_few and self.recipe.training.start_from is None
        for side in self._sides if is_told else ():
            yield from self._pieces(side)

    @property
    def is_few(self) -> bool:
        """Whether there are too few training examples to learn anything of others."""
        few = _count(self.train) < FEW_TRAINING
        return few and _n_tokens(self.train) < FEW_TRAINING_TOKENS

    @property
    def _sides(self) -> tuple[str, ...]:
        """The sides that are texts: pictures have no pieces."""
        return SIDES if task_of(self.recipe).sources.has_lengths else SIDES[1:]

    def _few(self) -> Iterator[str]:
        n_train, n_valid = (_count(each) for each in (self.train, self.valid))
        if self.is_few:
            yield (
                f"data.train holds {counted(n_train, 'example')}: so few are learned by heart, and "
                "nothing is learned of others. That will do to try a recipe out; for use give "
                "thousands."
            )
        if n_valid < FEW_VALIDATION and _n_tokens(self.valid) < FEW_VALIDATION_TOKENS:
            yield (
                f"data.valid holds {counted(n_valid, 'example')}: scores on so few say little, and "
                "the best checkpoint is chosen by chance. Give a few hundred."
            )

    def _rows(self) -> Iterator[str]:
        """Notes on rows that are repeated, copied, empty or in both splits."""
        if self._sides != SIDES:
            return
        train, valid = _marks(self.train), _marks(self.valid)
        n_train, n_valid = len(train), len(valid)
        # two rows with unknown pieces may have been different texts
        train, valid = train[train > 0], valid[valid > 0]
        leaked = int(np.isin(valid, train).sum())
        if leaked >= MIN_LEAK * n_valid and not validates_on_training_data(
            self.recipe.data, self.folder
        ):
            yield (
                f"data.valid: {_of(leaked, n_valid, 'example')} stand in data.train too: the "
                "validations say how well these are remembered. Take them out of one of the two; "
                "regard doctor TRAIN --test VALID names their lines."
            )
        repeated = len(train) - len(np.unique(train))
        if repeated >= MIN_REPEATED * n_train:
            yield (
                f"data.train: {_of(repeated, n_train, 'example')} repeat an earlier one, and "
                "count for more than the others. regard doctor names their lines."
            )
        task, is_joint = task_of(self.recipe), self.recipe.tokens.is_joint
        source, target = (_sums(self.train, side) for side in SIDES)
        copied = int(((source == target) & (source > 0)).sum())
        if is_joint and task.is_searched and copied >= MIN_COPIED * n_train:
            yield (
                f"data.train: {_of(copied, n_train, 'target')} are their source again, so that "
                "the model learns to copy. Check that the recipe names two different texts."
            )
        empty = {side: int((_lengths(self.train, side) <= 1).sum()) for side in SIDES}
        told = [counted(n, f"empty {side}") for side, n in empty.items() if 0 < n < n_train]
        if told:
            yield (
                f"data.train has {' and '.join(told)}: a model learns to say nothing from them. "
                "Take these lines out; regard doctor names them."
            )

    def _first_lines(self) -> Iterator[str]:
        """Notes on a line of names of columns, and on a column of numbers in the source's place."""
        corpus, rows = self.train.corpus, self.train.used[:100].tolist()
        if self._sides != SIDES:
            return
        # without the heads that words of parsed texts carry
        ids = (corpus.source(row) % len(self.source) for row in rows)
        sources = [self.source.decode(each.tolist()).strip() for each in ids]
        first = self.target.decode(corpus.target(rows[0]).tolist()).strip()
        if names_columns(sources[0], first):
            yield (
                f"data.train: the first line, '{sources[0]}' and '{first}', looks like the names "
                "of columns, and is learned from as an example. Take it out of the file."
            )
        if len(rows) >= FEW_VALIDATION and all(text.isdigit() for text in sources[1:]):
            yield (
                f"data.train: the sources are nothing but numbers ('{sources[1]}'): perhaps the "
                "first column numbers the lines. Of a .tsv the first column is the source, and "
                "each further one a target."
            )

    def _pieces(self, side: str) -> Iterator[str]:
        """Notes on pieces that are unknown in training, or that only other splits have."""
        subwords = {"source": self.source, "target": self.target}[side]
        known = self.train.corpus.piece_counts(side, len(subwords))
        share = known[UNK] / max(1, _n_text_pieces(known))
        if share >= MIN_UNKNOWN:
            yield (
                f"data.train: {100 * share:.0f} % of the words of the {side}s are unknown, since "
                f"the vocabulary holds {len(subwords):,}. Raise tokens.size, or take tokens.kind = "
                '"bpe", which cuts every word into pieces that it knows.'
            )
        for split in ("valid", "test"):
            texts = self._texts(split, side)
            found = _counted_pieces(subwords.encode_all(texts), len(subwords))
            is_new = (known == 0) & (found > 0)
            is_new[UNK] = found[UNK] > 0 and share < MIN_UNKNOWN
            n_new, n_all = int(found[is_new].sum()), max(1, _n_text_pieces(found))
            if n_new < MIN_UNSEEN * n_all:
                continue
            words = ", ".join(f"'{word}'" for word in _words_with(texts, is_new, subwords))
            yield (
                f"data.{split}: {100 * n_new / n_all:.0f} % of the pieces of the {side}s are ones "
                f"that no {side} of data.train has, as in {words}: of these the model knows "
                f"nothing. {self._remedy(split, side, found * is_new)}."
            )

    def _remedy(self, split: str, side: str, new: Int[np.ndarray, " v"]) -> str:
        """What to do about pieces that are new on a side, by how often each is there."""
        other = SIDES[1 - SIDES.index(side)]
        if len(self._sides) == 2 and self.source.fingerprint == self.target.fingerprint:
            there = self.train.corpus.piece_counts(other, len(new)) > 0
            if new[there].sum() > new.sum() / 2:
                return (
                    f"Most of them are in the {other}s of data.train: check that source and target "
                    f"of data.{split} are not swapped"
                )
        return f"Check that data.{split} holds the same kind of text"

    def _texts(self, split: str, side: str) -> list[str]:
        """The first texts of a split; none where it is not there to be read."""
        choice = getattr(self.recipe.data, split)
        try:
            read = () if choice is None else examples_of(choice, split, self.folder)()
            some = list(islice(read, MAX_READ_EXAMPLES))
        except RegardError:
            # a training that has read its data goes on without them
            return []
        return [text for one in some for text in {"source": (one.source,)}.get(side, one.targets)]


def _count(material: Material) -> int:
    """How many examples; one with several references has a row for each."""
    return len(np.unique(material.corpus.examples[material.used]))


def _lengths(material: Material, side: str) -> Int[np.ndarray, " n"]:
    both = {"source": material.corpus.source_lengths, "target": material.corpus.target_lengths}
    return both[side][material.used]


def _n_tokens(material: Material) -> int:
    return int(_lengths(material, "target").sum())


def _marks(material: Material) -> UInt64[np.ndarray, " n"]:
    """A number for each row: equal for equal pairs, and 0 if it has unknown pieces."""
    source, target = (_sums(material, side) for side in SIDES)
    together = source * np.uint64(0x9E3779B97F4A7C15) + target
    return np.where((source == 0) | (target == 0), np.uint64(0), together)


def _sums(material: Material, side: str) -> UInt64[np.ndarray, " n"]:
    """A hash of each row's ids, their sum times numbers of their places; 0 if one is unknown."""
    corpus = material.corpus
    ids = {"source": corpus.source_ids, "target": corpus.target_ids}[side]
    begins = {"source": corpus.source_begins, "target": corpus.target_begins}[side]
    found = np.empty(len(corpus), dtype=np.uint64)
    first = 0
    while first < len(corpus):
        last = int(np.searchsorted(begins, begins[first] + IDS_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), len(corpus))
        own = begins[first : last + 1] - begins[first]
        place = np.arange(own[-1]) - np.repeat(own[:-1], np.diff(own))
        mixed = (place.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
        part = ids[begins[first] : begins[last]].astype(np.uint64)
        is_known = np.add.reduceat(part == UNK, own[:-1], dtype=np.uint64) == 0
        found[first:last] = np.add.reduceat((part + np.uint64(1)) * mixed, own[:-1]) * is_known
        first = last
    return found[material.used]


def _counted_pieces(ids: Iterable[list[int]], size: int) -> Int[np.ndarray, " v"]:
    """The same of texts that were just encoded."""
    together = [np.zeros(0, dtype=np.int64), *(np.array(each, dtype=np.int64) for each in ids)]
    return np.bincount(np.concatenate(together) % size, minlength=size)


def _words_with(
    texts: Iterable[str], is_new: Bool[np.ndarray, " v"], subwords: Subwords
) -> list[str]:
    """Some words, each once, that have one of these pieces."""
    new = set(np.flatnonzero(is_new).tolist())
    words = (word for text in texts for word in words_with(subwords, text, new))
    found: dict[str, None] = {}
    for word in words:
        found[word] = None
        if len(found) == MAX_NAMED_WORDS:
            break
    return list(found)


def _n_text_pieces(counts: Int[np.ndarray, " v"]) -> int:
    """How many pieces of texts were counted: all but begins, ends and padding."""
    return int(counts[len(SPECIALS) :].sum() + counts[UNK])


def _of(count: int, whole: int, what: str) -> str:
    return f"{count:,} of {counted(whole, what)} ({100 * count / whole:.0f} %)"
