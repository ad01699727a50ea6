"""The runs that are served, by name; each answers one request at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any, final

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.data import Example
from regard.errors import DataError, RunError
from regard.evaluating import Gold, check_links
from regard.evaluating.attention_links import DecoderRow
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.record import Record
from regard.inspecting.record_files import load_caption, load_record
from regard.runs.example_inputs import ExampleInputs, own_examples
from regard.runs.trained import Engine, Trained, load
from regard.serving.lru_cache import LruCache, Once

MAX_TILES = 512
"""How many tiles of maps are kept; each takes a quarter of a megabyte."""
MAX_RECORDS = 16
"""How many records are kept; one of a long text takes many megabytes."""
MAX_CAPTIONS = 8
MAX_MATRICES = 4
"""How many arrays of quantities are kept; each has at most 4 million numbers."""
MAX_WEIGHED_RUNS = 2

WordWeights = Float[Tensor, "layers heads t s"]
GoldWeights = dict[int, dict[DecoderRow, WordWeights]]
"""Weights between words, by the place of a pair and by decoder row."""
Matrices = np.ndarray[Any, np.dtype[np.float32]]
Tile = tuple[bytes, dict[str, str]]
"""The bytes of a tile, and its headers."""


@final
@dataclass(frozen=True)
class GoldPairs:
    """Pairs of texts between whose words people drew links."""

    pairs: tuple[Example, ...]
    links: tuple[Gold, ...]

    def __post_init__(self) -> None:
        sides = [self.words(place) for place in range(len(self.pairs))]
        check_links(self.links, [len(s) for s, _ in sides], [len(t) for _, t in sides])

    def words(self, place: int) -> tuple[list[str], list[str]]:
        """The words of a pair, what stands between spaces: of its source and of its target."""
        pair = self.pairs[place]
        return pair.source.split(), pair.targets[0].split()


@final
@dataclass(frozen=True)
class Served:
    """One run, its lock and its examples."""

    name: str
    trained: Trained
    busy: RLock = field(default_factory=RLock)
    """Held while the model computes."""
    example_inputs: Once[ExampleInputs] = field(init=False, repr=False)
    """Examples of its own data; read when first needed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "example_inputs", Once(lambda: own_examples(self.trained)))

    @property
    def reads(self) -> str:
        """The kind of its sources: "texts" or "pictures"."""
        return self.trained.task.sources.name


@final
@dataclass(frozen=True)
class Registry:
    """All runs, records and caches of the server."""

    runs: dict[str, Served]
    gold: GoldPairs | None = None
    saved: Mapping[str, Record] = field(default_factory=dict)
    """Records from files, by name; they are never dropped."""
    saved_captions: Mapping[str, CaptionRecord] = field(default_factory=dict)
    """Captions from files, by name."""
    records: LruCache[Record] = field(default_factory=lambda: LruCache(MAX_RECORDS))
    tiles: LruCache[Tile] = field(default_factory=lambda: LruCache(MAX_TILES))
    captions: LruCache[CaptionRecord] = field(default_factory=lambda: LruCache(MAX_CAPTIONS))
    errors_of_heads: LruCache[dict[str, object]] = field(default_factory=LruCache)
    word_weights: LruCache[GoldWeights] = field(default_factory=lambda: LruCache(MAX_WEIGHED_RUNS))
    matrices: LruCache[Matrices] = field(default_factory=lambda: LruCache(MAX_MATRICES))

    def run(self, name: str) -> Served:
        """One run by its name, or an error that names the nearest."""
        return find(name, self.runs, key="run")

    def record(self, name: str) -> Record:
        """A record that was saved, or that is still kept."""
        return self.saved[name] if name in self.saved else self.records.get(name)

    def caption(self, name: str) -> CaptionRecord:
        """A caption that was saved, or that is still kept."""
        saved = self.saved_captions.get(name)
        return self.captions.get(name, "caption") if saved is None else saved


def open_runs(
    paths: Sequence[Path],
    *,
    device: str | None = None,
    engine: Engine | None = None,
    gold: GoldPairs | None = None,
    saved: Sequence[Path] = (),
) -> Registry:
    """Load finished runs, and records in files; equal names are extended by their folders.

    The device is "cpu" or "cuda"; a GPU where there is one, unless given. An engine other than
    torch searches for the answers of all runs.
    """
    if not paths and not saved:
        raise RunError(
            "serve: expected at least one finished run or record, got none. Write regard serve RUN."
        )
    folders = [path.resolve() for path in paths if not path.is_file()]
    files = [path.resolve() for path in (*filter(Path.is_file, paths), *saved)]
    runs = {
        name: Served(name, load(path, device=device, engine=engine))
        for name, path in zip(names_of(folders), folders, strict=True)
    }
    read = {name: _read(path) for name, path in zip(names_of(files), files, strict=True)}
    texts = {name: one for name, one in read.items() if isinstance(one, Record)}
    captions = {name: one for name, one in read.items() if isinstance(one, CaptionRecord)}
    return Registry(runs, gold, texts, captions)


def _read(path: Path) -> Record | CaptionRecord:
    """A record of a text or of a caption, by the form in the file's header."""
    try:
        return load_record(path)
    except DataError as error:
        try:
            return load_caption(path)
        except DataError:
            raise error from None


def names_of(paths: Sequence[Path]) -> list[str]:
    """The shortest suffixes of paths that are unique.

    >>> names_of([Path("/runs/en-de"), Path("/runs/dates"), Path("/old/dates")])
    ['en-de', 'runs-dates', 'old-dates']
    """
    if len(set(paths)) < len(paths):
        raise RunError("serve: a run or record was given twice. Give each once.")
    names: list[str] = []
    for path in paths:
        others = [other.parts for other in paths if other != path]
        ends = [path.parts[-count:] for count in range(1, len(path.parts))]
        own = [end for end in ends if all(other[-len(end) :] != end for other in others)]
        # a path that is a suffix of another is named by all its parts
        free = ("-".join(end) for end in (*own, path.parts[1:]))
        names.append(next((name for name in free if name not in names), ""))
        if not names[-1]:
            raise RunError(
                f"serve: no end of '{path}' tells it from the other runs or records. Rename its "
                "folder, or serve it alone."
            )
    return names
