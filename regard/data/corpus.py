"""Corpus: examples turned into numbers once, kept on disk and mapped into memory.

    source.bin  source.npy      the ids of all sources one after another; where each begins
    target.bin  target.npy      the same for the targets
    examples.npy                the example that each row came from
    corpus.json                 sizes, number formats and the vocabularies' fingerprints

Both sides end in eos. An example with three references becomes three rows with the same source. A
picture's source is one number, its row in a store, without eos (sources.py).
No file is ever read as a whole, so a corpus may be larger than memory.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Int64, UInt
from numpy.lib import format as npy

from regard.data.examples import Example
from regard.data.mapped_arrays import UNCLEAR, ArrayFolder, new_folder, write_facts
from regard.data.sources import Sources, TokenRows
from regard.data.subword_kinds import EOS
from regard.errors import DataError

SIDES = ("source", "target")
STEP = 1 << 20
"""How many entries of an index are checked at a time."""
ANY_SIZE = 1 << 32
"""The vocabulary size assumed for corpora that were written without one: every id is below it."""
REMEDY = "Delete this folder, and regard train --resume (or write_corpus) writes it anew."


@runtime_checkable
class Numbering(Protocol):
    """Turns texts into numbers: a vocabulary of sub-words, or a store of pictures by address."""

    @property
    def fingerprint(self) -> str:
        """Equal for two numberings only if they give equal numbers."""
        ...

    @property
    def n_ids(self) -> int:
        """Every number is below it."""
        ...

    def encode_all(self, texts: Sequence[str], /) -> list[list[int]]:
        """The numbers of each text."""
        ...


@final
@dataclass(frozen=True)
class Corpus:
    """Rows of ids, read from disk when they are accessed."""

    path: Path
    source_ids: UInt[np.ndarray, " n_source"]
    target_ids: UInt[np.ndarray, " n_target"]
    source_begins: Int64[np.ndarray, " rows_and_one"]
    target_begins: Int64[np.ndarray, " rows_and_one"]
    examples: Int64[np.ndarray, " rows"]
    """Which example, counted from 0 in the order of reading, each row came from."""
    fingerprints: tuple[str, str]
    """Of the source's and the target's sub-words."""
    sources: Sources = field(default_factory=TokenRows)
    """What a model is given for the sources' numbers."""
    sizes: tuple[int, int] = (ANY_SIZE, ANY_SIZE)
    """How many numbers the source's and the target's sub-words have."""
    counts_sources: bool = False
    """Whether updates and batches are counted in source tokens, as where a text has one label."""

    @classmethod
    def open(cls, path: Path) -> "Corpus":
        """Map a corpus that `write_corpus` wrote; sizes that do not agree are refused.

        The ids are not read before their rows are.
        """
        folder = ArrayFolder(path, "corpus", REMEDY)
        facts = _facts(folder)
        begins = [_index(folder, f"{side}.npy") for side in SIDES]
        ids = [_ids(folder, side, facts, begin) for side, begin in zip(SIDES, begins, strict=True)]
        examples = _index(folder, "examples.npy")
        if not len(begins[0]) == len(begins[1]) == len(examples) + 1:
            raise folder.damaged(
                f"source.npy, target.npy and examples.npy speak of {len(begins[0]) - 1}, "
                f"{len(begins[1]) - 1} and {len(examples)} rows",
            )
        marks = (facts["source"]["fingerprint"], facts["target"]["fingerprint"])
        sizes = (facts["source"].get("size", ANY_SIZE), facts["target"].get("size", ANY_SIZE))
        return cls(path, ids[0], ids[1], begins[0], begins[1], examples, marks, sizes=sizes)

    def __len__(self) -> int:
        return len(self.examples)

    def source(self, row: int) -> UInt[np.ndarray, " s"]:
        """The ids of one source, with eos: a view, not a copy."""
        found = self.source_ids[self.source_begins[row] : self.source_begins[row + 1]]
        self._check("source", found)
        return found

    def target(self, row: int) -> UInt[np.ndarray, " t"]:
        """The ids of one target, with eos: a view, not a copy."""
        found = self.target_ids[self.target_begins[row] : self.target_begins[row + 1]]
        self._check("target", found)
        return found

    def piece_counts(self, side: str, size: int) -> Int64[np.ndarray, " v"]:
        """How often each of a vocabulary's `size` pieces stands on a side; heads do not count."""
        ids = {"source": self.source_ids, "target": self.target_ids}[side]
        total = np.zeros(size, dtype=np.int64)
        for begin in range(0, len(ids), STEP):
            part = np.asarray(ids[begin : begin + STEP]).astype(np.int64)
            total += np.bincount(part % size, minlength=size)
        return total

    def check_ids(self, rows: Int64[np.ndarray, " b"]) -> None:
        """Refuse rows with an id, on either side, that is not in its vocabulary."""
        both = (self.source_ids, self.source_begins), (self.target_ids, self.target_begins)
        for side, (ids, begins) in zip(SIDES, both, strict=True):
            lengths = begins[rows + 1] - begins[rows]
            # the places of all rows, one after another
            skipped = begins[rows] - (np.cumsum(lengths) - lengths)
            self._check(side, ids[np.repeat(skipped, lengths) + np.arange(lengths.sum())])

    def _check(self, side: str, ids: UInt[np.ndarray, " n"]) -> None:
        size = self.sizes[SIDES.index(side)]
        if ids.size and int(ids.max()) >= size:
            folder = ArrayFolder(self.path, "corpus", REMEDY)
            raise folder.damaged(f"{side}.bin holds ids past the {size} of its vocabulary")

    @property
    def source_lengths(self) -> Int64[np.ndarray, " rows"]:
        """How many ids each source has, eos counted."""
        return np.diff(self.source_begins)

    @property
    def counted_lengths(self) -> Int64[np.ndarray, " rows"]:
        """How many tokens of each row count for the size of an update."""
        return self.source_lengths if self.counts_sources else self.target_lengths

    @property
    def target_lengths(self) -> Int64[np.ndarray, " rows"]:
        """How many ids each target has, eos counted."""
        return np.diff(self.target_begins)


def write_corpus(
    path: Path,
    examples: Iterable[Example],
    source_subwords: Numbering,
    target_subwords: Numbering,
    *,
    source_end: tuple[int, ...] = (EOS,),
    chunk: int = 4096,
) -> Corpus:
    """Encode examples into a new folder, `chunk` of them at a time, and open it.

    The folder, which must not be there yet, is written beside its name and renamed at the end: it
    is there whole, or not at all. `source_end` stands behind every source.
    """
    rows = 0
    with new_folder(path, "corpus") as folder:
        with (
            closing(_Side(folder, "source", source_subwords, source_end)) as source,
            closing(_Side(folder, "target", target_subwords, (EOS,))) as target,
            closing(_Index(folder, "examples")) as origins,
        ):
            numbered = iter(enumerate(examples))
            while some := list(islice(numbered, chunk)):
                pairs = [(i, e.source, t) for i, e in some for t in e.targets]
                source.write([text for _, text, _ in pairs])
                target.write([text for _, _, text in pairs])
                origins.write(np.array([i for i, _, _ in pairs]))
                rows += len(pairs)
        if not rows:
            raise DataError(f"corpus: there are no examples to write to '{path}'.")
        write_facts(folder / "corpus.json", {"source": source.facts(), "target": target.facts()})
    return Corpus.open(path)


class _Index:
    """Writes a .npy file of integers whose count is known only at the end."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file = (folder / f"{name}.npy").open("wb")
        self.count = 0
        self._write_header()

    def write(self, numbers: np.ndarray) -> None:
        self.file.write(numbers.astype("<i8").tobytes())
        self.count += len(numbers)

    def close(self) -> None:
        # numpy leaves room in a header for any count
        self.file.seek(0)
        self._write_header()
        self.file.close()

    def _write_header(self) -> None:
        header = {"descr": "<i8", "fortran_order": False, "shape": (self.count,)}
        npy.write_array_header_1_0(self.file, header)


class _Side:
    """The ids of one side and the index of where each row begins."""

    def __init__(self, folder: Path, name: str, subwords: Numbering, end: tuple[int, ...]) -> None:
        self.file = (folder / f"{name}.bin").open("wb")
        self.subwords, self.end = subwords, end
        self.dtype = "<u2" if subwords.n_ids <= 1 << 16 else "<u4"
        self.index = _Index(folder, name)
        self.index.write(np.zeros(1))
        self.count = 0

    def write(self, texts: list[str]) -> None:
        rows = [[*ids, *self.end] for ids in self.subwords.encode_all(texts)]
        self.file.write(np.array([i for ids in rows for i in ids], dtype=self.dtype).tobytes())
        ends = self.count + np.cumsum([len(ids) for ids in rows])
        self.index.write(ends)
        self.count = int(ends[-1])

    def close(self) -> None:
        self.file.close()
        self.index.close()

    def facts(self) -> dict[str, str | int]:
        return {
            "dtype": self.dtype,
            "tokens": self.count,
            "fingerprint": self.subwords.fingerprint,
            "size": self.subwords.n_ids,
        }


def _facts(folder: ArrayFolder) -> dict[str, Any]:
    facts = folder.facts("corpus.json", dict.fromkeys(SIDES, dict))
    for side in SIDES:
        match {"size": ANY_SIZE, **facts[side]}:
            case {"dtype": "<u2" | "<u4", "tokens": int(), "fingerprint": str(), "size": int()}:
                continue
        raise folder.damaged(f"corpus.json {UNCLEAR}")
    return facts


def _index(folder: ArrayFolder, name: str) -> np.ndarray:
    index = folder.npy(name)
    if index.dtype != np.int64 or index.ndim != 1:
        raise folder.damaged(f"{name} is not a row of 64-bit numbers")
    return index


def _ids(folder: ArrayFolder, side: str, facts: dict[str, Any], begins: np.ndarray) -> np.ndarray:
    tokens = facts[side]["tokens"]
    ids = folder.numbers(f"{side}.bin", facts[side]["dtype"], (tokens,))
    if len(begins) < 2 or begins[0] != 0 or begins[-1] != tokens or not _rises(begins):
        raise folder.damaged(f"{side}.npy does not rise from 0 to {tokens}")
    return ids


def _rises(begins: np.ndarray) -> bool:
    """Whether every row has at least its eos; checked in steps to bound the memory."""
    steps = range(0, len(begins), STEP)
    return all(bool((np.diff(begins[i : i + STEP + 1]) > 0).all()) for i in steps)
