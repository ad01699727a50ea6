"""A loaded run, on which tasks work: recipe, vocabularies and model, ready to compute."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np

from regard.data.corpus import Corpus
from regard.data.labels import LABELS_FILE
from regard.data.subword_kinds import MASK_NUMBER, SPECIALS, UNK
from regard.data.subwords import Subwords
from regard.data.unknown_words import words_with
from regard.decoding import (
    Beam,
    Decodable,
    Ensemble,
    Limits,
    RecordedModel,
    SearchEngine,
    fast_model,
    recorded,
)
from regard.decoding.beam import DEFAULT_BEAM_WIDTH
from regard.errors import DataError, LengthError
from regard.hardware.hardware import CPU, Hardware
from regard.inspecting.capture import check_reads_answers, look_at
from regard.inspecting.record import Record
from regard.models import Model, Stepper
from regard.recipes.data_paths import run_of
from regard.recipes.recipe import Recipe
from regard.tasks.predictions import Request

TORCH = "torch"
"""The name of the usual engine."""
MAX_COUNTED_PIECES = 1 << 26
"""The longest training texts that are read, in a third of a second, for what a model has seen."""


@dataclass(frozen=True)
class Loaded:
    """The contents of a finished run's files: recipe, vocabularies and model."""

    recipe: Recipe
    source: Subwords
    target: Subwords
    model: Model

    def __repr__(self) -> str:
        count = sum(weight.numel() for weight in self.model.parameters())
        return f"Loaded({type(self.model).__name__} of {count:,} parameters)"


def subword_files(recipe: Recipe) -> tuple[str, ...]:
    """The names of a run's vocabularies: one for both sides, or the source's and the target's.

    Labels have a set of their own.
    """
    if recipe.model.gives_labels:
        return ("tokenizer.json", LABELS_FILE)
    return _files_of_texts(recipe)


def _files_of_texts(recipe: Recipe) -> tuple[str, ...]:
    if recipe.tokens.is_joint:
        return ("tokenizer.json",)
    return ("tokenizer.source.json", "tokenizer.target.json")


def load_subwords(recipe: Recipe, path: Path) -> tuple[Subwords, Subwords]:
    """The source's and the target's sub-words of a run; joint ones are one object.

    Those that carry trees are two, since a source must bring its tree and a target has none.
    """
    is_old = has_old_labels(recipe, path)
    names = _files_of_texts(recipe) if is_old else subword_files(recipe)
    read = [Subwords.load(path / name) for name in names]
    source = read[0].for_tagging() if recipe.model.labels_words else read[0]
    return source.for_sources(), read[-1]


def has_old_labels(recipe: Recipe, path: Path) -> bool:
    """Whether an earlier version made the run, when labels were pieces of a text's vocabulary."""
    return recipe.model.gives_labels and not (path / LABELS_FILE).exists()


@dataclass(frozen=True)
class LoadedRun(ABC):
    """A loaded run on its hardware; `Trained` adds the methods that depend on its task."""

    path: Path
    """The run's directory, or one of its checkpoints."""
    loaded: Loaded
    hardware: Hardware = CPU
    others: tuple[Loaded, ...] = ()
    """Runs that answer together with this one."""
    engine: SearchEngine | None = None
    """Another program that searches for answers; torch unless given."""
    stepper: Decodable = field(init=False, repr=False)
    """What searches are called with: the engine, the model or the ensemble."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stepper", self.engine or self._fast())

    def _fast(self) -> Stepper:
        place = self.hardware.device
        models = [fast_model(one.model, place) for one in (self.loaded, *self.others)]
        longest = min(one.recipe.model.max_len for one in (self.loaded, *self.others))
        return recorded(models[0] if len(models) == 1 else Ensemble(models), place, longest)

    def reading(self, wrap: Callable[[Stepper], Stepper]) -> Decodable:
        """What searches are called with where a wrapper of the model reads the sources."""
        if isinstance(self.stepper, RecordedModel):
            return self.stepper.reading(wrap)
        # no other program holds a model that is wrapped
        return wrap(cast(Stepper, self.stepper))

    def free_recordings(self) -> None:
        """Give back the memory of all recordings of searches."""
        if isinstance(self.stepper, RecordedModel):
            self.stepper.recordings.free()

    @property
    def last_search(self) -> str:
        """How the last batch was searched for, on a device with recordings; else empty."""
        return self.stepper.recordings.said if isinstance(self.stepper, RecordedModel) else ""

    @property
    def searches(self) -> str:
        """How batches were searched for until now: how many by recordings, and why others not."""
        if self.engine is not None:
            return self.engine_name
        if not isinstance(self.stepper, RecordedModel):
            return f"plain: no search is recorded on a {self.hardware.device.type}"
        counts = self.stepper.recordings.counts
        return "; ".join(f"{n:,} times {way}" for way, n in counts.items())

    @property
    def engine_name(self) -> str:
        """The program that searches for answers, as --engine spells it."""
        return TORCH if self.engine is None else self.engine.engine_name

    @property
    def home(self) -> Path:
        """The run's directory, which keeps what is not weights."""
        return run_of(self.path)

    @abstractmethod
    def read(self, text: str) -> str:
        """A text normalised as those that the run learned from."""

    @cached_property
    def unseen_pieces(self) -> frozenset[int]:
        """The pieces of sources of which the model knows nothing: no training text had them.

        Without the training texts in the run, with very many, or where the weights began as those
        of another run, it is the unknown piece alone.
        """
        path, subwords = self.home / "corpus" / "train", self.loaded.source
        is_whole = path.is_dir() and self.loaded.recipe.training.start_from is None
        try:
            corpus = Corpus.open(path) if is_whole else None
        except DataError:
            corpus = None
        if corpus is None or len(corpus.source_ids) > MAX_COUNTED_PIECES:
            return frozenset({UNK})
        counts = corpus.piece_counts("source", len(subwords))
        unseen = np.flatnonzero(counts == 0).tolist()
        # the piece of a hidden word stands in no text
        special = {*range(len(SPECIALS)), *([MASK_NUMBER] if subwords.has_mask else [])}
        return frozenset({UNK, *unseen} - (special - {UNK}))

    def read_ahead(self, requests: Sequence[Request]) -> list[Request]:
        """The requests with the tokens of their texts, cut in bulk; one much too long has none."""
        source, texts = self.loaded.source, [self.read(request.text) for request in requests]
        # a lower bound avoids the slow tokenising of a text that is certainly too long
        known = [source.fewest(text) < self.longest for text in texts]
        rows = iter(
            source.encode_all(
                [text for text, is_known in zip(texts, known, strict=True) if is_known]
            )
        )
        return [
            request.read_as(next(rows)) if is_known else request
            for request, is_known in zip(requests, known, strict=True)
        ]

    def tokens_of(self, request: Request) -> Sequence[int]:
        """The tokens of a request's text, without the end token."""
        if request.tokens is not None:
            return request.tokens
        return self.loaded.source.encode(self.read(request.text))

    def unseen_in(self, request: Request) -> tuple[str, ...]:
        """The same as `unseen_words`, of a request that may have been read ahead."""
        source, tokens = self.loaded.source, request.tokens
        if tokens is not None and source.n_ids > len(source):
            # a number also tells a word's head, or that the piece is not its word's first
            tokens = [number % len(source) for number in tokens]
        if tokens is not None and self.unseen_pieces.isdisjoint(tokens):
            return ()
        return self.unseen_words(request.text)

    def unseen_words(self, text: str) -> tuple[str, ...]:
        """The words of a text with pieces of which the model knows nothing."""
        read = self.read(text)
        return tuple(words_with(self.loaded.source, read, self.unseen_pieces))

    @property
    def longest(self) -> int:
        """The most tokens that the model reads or writes, the end token counted."""
        return self.loaded.recipe.model.max_len

    def default_search(self) -> Beam:
        """A beam of the usual width, the recipe's rules, and answers of 50 tokens more at most."""
        # a model that reads its answer reads a begin token before it
        most = self.longest - self.loaded.model.reads_answers
        return Beam(
            width=DEFAULT_BEAM_WIDTH,
            limits=Limits(max_tokens=most, beyond_source=50),
            rules=self.loaded.recipe.decoding.rules,
        )

    def length(self, text: str) -> int:
        """How many tokens the model would read, the end token counted."""
        return len(self.loaded.source.encode(self.read(text))) + 1

    def check_length(self, request: Request, remedy: str = "look at a part of it") -> None:
        """Refuse a text that is too long to be read as a whole; the error names the remedy."""
        end = f": '{request.text[:40]}…'. Shorten it, or {remedy}."
        self._fitting(self.loaded.source, request.text, f"{request.name} has", "reads", end)

    def answer_tokens(self, target: str) -> list[int]:
        """The tokens of an answer that the caller gave; one that is too long is refused."""
        check_reads_answers(self.loaded.model)
        return self._fitting(self.loaded.target, target, "look: the answer has", "writes", ".")

    def _fitting(self, side: Subwords, text: str, has: str, does: str, end: str) -> list[int]:
        """The tokens of a text without the end token; `has`, `does`, `end`: parts of the error."""
        read = self.read(text)
        # a lower bound avoids the slow tokenising of a text that is certainly too long
        fewest = side.fewest(read) + 1
        tokens = None if fewest > self.longest else side.encode(read)
        if tokens is None or len(tokens) >= self.longest:
            count = f"at least {fewest:,}" if tokens is None else f"{len(tokens) + 1:,}"
            raise LengthError(
                f"{has} {count} tokens, but the model {does} at most {self.longest:,} "
                f"(model.max_len, the end token counted){end}"
            )
        return tokens

    def read_over(self, read: str, answer: Sequence[int]) -> Record:
        """Every weight with which the model reads a normalised text and writes an answer."""
        loaded = self.loaded
        with self.hardware.on_threads():
            return look_at(loaded.model, loaded.source, loaded.target, read, answer)
