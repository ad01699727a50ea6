"""Sources: what a model reads, and how it is prepared, sent and named.

The defaults of `SourceType` are those of texts, which have sub-words of their own or share the
target's; `PictureSources` (picture_sources.py) overrides them for pictures.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from jaxtyping import Int64, Shaped
from torch import Tensor

from regard.data import Corpus, Example, write_corpus
from regard.data.corpus import Numbering
from regard.data.subwords import Subwords
from regard.hardware.hardware import Hardware
from regard.models import Model, Stepper
from regard.recipes.recipe import Recipe
from regard.tasks import input_format
from regard.tasks.loaded_run import LoadedRun

ReadExamples = Callable[[], Iterable[Example]]
"""Reads a split from its beginning, as often as it is called."""
ReadLines = Callable[[str], Iterator[str]]
"""The lines of a file by its name; "-" is standard input."""
Tell = Callable[[str | None], None]
"""Prints a note on what is left unread; does nothing for None."""


@final
@dataclass(frozen=True)
class Split:
    """A split of a recipe's data, and the folder of the files that are made from it."""

    recipe: Recipe
    folder: Path
    name: str


class SourceType:
    """How the sources of a run are prepared: texts here, other kinds in subclasses."""

    name = "texts"
    """The name of the kind, in the plural."""
    has_lengths = True
    """Whether a source has a length, by which rows are sorted and losses are compared."""

    def texts_for_vocabulary(self, example: Example) -> tuple[str, ...]:
        """The texts of an example that shared sub-words are learned from."""
        return (example.source, *example.targets)

    def write(
        self, path: Path, split: Split, read: ReadExamples, source: Numbering, target: Numbering
    ) -> None:
        """Encode a split into a new corpus."""
        write_corpus(path, read(), source, target)

    def text_of(self, ids: Sequence[int], subwords: Subwords, split: Split) -> str:
        """The request that a row of a corpus was made from, as the model reads it."""
        return subwords.text_of(ids)

    def open(self, path: Path, split: Split) -> Corpus:
        """A corpus that was written."""
        return Corpus.open(path)

    def slow_steps(self, folder: Path, model: Model | None) -> Iterator[str]:
        """Notes on slow steps: before preparation, or, with a model, after it is built."""
        return iter(())

    def notes(self, split: Split) -> Iterator[str]:
        """Notes on a split, such as unreadable sources; texts have none."""
        return iter(())

    def load_published_weights(self, model: Model) -> None:
        """Load the published weights that the recipe names into a new model."""

    def as_model_sees(
        self, corpus: Corpus, split: Split, model: Model, hardware: Hardware
    ) -> Corpus:
        """The corpus as the model reads it, once it has its first weights."""
        return corpus

    def for_search(
        self, model: Model, source: Shaped[Tensor, "b ..."]
    ) -> tuple[Stepper, Int64[Tensor, "b s"]]:
        """The stepper and the tokens that a search takes for the source of a batch."""
        return model, source

    def form(self, recipe: Recipe) -> tuple[object, ...]:
        """The facts, beside vocabularies, that must be equal in the runs of an ensemble."""
        return (self.name,)

    def requests(
        self, run: LoadedRun, name: str, read_lines: ReadLines, tell: Tell
    ) -> Iterator[str]:
        """The requests in a file that the caller names.

        These are its lines; of a file with references, the source in each line.
        """
        train, path = run.loaded.recipe.data.train, Path(name)
        found = None if name == "-" else input_format.sources_of_file(run.loaded.recipe, path)
        if found is not None:
            if input_format.is_read_as_trained(train, path):
                tell(input_format.max_words_note(train))
            yield from found
            return
        told = set[str | None]()
        where = "standard input" if name == "-" else name
        for number, line in enumerate(read_lines(name), 1):
            has_columns = name != "-" and input_format.ending(path) == "tsv" and "\t" in line
            given = line.partition("\t")[0] if has_columns else line
            text = input_format.text_of_line(train, given, f"{where}, line {number}")
            unread = input_format.BEFORE_TAB if has_columns else input_format.unread_note(train)
            if text is not line and unread not in told:
                told.add(unread)
                tell(unread)
            yield text

    def typed(self, recipe: Recipe, text: str, where: str, tell: Tell) -> str:
        """The request that the caller typed; of a JSON object, the source in it."""
        found = input_format.text_of_line(recipe.data.train, text, where)
        if found is not text:
            tell(input_format.unread_note(recipe.data.train))
        return found

    def check_any_readable(self, recipe: Recipe, typed: Sequence[str]) -> None:
        """Refuse requests of which none can be read; texts always can."""

    def title(self, source: str) -> str:
        """The name of a source on pages, which hides the paths of files."""
        return source
