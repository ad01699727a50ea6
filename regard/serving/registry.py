"""The runs that are served, by name; each answers one request at a time."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from typing import Any, final

import numpy as np
from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.data import Example
from regard.errors import DataError, RegardError, RunError, SettingError
from regard.evaluating import Gold, check_links
from regard.evaluating.attention_links import DecoderRow
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.record import Record
from regard.inspecting.record_files import load_caption, load_record
from regard.interop.transformers_folder import open_folder
from regard.runs.example_inputs import ExampleInputs, own_examples
from regard.runs.trained import Engine, Trained, load
from regard.runs.unlike_texts import Familiar, familiar_rows
from regard.serving.lru_cache import LruCache, Once
from regard.serving.published import WHO, ServedModel
from regard.serving.request_limits import WatchedSearch, held
from regard.training.checkpoints import checkpoints, update_of
from regard.training.run_folder import is_unfinished_run

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
    step: int | None = None
    """The update of the checkpoint that it was loaded from; None for a finished run."""
    busy: RLock = field(default_factory=RLock)
    """Held while the model computes."""
    example_inputs: Once[ExampleInputs] = field(init=False, repr=False)
    """Examples of its own data; read when first needed."""
    familiar: Once[Familiar | None] = field(init=False, repr=False)
    """What stood in its training texts; read when first needed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "example_inputs", Once(lambda: own_examples(self.trained)))
        object.__setattr__(self, "familiar", Once(lambda: familiar_rows(self.trained)))

    @property
    def version(self) -> str:
        """Other weights of the same run have another version."""
        return "" if self.step is None else f"step-{self.step}"

    @property
    def key(self) -> str:
        """A part of the names of its answers: the run and the version."""
        return f"{self.name} {self.version}".strip()

    @property
    def verb(self) -> str:
        """What it does to an input, as a view of the page is called."""
        return self.trained.task.verb(self.trained.loaded.recipe)

    @property
    def reads(self) -> str:
        """The kind of its sources: "texts" or "pictures"."""
        return self.trained.task.sources.name

    def look_at_picture(self, address: str) -> CaptionRecord:
        """Where each word of a picture's caption looked."""
        search = WatchedSearch(self.trained.default_search(), self.busy)
        with held(self.busy):
            return self.trained.look_at_picture(address, search=search)


@final
@dataclass(frozen=True)
class Registry:
    """All runs, records and caches of the server."""

    runs: dict[str, Served]
    gold: GoldPairs | None = None
    models: Mapping[str, ServedModel] = field(default_factory=dict)
    """Models of transformers, by name."""
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
    learning: Mapping[str, Path] = field(default_factory=dict)
    """Runs that were not finished when they were opened; their newest weights are loaded."""
    order: Sequence[str] = ()
    """The names of all runs as they were given."""
    load: Callable[[Path], Trained] = load
    """How weights are loaded."""
    loading: Lock = field(default_factory=Lock, repr=False)
    problems: MutableMapping[str, str] = field(default_factory=dict)
    """Why the newest weights of a run could not be loaded; they are tried again."""

    @property
    def names(self) -> list[str]:
        """Every run, those without weights too, and every model."""
        return [*dict.fromkeys((*self.order, *self.runs, *self.models))]

    @property
    def answering(self) -> Mapping[str, "Served | ServedModel"]:
        """The runs that have weights, and the models."""
        return {**self.runs, **self.models}

    def run(self, name: str) -> Served:
        """One run by its name, or an error that names the nearest."""
        if name in self.models:
            raise SettingError(
                f"run: '{name}' is a model of transformers, which has no data, no training and no "
                "gold links. Take a run, or make one of it: regard import."
            )
        if name in self.learning and name not in self.runs:
            raise RunError(
                self.problems.get(name)
                or f"serve: '{name}' is being trained and has no checkpoint yet. Wait for its "
                "first one; the Training view shows how far it is."
            )
        return find(name, self.runs, key="run")

    def home(self, name: str) -> Path:
        """The folder of a run."""
        return self.learning[name] if name in self.learning else self.run(name).trained.home

    def is_finished(self, name: str) -> bool:
        """Whether the weights that are served are final."""
        return name in self.models or (name in self.runs and self.runs[name].step is None)

    def refresh(self) -> None:
        """Load the newest weights of runs that are being trained."""
        with self.loading:
            for name, home in self.learning.items():
                if not self.is_finished(name):
                    self._load_newest(name, home)

    def _load_newest(self, name: str, home: Path) -> None:
        found = checkpoints(home / "checkpoints")
        newest = home if (home / "model.safetensors").is_file() else found[-1] if found else None
        if newest is None:
            return
        step = None if newest == home else update_of(newest)
        if name in self.runs and self.runs[name].step == step:
            return
        try:
            self.runs[name] = Served(name, self.load(newest), step)
            self.problems.pop(name, None)
        except (RegardError, OSError) as error:
            # another process writes there, and deletes old checkpoints: it may load later
            self.problems[name] = str(error)

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
    threads: int | None = None,
    engine: Engine | None = None,
    gold: GoldPairs | None = None,
    saved: Sequence[Path] = (),
    models: Sequence[str] = (),
) -> Registry:
    """Load runs, records in files and models of transformers, by folder or name.

    A run that is being trained is served with its newest checkpoint, as soon as it has one.

    Equal names are extended by their folders.

    The device is "cpu" or "cuda"; a GPU where there is one, unless given. `threads` share a product
    on a CPU. An engine other than torch searches for the answers of all runs.
    """
    if not (paths or saved or models):
        raise RunError(
            "serve: expected at least one finished run or record, got none. Write regard serve "
            "RUN, or regard serve --model FOLDER."
        )
    folders = [path.resolve() for path in paths if not path.is_file()]
    files = [path.resolve() for path in (*filter(Path.is_file, paths), *saved)]
    published = [Path(name) for name in models]
    names = names_of([*folders, *(path.absolute() for path in published)])
    opened = partial(load, device=device, threads=threads, engine=engine)
    homes = dict(zip(names, folders, strict=False))
    learning = {name: path for name, path in homes.items() if is_unfinished_run(path)}
    runs = {
        name: Served(name, opened(path)) for name, path in homes.items() if name not in learning
    }
    foreign = {
        name: ServedModel(name, open_folder(path, WHO))
        for name, path in zip(names[len(folders) :], published, strict=True)
    }
    read = {name: _read(path) for name, path in zip(names_of(files), files, strict=True)}
    texts = {name: one for name, one in read.items() if isinstance(one, Record)}
    captions = {name: one for name, one in read.items() if isinstance(one, CaptionRecord)}
    registry = Registry(
        runs, gold, foreign, texts, captions, learning=learning, order=tuple(homes), load=opened
    )
    registry.refresh()
    return registry


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
