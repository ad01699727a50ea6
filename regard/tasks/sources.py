"""Sources: what a model reads, and how it is prepared, sent and named.

texts       the source has sub-words of its own, or shares the target's (text_sources.py)
pictures    each picture is decoded once, and looked at once by a frozen encoder
(picture_sources.py)
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final, runtime_checkable

from jaxtyping import Int64, Shaped
from torch import Tensor

from regard.data import Corpus, Example
from regard.data.corpus import Numbering
from regard.hardware.hardware import Hardware
from regard.models import Model, Stepper
from regard.recipes.recipe import Recipe
from regard.tasks.ready_run import ReadyRun

ReadExamples = Callable[[], Iterable[Example]]
"""Reads a split from its beginning, as often as it is called."""
ReadLines = Callable[[str], Iterator[str]]
"""The lines of a file by its name; "-" is standard input."""
Tell = Callable[[str], None]
"""Tells the user what is left unread."""


@final
@dataclass(frozen=True)
class Split:
    """A split of a recipe's data, and the folder of what is made of it."""

    recipe: Recipe
    folder: Path
    name: str


@runtime_checkable
class SourceType(Protocol):
    """How the sources of a run are prepared for its model."""

    name: str
    """What they are, in the plural: texts or pictures."""
    has_lengths: bool
    """Whether a source has a length, by which rows are sorted and losses are compared."""

    def texts_for_vocabulary(self, example: Example) -> tuple[str, ...]:
        """The texts of an example that shared sub-words are learned from."""

    def normalised(self, name: str | None, examples: Iterable[Example]) -> Iterator[Example]:
        """Examples whose texts went through the normaliser of this name."""

    def write(
        self, path: Path, split: Split, read: ReadExamples, source: Numbering, target: Numbering
    ) -> None:
        """Encode a split into a new corpus."""

    def open(self, path: Path, split: Split) -> Corpus:
        """A corpus that was written."""

    def slow_steps(self, folder: Path, model: Model | None) -> Iterator[str]:
        """What will take long: before anything is made, and once the model is built."""

    def notes(self, split: Split) -> Iterator[str]:
        """What a person should know about a split."""

    def load_published_weights(self, model: Model) -> None:
        """Give a new model the published weights that its recipe asks for."""

    def as_model_sees(
        self, corpus: Corpus, split: Split, model: Model, hardware: Hardware
    ) -> Corpus:
        """The corpus as the model reads it, once it has its first weights."""

    def for_search(
        self, model: Model, source: Shaped[Tensor, "b ..."]
    ) -> tuple[Stepper, Int64[Tensor, "b s"]]:
        """The stepper and the tokens that a search takes for the source of a batch."""

    def form(self, recipe: Recipe) -> tuple[object, ...]:
        """What must be equal in runs that answer together, beside their vocabularies."""

    def requests(
        self, run: ReadyRun, name: str, read_lines: ReadLines, tell: Tell
    ) -> Iterator[str]:
        """The requests that a file holds which the caller names."""

    def typed(self, recipe: Recipe, text: str, where: str, tell: Tell) -> str:
        """The request that the caller typed."""

    def is_blank(self, request: str) -> bool:
        """Whether a request holds nothing to answer."""

    def title(self, source: str) -> str:
        """What a page calls a source; the page does not learn where files lie."""
