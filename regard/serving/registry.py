"""The runs that are served, by name; each answers one request at a time."""

from collections.abc import Iterator, Mapping, Sequence
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
from regard.evaluating.heads import Row
from regard.inspecting.caption_files import load_caption
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.record import Record
from regard.inspecting.record_files import load_record
from regard.runs.trained import Trained, load
from regard.serving.lru_cache import Kept, Once
from regard.serving.offers import Offer, own_examples

MOST_TILES = 512
"""How many tiles of maps are kept; each takes a quarter of a megabyte."""
MOST_RECORDS = 16
"""How many records are kept; one of a long text takes many megabytes."""
MOST_CAPTIONS = 8
"""How many captions are kept, each with its picture."""
MOST_MATRICES = 4
"""How many sets of numbers that follow from weights are kept; each has at most 4 million."""
MOST_WEIGHED = 2
"""Of how many runs the weights between all gold words are kept."""

WordWeights = Float[Tensor, "layers heads t s"]


@final
@dataclass(frozen=True)
class SentTile:
    """A tile of a map, as it is sent."""

    content: bytes
    lowest: float
    highest: float
    rows_used: int
    is_exact: bool
    is_empty: bool


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
    """One run, and what is known of it."""

    name: str
    trained: Trained
    busy: RLock = field(default_factory=RLock)
    """Held while the model computes."""
    _offer: Once[Offer] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_offer", Once(lambda: own_examples(self.trained)))

    @property
    def reads(self) -> str:
        """What it reads: texts or pictures."""
        return self.trained.task.sources.name

    @property
    def offer(self) -> Offer:
        """Some of its own data that it may be asked (offering.py); read when first needed."""
        return self._offer()


@final
@dataclass(frozen=True)
class Registry:
    """All that is served."""

    runs: Mapping[str, Served]
    gold: GoldPairs | None = None
    saved: Mapping[str, Record] = field(default_factory=dict)
    """Records from files, by name; they are never forgotten."""
    saved_captions: Mapping[str, CaptionRecord] = field(default_factory=dict)
    """Captions from files, by name."""
    records: Kept[Once[Record]] = field(default_factory=lambda: Kept(most=MOST_RECORDS))
    tiles: Kept[Once[SentTile]] = field(default_factory=lambda: Kept(most=MOST_TILES))
    captions: Kept[CaptionRecord] = field(default_factory=lambda: Kept(most=MOST_CAPTIONS))
    errors_of_heads: Kept[Once[dict[str, object]]] = field(default_factory=Kept)
    word_weights: Kept[Once[dict[int, dict[Row, WordWeights]]]] = field(
        default_factory=lambda: Kept(most=MOST_WEIGHED)
    )
    matrices: Kept[Once[np.ndarray[Any, np.dtype[np.float32]]]] = field(
        default_factory=lambda: Kept(most=MOST_MATRICES)
    )

    def run(self, name: str) -> Served:
        """One run by its name, or an error that names the nearest."""
        return find(name, self.runs, key="run")

    def record(self, name: str) -> Record:
        """A record that was saved, or that is still kept."""
        return self.saved[name] if name in self.saved else self.records.get(name)()

    def caption(self, name: str) -> CaptionRecord:
        """A caption that was saved, or that is still kept."""
        saved = self.saved_captions.get(name)
        return self.captions.get(name, "caption") if saved is None else saved


def open_runs(
    paths: Sequence[Path],
    *,
    device: str | None = None,
    gold: GoldPairs | None = None,
    saved: Sequence[Path] = (),
) -> Registry:
    """Load runs and records; those of one name are told apart by the folders above.

    Args:
        paths: finished runs, or records in files.
        device: "cpu" or "cuda"; a GPU where there is one.
        gold: pairs with gold links, to show alignments with.
        saved: more records, that `save_record` or `save_caption` wrote.
    """
    if not paths and not saved:
        raise RunError(
            "serve: expected at least one finished run or record, got none. Write regard serve RUN."
        )
    folders = [path.resolve() for path in paths if not path.is_file()]
    files = [path.resolve() for path in (*filter(Path.is_file, paths), *saved)]
    runs = {
        name: Served(name, load(path, device=device))
        for name, path in zip(names_of(folders), folders, strict=True)
    }
    read = {name: _read(path) for name, path in zip(names_of(files), files, strict=True)}
    texts = {name: one for name, one in read.items() if isinstance(one, Record)}
    captions = {name: one for name, one in read.items() if isinstance(one, CaptionRecord)}
    return Registry(runs, gold, texts, captions)


def _read(path: Path) -> Record | CaptionRecord:
    """A record of a text, or of a caption, whichever the file says it is."""
    try:
        return load_record(path)
    except DataError as error:
        try:
            return load_caption(path)
        except DataError:
            raise error from None


def names_of(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of paths that tell them apart.

    >>> names_of([Path("/runs/en-de"), Path("/runs/dates"), Path("/old/dates")])
    ['en-de', 'runs-dates', 'old-dates']
    """
    if len(set(paths)) < len(paths):
        raise RunError("serve: a run or record was given twice. Give each once.")
    names: list[str] = []
    for path in paths:
        free = (name for name in _ends(path, paths) if name not in names)
        names.append(next(free, ""))
        if not names[-1]:
            raise RunError(
                f"serve: no end of '{path}' tells it from the other runs or records. Rename its "
                "folder, or serve it alone."
            )
    return names


def _ends(path: Path, paths: Sequence[Path]) -> Iterator[str]:
    """Ends of a path that no other path has, the shortest first."""
    others = [other for other in paths if other != path]
    for count in range(1, len(path.parts)):
        end = path.parts[-count:]
        if all(other.parts[-count:] != end for other in others):
            yield "-".join(end)
    # the end of all others: its whole path
    yield "-".join(path.parts[1:])
