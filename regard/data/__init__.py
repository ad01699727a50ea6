"""files → examples → batches.

files, rows, readers, treebanks       files → examples
normalising                           texts of two makes → one form
splits, generators, dates, scenes     seed → examples
captions, captioned                   captions beside pictures → examples
kinds, vocabulary_files, subwords     text ↔ numbers
addresses, pictures, framing          picture files → squares of pixels
picture_store, annotation_store       squares, and what an encoder sees in them → arrays on disk
corpus                                examples → arrays on disk
sources, augmenting                   arrays → what a model reads
batches                               arrays → batches
doctor                                files → what is wrong with them
atomic_writes, permissions            what was written → a name that stands for all of it
"""

from regard.data.batches import Batch, collate, epoch_batches, padding_share, too_long
from regard.data.corpus import Corpus, write_corpus
from regard.data.examples import Example
from regard.data.files import lines
from regard.data.generators import GENERATORS, PICTURE_GENERATORS
from regard.data.kinds import BOS, EOS, KINDS, PAD, UNK
from regard.data.normalisation import NORMALISERS, Normalised
from regard.data.readers import (
    PICTURE_READERS,
    READERS,
    FileReader,
    HuggingFace,
    JsonLines,
    ParallelFiles,
    Reader,
    Shards,
    TabSeparated,
    reader_for,
)
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
    "FileReader",
    "HuggingFace",
    "JsonLines",
    "Normalised",
    "ParallelFiles",
    "Reader",
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
