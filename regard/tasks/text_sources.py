"""Sources that are texts: both sides are sub-words, and files are read as the run's data were."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import final

from jaxtyping import Int64, Shaped
from torch import Tensor

from regard.data import Corpus, Example, write_corpus
from regard.data.corpus import Numbering
from regard.data.normalisation import in_form
from regard.data.tree_ids import for_files
from regard.hardware.hardware import Hardware
from regard.models import Model, Stepper
from regard.recipes.recipe import Recipe
from regard.tasks.input_format import (
    BEFORE_TAB,
    cut_like,
    holds_columns,
    is_read_as_trained,
    sources_like,
    text_like,
    unread_like,
)
from regard.tasks.ready_run import ReadyRun
from regard.tasks.sources import ReadExamples, ReadLines, Split, Tell


@final
class TextSources:
    """Sources are texts."""

    name = "texts"
    has_lengths = True

    def texts_for_vocabulary(self, example: Example) -> tuple[str, ...]:
        """Both sides."""
        return (example.source, *example.targets)

    def normalised(self, name: str | None, examples: Iterable[Example]) -> Iterator[Example]:
        """Examples with both sides normalised."""
        return in_form(name, examples)

    def write(
        self, path: Path, split: Split, read: ReadExamples, source: Numbering, target: Numbering
    ) -> None:
        """Write both sides as sub-words."""
        write_corpus(path, read(), for_files(source), for_files(target))

    def open(self, path: Path, split: Split) -> Corpus:
        """The corpus that was written."""
        return Corpus.open(path)

    def slow_steps(self, folder: Path, model: Model | None) -> Iterator[str]:
        """Texts need no preparation that takes long."""
        return iter(())

    def notes(self, split: Split) -> Iterator[str]:
        """Every text is used, so there is nothing to tell."""
        return iter(())

    def load_published_weights(self, model: Model) -> None:
        """No model that reads texts starts from published weights here; imports make runs."""

    def as_model_sees(
        self, corpus: Corpus, split: Split, model: Model, hardware: Hardware
    ) -> Corpus:
        """The corpus itself: a model reads the sub-words that it holds."""
        return corpus

    def for_search(
        self, model: Model, source: Shaped[Tensor, "b ..."]
    ) -> tuple[Stepper, Int64[Tensor, "b s"]]:
        """The model and the tokens of the batch."""
        return model, source

    def form(self, recipe: Recipe) -> tuple[object, ...]:
        """Texts of all runs are alike once their vocabularies are."""
        return (self.name,)

    def requests(
        self, run: ReadyRun, name: str, read_lines: ReadLines, tell: Tell
    ) -> Iterator[str]:
        """The lines of a file; of a file with references what the run would read of each line."""
        train, path = run.loaded.recipe.data.train, Path(name)
        found = None if name == "-" else sources_like(run.loaded.recipe, path)
        if found is not None:
            cut = cut_like(train) if is_read_as_trained(train, path) else None
            if cut is not None:
                tell(cut)
            yield from found
            return
        told: set[str | None] = {None}
        where = "standard input" if name == "-" else name
        for number, line in enumerate(read_lines(name), 1):
            has_columns = name != "-" and holds_columns(path) and "\t" in line
            given = line.partition("\t")[0] if has_columns else line
            text = text_like(train, given, f"{where}, line {number}")
            unread = BEFORE_TAB if has_columns else unread_like(train)
            if text is not line and unread is not None and unread not in told:
                told.add(unread)
                tell(unread)
            yield text

    def typed(self, recipe: Recipe, text: str, where: str, tell: Tell) -> str:
        """The typed text; of a JSON object what a run reads that learned from such."""
        found = text_like(recipe.data.train, text, where)
        unread = unread_like(recipe.data.train)
        if found is not text and unread is not None:
            tell(unread)
        return found

    def is_blank(self, request: str) -> bool:
        """Whether a text has no characters but spaces."""
        return not request.strip()

    def title(self, source: str) -> str:
        """The text itself."""
        return source
