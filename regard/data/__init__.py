"""files → examples → batches.

files, examples, readers      files → examples; captions, documents, running_text, treebanks too
normalisation               texts of different corpora → one form
generators, dates, scenes     seed → examples, in splits
subword_kinds, subwords               text ↔ numbers
pictures, framings            picture files → squares of pixels
picture_store, corpus         pictures, annotations and examples → mapped arrays on disk
sources, batches              arrays → what a model reads
doctor                      files → findings: broken lines, duplicates, outliers
"""

from regard.data.batches import Batch, collate, epoch_batches, padding_share, too_long
from regard.data.corpus import Corpus, write_corpus
from regard.data.examples import Example, ExampleReader, FileReader
from regard.data.files import lines
from regard.data.generators import GENERATORS, PICTURE_GENERATORS
from regard.data.normalisation import NORMALISERS, Normalised
from regard.data.readers import (
    PICTURE_READERS,
    READERS,
    HuggingFace,
    JsonLines,
    ParallelFiles,
    Shards,
    TabSeparated,
    reader_for,
)
from regard.data.subword_kinds import BOS, EOS, KINDS, PAD, UNK
from regard.data.subwords import Subwords
from regard.data.treebanks import Treebank

__all__ = [
    "BOS",
    "EOS",
    "GENERATORS",
    "KINDS",
    "NORMALISERS",
    "PAD",
    "PICTURE_GENERATORS",
    "PICTURE_READERS",
    "READERS",
    "UNK",
    "Batch",
    "Corpus",
    "Example",
    "ExampleReader",
    "FileReader",
    "HuggingFace",
    "JsonLines",
    "Normalised",
    "ParallelFiles",
    "Shards",
    "Subwords",
    "TabSeparated",
    "Treebank",
    "collate",
    "epoch_batches",
    "lines",
    "padding_share",
    "reader_for",
    "too_long",
    "write_corpus",
]
