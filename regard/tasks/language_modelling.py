"""Language modelling: a model goes on with a text, or writes one after reading another."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import final

from regard.decoding import Search
from regard.errors import SettingError
from regard.models import LanguageModel, LanguageSpec
from regard.models.language.cache_sizes import cache_size_note
from regard.models.language.rows import ROWS
from regard.recipes.recipe import Recipe
from regard.tasks.loaded_run import LoadedRun
from regard.tasks.samples import WordLooks, strongest_links
from regard.tasks.task import NO_CACHE, NO_POINTING, Task

EXAMPLE_WORDS = 16
"""How many words of a running text are offered to go on with."""
CONTINUED_TOKENS = 24
"""How far a text is continued unless more is asked for."""


def _goes_on(recipe: Recipe) -> bool:
    spec = recipe.model
    return isinstance(spec, LanguageSpec) and ROWS[spec.rows].continues_source


@final
class LanguageModelling(Task):
    """A model reads and writes one row of tokens."""

    meaningless: Mapping[str, str] = {"pointing": NO_POINTING}

    def verb(self, recipe: Recipe) -> str:
        """A model that goes on with texts continues them; another writes one after reading one."""
        return "Continue" if _goes_on(recipe) else super().verb(recipe)

    def as_example(self, recipe: Recipe, text: str) -> str:
        """The end of a long text to go on with."""
        return " ".join(text.split()[-EXAMPLE_WORDS:]) if _goes_on(recipe) else text

    def usual_max_tokens(self, recipe: Recipe) -> int:
        """A model that goes on with texts may never end one."""
        return CONTINUED_TOKENS if _goes_on(recipe) else super().usual_max_tokens(recipe)

    def is_blank(self, run: LoadedRun, text: str) -> bool:
        """A model that goes on with texts begins one where a text is blank."""
        model = run.loaded.model
        goes_on = isinstance(model, LanguageModel) and model.continues_source
        return super().is_blank(run, text) and not goes_on

    def sample_of(self, source: str, reference: str) -> tuple[str, str]:
        """A text without a source is begun by its own first half."""
        if source.strip():
            return source, reference
        words = list(re.finditer(r"\S+", reference))
        middle = words[len(words) // 2].start() if words else 0
        return reference[:middle].rstrip(), reference[middle:]

    def sample_links(
        self, run: LoadedRun, text: str, answer: str, search: Search
    ) -> tuple[WordLooks, ...]:
        """What each word of the continuation looked at, in the text and in the words before it."""
        return strongest_links(self.look(run, text, answer, search), ("cross", "decoder"))

    def check_metrics(self, recipe: Recipe, metrics: Sequence[str], known: Iterable[str]) -> None:
        """Refuse a cache where no text is gone on with, and what is meaningless for all."""
        super().check_metrics(recipe, metrics, known)
        if "cache" in metrics and not _goes_on(recipe):
            raise SettingError(
                f"evaluate: cache has no meaning for a run that {self.does}: {NO_CACHE}. Leave it "
                "out of --metrics, or take model.rows = 'running'."
            )

    def plan_notes(self, recipe: Recipe) -> Iterator[str]:
        """How much the model remembers while it writes."""
        if isinstance(recipe.model, LanguageSpec):
            yield cache_size_note(recipe.model)
