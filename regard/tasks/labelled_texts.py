"""Labelled texts: sources whose targets are labels, of words or of whole texts.

Updates and batches are counted in source tokens, since a text has one label, however long it is.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import final

import numpy as np

from regard.data import Corpus, Example, write_corpus
from regard.data.corpus import Numbering
from regard.data.labels import LABELS_FILE, labels_in
from regard.data.subword_kinds import SPECIALS, UNK
from regard.data.subwords import Subwords
from regard.data.vocabulary_files import ALL_KINDS
from regard.errors import DataError, LengthError, counted
from regard.recipes.data_paths import examples_of
from regard.recipes.recipe import Recipe
from regard.tasks.sources import ReadExamples, SourceType, Split

MAX_NAMED_LABELS = 5
"""The most labels that a note or an error names."""


@final
class LabelledTexts(SourceType):
    """Texts with labels; the labels are no part of the vocabulary."""

    def texts_for_vocabulary(self, example: Example) -> tuple[str, ...]:
        """The source alone."""
        return (example.source,)

    def write(
        self, path: Path, split: Split, read: ReadExamples, source: Numbering, target: Numbering
    ) -> None:
        """Encode a split; words that have a label each are separated by single spaces."""
        spaced = single_spaced if split.recipe.model.labels_words else str
        write_corpus(
            path, (replace(one, source=spaced(one.source)) for one in read()), source, target
        )

    def open(self, path: Path, split: Split) -> Corpus:
        """A corpus whose batches are counted in source tokens."""
        return replace(Corpus.open(path), counts_sources=True)

    def notes(self, split: Split) -> Iterator[str]:
        """Which labels there are in training, and which of another split training never had."""
        corpus = Corpus.open(split.folder / "corpus" / split.name)
        labels = Subwords.load(split.folder / LABELS_FILE)
        ids, counts = np.unique(corpus.target_ids, return_counts=True)
        if split.name == "train":
            found = {
                labels.readable(number): count
                for number, count in zip(ids.tolist(), counts.tolist(), strict=True)
                if number >= len(SPECIALS)
            }
            yield f"{counted(len(found), 'label')}: {_shares(Counter(found))}"
        elif UNK in ids:
            read = examples_of(getattr(split.recipe.data, split.name), split.name, split.folder)
            yield from unknown_notes(split.name, read(), labels, split.recipe)


def single_spaced(text: str) -> str:
    """A text with one space between its words, and none around it."""
    return " ".join(text.split())


def unknown_notes(
    name: str, examples: Iterable[Example], labels: Subwords, recipe: Recipe
) -> Iterator[str]:
    """A note on labels that are not in the set, if there are some."""
    known = set(labels.pieces[len(SPECIALS) :])
    found = Counter(label for label in _labels_of(examples, recipe) if label not in known)
    if found:
        names = ", ".join(label for label, _ in found.most_common(MAX_NAMED_LABELS))
        more = " …" if len(found) > MAX_NAMED_LABELS else ""
        yield (
            f"{name}: {counted(found.total(), 'label')} of {len(found):,} kinds that training "
            f"never had ({names}{more}); they count as wrong, and the loss leaves them out"
        )


def check_some_known(
    who: str, examples: Iterable[Example], labels: Subwords, recipe: Recipe
) -> None:
    """Refuse references none of whose labels is in the set; errors name `who` asks for them."""
    given = dict.fromkeys(_labels_of(examples, recipe))
    known = labels.pieces[len(SPECIALS) :]
    if given and given.keys().isdisjoint(known):
        raise DataError(
            f"{who} answers with {_some(known)}, but the references have none of these: "
            f"{_some(list(given))}. Give texts with such labels, "
            "or another run."
        )


def _some(labels: Sequence[str]) -> str:
    """A few labels, each cut to what a line has room for."""
    shown = [f"'{shorten(label, 40, placeholder=' …')}'" for label in labels[:MAX_NAMED_LABELS]]
    return ", ".join(shown) + ", …" * (len(labels) > MAX_NAMED_LABELS)


def _labels_of(examples: Iterable[Example], recipe: Recipe) -> Iterator[str]:
    """Every label of the references, in their order."""
    for example in examples:
        for text in example.targets:
            yield from labels_in(text, of_words=recipe.model.labels_words)


def check_counts(recipe: Recipe, corpus: Corpus, rows: np.ndarray, name: str) -> None:
    """Refuse rows with a wrong number of labels, and a set of one; errors call the rows `name`."""
    # lengths count the end token, which is not a label
    labels = corpus.target_lengths[rows] - 1
    wanted = _words(recipe, corpus)[rows] if recipe.model.labels_words else np.ones_like(labels)
    wrong = np.flatnonzero(labels != wanted)
    if not len(wrong):
        _check_differ(corpus, name)
        return
    first = wrong[0]
    asks = f"{name}: model.task = '{recipe.model.task}' asks for one label"
    example = f"but example {corpus.examples[rows][first] + 1:,} has"
    if recipe.model.labels_words:
        raise LengthError(
            f"{asks} for each word, {example} {counted(int(wanted[first]), 'word')} and "
            f"{counted(int(labels[first]), 'label')}. Write a label for each word between spaces, "
            "with spaces between the labels."
        )
    raise LengthError(
        f"{asks} for the whole text, {example} {counted(int(labels[first]), 'label')}. Write one; "
        "it may have several words, but stands in one line."
    )


def _check_differ(corpus: Corpus, name: str) -> None:
    if corpus.sizes[1] < len(SPECIALS) + 2:
        raise DataError(
            f"{name}: all labels of the training data are the same, so that there is nothing to "
            "tell apart. Give examples of two labels at least."
        )


def _words(recipe: Recipe, corpus: Corpus) -> np.ndarray:
    """How many words each source has; the later pieces of a word are marked."""
    if ALL_KINDS[recipe.tokens.kind].words_are_pieces:
        return corpus.source_lengths - 1
    begins = corpus.source_ids < corpus.sizes[0] // 2
    # every row has an end token, and so is not empty
    return np.add.reduceat(begins.astype(np.int64), corpus.source_begins[:-1]) - 1


def _shares(found: Counter[str]) -> str:
    most = found.most_common(MAX_NAMED_LABELS)
    named = ", ".join(f"{label} {100 * count / found.total():.0f} %" for label, count in most)
    others = len(found) - len(most)
    return f"{named} and {others:,} more" if others else named
