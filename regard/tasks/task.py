"""Task: what a run is for. Callers use these methods instead of checks of the task's kind.

    recipe      the settings that it needs, and those that have no effect
    data        how a split becomes a corpus, and texts become what the model reads
    requests    how they are answered, and which options they take
    looking     how an input is looked at
    scores      which metrics are default, and which are meaningless
    words       how an answer prints, what to offer as examples

The defaults are those of a task that reads texts and searches for answers: a new task overrides
only what differs, and is registered by one line of `regard.tasks.TASKS`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from regard.data import GENERATORS, Corpus, Example
from regard.data.examples import in_form
from regard.data.parsed_words import PARSED_WORDS
from regard.data.subwords import Subwords
from regard.decoding import Search
from regard.errors import RecipeError, SettingError
from regard.evaluating.metrics import OF_TEXTS, Measures
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.record import Record
from regard.recipes.recipe import Recipe
from regard.tasks import searched_texts
from regard.tasks.input_format import form_name, normalised_text
from regard.tasks.loaded_run import LoadedRun
from regard.tasks.looks import LookRequest, ShownLook, Waiting, checked_view, counted_words, shown
from regard.tasks.predictions import (
    AnswerOptions,
    Prediction,
    ReadOnlyAnswers,
    Request,
    answer_line,
    n_best_lines,
    unseen_words_note,
)
from regard.tasks.samples import WordLooks, strongest_links
from regard.tasks.sources import SourceType

METRICS_BY_READER: Mapping[str, Sequence[str]] = {
    "conllu": ("accuracy", "labels", "exact", "loss"),
    "documents": ("rouge", "ratio", "loss"),
    "running_text": ("words", "loss"),
}
"""Default metrics of texts that are not translations, by the reader of the data."""
VERBS_BY_READER: Mapping[str, str] = {"conllu": "Tag", "documents": "Summarise"}
"""What a run that writes texts does, where the reader of its data tells."""
METRICS_OF_LOSS = ("loss", "words", "lengths", "cache")
METRICS_WITHOUT_ANSWERS = frozenset({*METRICS_OF_LOSS, "pointing"})
"""Metrics of the references under the model, for which no answers are decoded."""
USUAL_MAX_TOKENS = 300
NO_CACHE = "it scores running text, which only a language model continues"
NO_POINTING = "it is played on pictures, in which the boxes of a caption's words are known"


class Task:
    """What a run is for."""

    does: str = "answers texts"
    """What a run of this task does, as a phrase in errors."""
    sources: SourceType = SourceType()
    """What the model reads."""
    needs_kind: str | None = None
    """The only kind of model that can learn it, if there is one."""
    is_searched: bool = True
    """Whether answers are found by a search; otherwise one pass over the text gives them."""
    has_free_length: bool = True
    """Whether answers have a length of their own, which a limit can cut."""
    how_answered: str | None = None
    """How answers are found without a search, in words."""
    why_no_search: str | None = None
    """Why options of a search have no effect, in words."""
    loss_unit: str = "sub-word"
    """The unit over which the loss is averaged."""
    meaningless: Mapping[str, str] = {"cache": NO_CACHE, "pointing": NO_POINTING}
    """Metrics that are meaningless for a run of this task, and why."""
    answers_whole: bool = False
    """Whether an answer is right or wrong as a whole, as a label of several words is."""
    has_probabilities: bool = False
    """Whether every possible answer has a probability that can be shown."""
    labels_words: bool = False
    """Whether an answer is one label for each word of a text."""
    hides_words: bool = False
    """Whether words of a text may be hidden, so that its vocabulary needs a mask piece."""

    def verb(self, recipe: Recipe) -> str:
        """What a run does to an input, as the name of the studio's view: "Translate"."""
        return VERBS_BY_READER.get(recipe.data.train.name, "Translate")

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuse a recipe by which this task cannot be learned."""
        if self.needs_kind not in (None, recipe.model.kind):
            raise RecipeError(
                f"model.task = '{recipe.model.task}' needs model.kind = '{self.needs_kind}', got "
                f"'{recipe.model.kind}'. Take such a model, or leave model.task out."
            )
        if recipe.model.source_type != self.sources.name:
            raise RecipeError(
                f"model.task = '{recipe.model.task}' reads {self.sources.name}, but a model of "
                f"kind '{recipe.model.kind}' reads {recipe.model.source_type}. Leave model.task "
                "out."
            )

    def with_special_pieces(self, learned: Subwords) -> Subwords:
        """A vocabulary, with a piece for hidden words if the task has them."""
        return learned.with_mask() if self.hides_words else learned

    def check_corpus(self, recipe: Recipe, corpus: Corpus, rows: np.ndarray, name: str) -> None:
        """Refuse rows that the task cannot learn from; errors call them `name`."""

    def read_text(self, recipe: Recipe, text: str) -> str:
        """A text normalised as the training data are."""
        return normalised_text(recipe, text)

    def as_trained(self, recipe: Recipe, examples: Iterable[Example]) -> list[Example]:
        """Examples normalised as the training data are."""
        return list(in_form(form_name(recipe), examples))

    def plan_notes(self, recipe: Recipe) -> Iterator[str]:
        """Notes on this task for a plan, beside its figures."""
        return iter(())

    def request_words(self, example: str) -> tuple[str, ...]:
        """The words behind `regard predict RUN` that ask for an example."""
        return ("--text", example)

    def is_blank(self, run: LoadedRun, text: str) -> bool:
        """Whether a request is blank and gets an empty answer."""
        return not text.strip()

    def answer_each(
        self, run: LoadedRun, requests: Sequence[Request], options: AnswerOptions
    ) -> Iterator[tuple[int, Prediction]]:
        """Answers as they come, each with the place of its request."""
        return searched_texts.answer_each(
            run, requests, options, stays_whole=self.stays_whole(run.loaded.recipe)
        )

    def stream(self, run: LoadedRun, request: Request, search: Search) -> Iterator[str]:
        """The answer to a request in parts, each as soon as it is known."""
        return searched_texts.stream(run, request, search)

    def stays_whole(self, recipe: Recipe) -> bool:
        """Whether a text cannot be answered in pieces; a parsed text cannot."""
        return recipe.tokens.kind == PARSED_WORDS.name

    def check_alone(self, others: Sequence[object]) -> None:
        """Refuse the other runs of an ensemble, if the task has no ensembles."""

    def has_failed(self, answer: Prediction) -> bool:
        """Whether a prediction is empty because its input could not be read."""
        return False

    def answers_read_off(self, run: LoadedRun, text: str, search: Search) -> ReadOnlyAnswers:
        """Answers of a task that is not searched, by one pass over the text."""
        raise NotImplementedError(f"{type(self).__name__} searches for its answers.")

    def look(self, run: LoadedRun, text: str, target: str | None, search: Search | None) -> Record:
        """Every weight with which a text was answered; `target` is an answer to look at instead."""
        run.check_length(Request(text))
        if target is None:
            return self.look_at_own(run, text, search)
        return run.read_over(run.read(text), run.answer_tokens(target))

    def look_at_own(self, run: LoadedRun, text: str, search: Search | None) -> Record:
        """Every weight with which the run's own answer was written."""
        return searched_texts.look_at_answer(run, text, search or run.default_search())

    def look_at_picture(
        self, run: LoadedRun, address: str, target: str | None, search: Search | None
    ) -> CaptionRecord:
        """Where each word of a picture's caption looked."""
        raise SettingError(
            "look: this run reads texts, but a picture was given. Give it a text to read."
        )

    def inputs_of(
        self, typed: Sequence[str], one_text: Callable[[Sequence[str]], str]
    ) -> list[str]:
        """The inputs of `regard look`; `one_text` reads a text, from standard input too."""
        return [one_text(typed)]

    def shown_look(self, run: LoadedRun, request: LookRequest, waiting: Waiting) -> ShownLook:
        """How `regard look` shows an input; impossible views are refused before the search."""
        (text,) = request.inputs
        view = checked_view(request, run.loaded.model)
        with waiting(f"looking at {counted_words(text)}"):
            record = self.look(run, text, request.target, request.search)
        notes = filter(None, (record.note, unseen_words_note(run.unseen_words(text))))
        record = replace(record, note="; ".join(notes) or None)
        return shown(record, view, has_grid=request.has_grid)

    def sample_of(self, source: str, reference: str) -> tuple[str, str]:
        """An example of the data as a request, and the answer that is wanted."""
        return source, reference

    def sample_answer(self, run: LoadedRun, text: str, search: Search) -> str:
        """The answer to a request of a sample."""
        ((_, answer),) = self.answer_each(run, [Request(text)], AnswerOptions(search))
        return answer.text

    def sample_links(
        self, run: LoadedRun, text: str, answer: str, search: Search
    ) -> tuple[WordLooks, ...]:
        """What the words of an answer looked at, the strongest links of each."""
        given = answer if run.loaded.model.reads_answers else None
        return strongest_links(self.look(run, text, given, search))

    def default_metrics(self, recipe: Recipe) -> Sequence[str]:
        """The default metrics, by the reader of the training data."""
        translations = ("bleu", "chrf", "ter", "exact", "ratio", "loss")
        return METRICS_BY_READER.get(recipe.data.train.name, translations)

    def measures(self, recipe: Recipe) -> Measures:
        """The measures by which `regard compare` compares runs."""
        return OF_TEXTS

    def is_scored_by_answers(self, recipe: Recipe) -> bool:
        """Whether the default metrics need decoded answers."""
        return not METRICS_WITHOUT_ANSWERS.issuperset(self.default_metrics(recipe))

    def validation_scores(self, recipe: Recipe) -> Sequence[str]:
        """The scores of decoded answers at a validation, beside exact match: the usual metrics.

        Generated texts have one right answer, of which exact match says all.
        """
        is_generated = recipe.data.train.name in GENERATORS
        usual = () if is_generated else self.default_metrics(recipe)
        return [name for name in ("accuracy", "rouge", "bleu") if name in usual]

    def check_metrics(self, recipe: Recipe, metrics: Sequence[str], known: Iterable[str]) -> None:
        """Refuse metrics that are meaningless for the task; `known` are all metrics."""
        usual = self.default_metrics(recipe)
        suited = [*usual, *(one for one in known if one not in {*self.meaningless, *usual})]
        for name in metrics:
            if name in self.meaningless:
                raise SettingError(
                    f"evaluate: {name} has no meaning for a run that {self.does}: "
                    f"{self.meaningless[name]}. Take --metrics of {', '.join(suited)}."
                )

    def check_can_answer(self, examples: Sequence[Example], who: str, remedy: str) -> None:
        """Refuse to score examples that need no answer; errors name `who` scores them.

        `remedy` is the alternative that the error names, besides giving other texts.
        """

    def check_references(self, run: LoadedRun, examples: Sequence[Example], who: str) -> None:
        """Refuse references that no answer of the run can be; errors name `who` scores them."""

    def loss_note(self, examples: Sequence[Example]) -> str:
        """A note for readers of the loss."""
        return ""

    def notes_on(self, run: LoadedRun, examples: Sequence[Example]) -> Iterator[str]:
        """Notes on examples that are scored, for the reader of the scores."""
        return iter(())

    def answer_line(self, answer: Prediction) -> str:
        """An answer as `regard predict` prints it."""
        return answer_line(answer)

    def n_best_lines(self, number: int, answer: Prediction) -> str:
        """All answers to a request as `regard predict --n-best` prints them."""
        return n_best_lines(number, answer)

    def as_example(self, recipe: Recipe, text: str) -> str:
        """A text of the run's data as a request that can be tried."""
        return text

    def usual_max_tokens(self, recipe: Recipe) -> int:
        """The default limit of an answer that a reader waits for, in tokens.

        Without it the limit grows with the text, and the answer to a document takes long.
        """
        return USUAL_MAX_TOKENS

    def takes_any_text(self, recipe: Recipe) -> bool:
        """Whether any sentence can be tried; a run on parsed texts needs sentences with trees."""
        return self.sources.name == "texts" and recipe.tokens.kind != PARSED_WORDS.name
