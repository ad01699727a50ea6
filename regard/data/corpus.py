"""Corpus: examples turned into numbers once, kept on disk and mapped into memory.

    source.bin  source.npy      the ids of all sources one after another; where each begins
    target.bin  target.npy      the same for the targets
    examples.npy                the example that each row came from
    corpus.json                 sizes, number formats and the vocabularies' fingerprints

Both sides end in eos. An example with three references becomes three rows with the same source. Of
pictures the source holds one number, its row in a store, and no eos (sources.py).
Nothing is ever read as a whole, so a corpus may be larger than memory.
"""

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from jaxtyping import Int64, UInt
from numpy.lib import format as npy

from regard.data.examples import Example
from regard.data.kinds import EOS
from regard.data.mapped_arrays import new_folder, write_facts
from regard.data.regular_files import Unreadable, check_is_regular, read_json
from regard.data.sources import Sources, TokenRows
from regard.errors import DataError

SIDES = ("source", "target")
STEP = 1 << 20
"""How many places of an index are looked at in one go."""
ANY_SIZE = 1 << 32
"""Of the vocabularies of a corpus from before sizes were written: every id lies below it."""


@runtime_checkable
class Numbering(Protocol):
    """What turns texts into numbers: sub-words, or a store that knows addresses of pictures."""

    @property
    def fingerprint(self) -> str:
        """The same for the same numbers only."""
        ...

    def __len__(self) -> int:
        """How many numbers there are."""
        ...

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        """The numbers of each text."""
        ...


@final
@dataclass(frozen=True)
class Corpus:
    """Rows of ids, read from disk as they are asked for."""

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
    """What a model is given of the sources' numbers."""
    sizes: tuple[int, int] = (ANY_SIZE, ANY_SIZE)
    """How many numbers the source's and the target's sub-words have."""

    @classmethod
    def open(cls, path: Path) -> "Corpus":
        """Map a corpus that `write_corpus` wrote; sizes that do not agree are refused.

        The ids are not read before their rows are.
        """
        facts = _facts(path)
        begins = [_index(path, f"{side}.npy") for side in SIDES]
        ids = [_ids(path, side, facts, begin) for side, begin in zip(SIDES, begins, strict=True)]
        examples = _index(path, "examples.npy")
        if not len(begins[0]) == len(begins[1]) == len(examples) + 1:
            raise _damaged(
                path,
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

    def check_ids(self, rows: Int64[np.ndarray, " b"]) -> None:
        """Refuse rows with an id, on either side, that is not in its vocabulary."""
        both = (
            (self.source_ids, self.source_begins),
            (self.target_ids, self.target_begins),
        )
        for side, (ids, begins) in zip(SIDES, both, strict=True):
            lengths = begins[rows + 1] - begins[rows]
            # the places of all rows, one after another
            skipped = begins[rows] - (np.cumsum(lengths) - lengths)
            self._check(side, ids[np.repeat(skipped, lengths) + np.arange(lengths.sum())])

    def _check(self, side: str, ids: UInt[np.ndarray, " n"]) -> None:
        size = self.sizes[SIDES.index(side)]
        if ids.size and int(ids.max()) >= size:
            raise _damaged(self.path, f"{side}.bin holds ids past the {size} of its vocabulary")

    @property
    def source_lengths(self) -> Int64[np.ndarray, " rows"]:
        """How many ids each source has, eos counted."""
        return np.diff(self.source_begins)

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

    The folder is written beside its name and renamed at the end: it is there whole, or not at all.

    Args:
        path: the folder, which must not be there yet.
        examples: what to encode.
        source_subwords: the numbers of sources.
        target_subwords: the numbers of targets.
        source_end: what stands behind every source.
        chunk: how many examples are in memory at once.
    """
    rows = 0
    with new_folder(path, "corpus") as folder:
        with (
            _Side(folder, "source", source_subwords, source_end) as source,
            _Side(folder, "target", target_subwords, (EOS,)) as target,
            _Index(folder, "examples") as origins,
        ):
            for first, some in _chunks(examples, chunk):
                pairs = [(i, e.source, t) for i, e in enumerate(some, first) for t in e.targets]
                source.write([text for _, text, _ in pairs])
                target.write([text for _, _, text in pairs])
                origins.write(np.array([i for i, _, _ in pairs]))
                rows += len(pairs)
        if not rows:
            raise DataError(f"corpus: there are no examples to write to '{path}'.")
        write_facts(folder / "corpus.json", {"source": source.facts(), "target": target.facts()})
    return Corpus.open(path)


def _chunks(examples: Iterable[Example], size: int) -> Iterator[tuple[int, list[Example]]]:
    first, rest = 0, iter(examples)
    while some := list(islice(rest, size)):
        yield first, some
        first += len(some)


class _Index:
    """A .npy file of whole numbers whose count is known only at the end."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / f"{name}.npy"
        self.raw = folder / f"{name}.raw"
        self.count = 0

    def __enter__(self) -> "_Index":
        self.file = self.raw.open("wb")
        return self

    def write(self, numbers: np.ndarray) -> None:
        self.file.write(numbers.astype("<i8").tobytes())
        self.count += len(numbers)

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.file.close()
        header = {"descr": "<i8", "fortran_order": False, "shape": (self.count,)}
        with self.path.open("wb") as whole, self.raw.open("rb") as raw:
            npy.write_array_header_1_0(whole, header)
            shutil.copyfileobj(raw, whole)
        self.raw.unlink()


class _Side:
    """The ids of one side and the index of where each row begins."""

    def __init__(self, folder: Path, name: str, subwords: Numbering, end: tuple[int, ...]) -> None:
        self.path = folder / f"{name}.bin"
        self.subwords, self.end = subwords, end
        self.dtype = "<u2" if len(subwords) <= 1 << 16 else "<u4"
        self.index = _Index(folder, name)
        self.count = 0

    def __enter__(self) -> "_Side":
        self.file = self.path.open("wb")
        self.index.__enter__()
        self.index.write(np.zeros(1))
        return self

    def write(self, texts: list[str]) -> None:
        rows = [[*ids, *self.end] for ids in self.subwords.encode_all(texts)]
        self.file.write(np.array([i for ids in rows for i in ids], dtype=self.dtype).tobytes())
        ends = self.count + np.cumsum([len(ids) for ids in rows])
        self.index.write(ends)
        self.count = int(ends[-1])

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.file.close()
        self.index.__exit__(kind, error, trace)

    def facts(self) -> dict[str, str | int]:
        return {
            "dtype": self.dtype,
            "tokens": self.count,
            "fingerprint": self.subwords.fingerprint,
            "size": len(self.subwords),
        }


def _facts(path: Path) -> dict[str, Any]:
    try:
        facts = read_json(path / "corpus.json")
    except Unreadable as error:
        raise _damaged(path, f"corpus.json {error}") from error
    match facts:
        case {
            "version": 1,
            "source": {"dtype": "<u2" | "<u4", "tokens": int(), "fingerprint": str()},
            "target": {"dtype": "<u2" | "<u4", "tokens": int(), "fingerprint": str()},
        } if all(type(facts[side].get("size", ANY_SIZE)) is int for side in SIDES):
            return facts
    raise _damaged(path, "corpus.json does not say what it should")


def _index(path: Path, name: str) -> np.ndarray:
    try:
        check_is_regular(path / name)
        index = npy.open_memmap(path / name, mode="r")
    except Unreadable as error:
        raise _damaged(path, f"{name} {error}") from error
    except (OSError, ValueError, OverflowError) as error:
        raise _damaged(path, f"{name} cannot be read ({error})") from error
    if index.dtype != np.int64 or index.ndim != 1:
        raise _damaged(path, f"{name} is not a row of 64-bit numbers")
    return index


def _ids(path: Path, side: str, facts: dict[str, Any], begins: np.ndarray) -> np.ndarray:
    dtype, tokens = np.dtype(facts[side]["dtype"]), facts[side]["tokens"]
    file = path / f"{side}.bin"
    size = file.stat().st_size if file.is_file() else 0
    if not tokens or size != tokens * dtype.itemsize:
        raise _damaged(
            path, f"{side}.bin has {size} bytes; {tokens} ids take {tokens * dtype.itemsize}"
        )
    if len(begins) < 2 or begins[0] != 0 or begins[-1] != tokens or not _rises(begins):
        raise _damaged(path, f"{side}.npy does not rise from 0 to {tokens}")
    return np.memmap(file, dtype=dtype, mode="r")


def _rises(begins: np.ndarray) -> bool:
    """Whether every row has at least its eos; looked at in steps, so that memory stays small."""
    steps = range(0, len(begins), STEP)
    return all(bool((np.diff(begins[i : i + STEP + 1]) > 0).all()) for i in steps)


def _damaged(path: Path, why: str) -> DataError:
    return DataError(
        f"corpus: '{path}' is damaged: {why}. Delete this folder, and regard train --resume (or "
        "write_corpus) writes it anew."
    )
