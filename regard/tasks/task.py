"""Task: what a run is for. Whatever differs between tasks is asked here, and nowhere by kind.

    recipe      what it needs, and what means nothing for it
    data        how a split becomes a corpus, and texts become what the model reads
    requests    how they are answered, and which options they take
    looking     how an input is looked at
    scores      which metrics are usual, and which mean nothing
    words       how an answer prints, what to offer as examples

The defaults are those of a task that reads texts and searches for answers: a new task says only
what it does otherwise, and is reached by one line of `regard.tasks.TASKS`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from regard.data import Corpus, Example
from regard.data.parsed_words import PARSED_WORDS
from regard.data.subwords import Subwords
from regard.decoding import Search
from regard.errors import SettingError
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.record import Record
from regard.inspecting.text_record import check_reads_answers
from regard.recipes.recipe import Recipe
from regard.tasks import searched_texts
from regard.tasks.looks import Looks
from regard.tasks.normalisation import form_name, normalised_text
from regard.tasks.predictions import (
    AnswerOptions,
    Prediction,
    ReadOnlyAnswers,
    Request,
    n_best_lines,
)
from regard.tasks.ready_run import ReadyRun
from regard.tasks.sources import SourceType
from regard.tasks.text_looks import TextLooks
from regard.tasks.text_sources import TextSources

METRICS_OF_LOSS = ("loss", "words", "lengths")
METRICS_WITHOUT_ANSWERS = frozenset({*METRICS_OF_LOSS, "pointing"})
"""Scores that ask how a run takes the references, and for which no answer is searched."""
NO_POINTING = "it is played on pictures, in which the boxes of a caption's words are known"


class Task:
    """What a run is for."""

    does: str = "answers texts"
    """What a run of this task does, as errors say it."""
    sources: SourceType = TextSources()
    """What the model reads."""
    looks: Looks = TextLooks()
    """How `regard look` shows an input."""
    is_searched: bool = True
    """Whether answers are found by a search; otherwise one pass over the text gives them."""
    has_free_length: bool = True
    """Whether answers have a length of their own, which a limit can cut."""
    how_answered: str | None = None
    """How answers are found, in words, where no search finds them."""
    why_no_search: str | None = None
    """Why options of a search mean nothing, in words."""
    loss_unit: str = "sub-word"
    """What the loss is counted by."""
    meaningless: Mapping[str, str] = {"pointing": NO_POINTING}
    """Metrics that say nothing about a run of this task, and why."""
    n_special_pieces: int = 0
    """How many pieces of a vocabulary the task adds to those that are learned."""

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuse a recipe by which this task cannot be learned."""

    def with_special_pieces(self, learned: Subwords) -> Subwords:
        """A vocabulary with the pieces that the task adds."""
        return learned

    def check_corpus(self, recipe: Recipe, corpus: Corpus, rows: np.ndarray, name: str) -> None:
        """Refuse rows that the task cannot learn from; `name` is what an error calls them."""

    def read_text(self, recipe: Recipe, text: str) -> str:
        """A text normalised as the training data are."""
        return normalised_text(recipe, text)

    def as_trained(self, recipe: Recipe, examples: Iterable[Example]) -> list[Example]:
        """Examples normalised as the training data are."""
        return list(self.sources.normalised(form_name(recipe), examples))

    def plan_notes(self, recipe: Recipe) -> Iterator[str]:
        """What a plan should say about this task beside its figures."""
        return iter(())

    def is_blank(self, run: ReadyRun, text: str) -> bool:
        """Whether a request has nothing to answer."""
        return self.sources.is_blank(text)

    def answer_each(
        self, run: ReadyRun, requests: Sequence[Request], options: AnswerOptions
    ) -> Iterator[tuple[int, Prediction]]:
        """Answers as they come, each with the place of its request."""
        return searched_texts.answer_each(
            run, requests, options, stays_whole=self.stays_whole(run.loaded.recipe)
        )

    def stays_whole(self, recipe: Recipe) -> bool:
        """Whether a text cannot be answered in pieces; a tree has none."""
        return recipe.tokens.kind == PARSED_WORDS.name

    def check_alone(self, others: Sequence[object]) -> None:
        """Refuse other runs that should answer along where an ensemble means nothing."""

    def has_failed(self, answer: Prediction) -> bool:
        """Whether an answer stands for an input that could not be read."""
        return False

    def answers_read_off(self, run: ReadyRun, text: str, search: Search) -> ReadOnlyAnswers:
        """Answers of a task that is not searched, by one pass over the text."""
        raise NotImplementedError(f"{type(self).__name__} searches for its answers.")

    def look(self, run: ReadyRun, text: str, target: str | None, search: Search | None) -> Record:
        """Every weight with which a text was answered; `target` is an answer to look at instead."""
        run.check_length(Request(text))
        if target is None:
            return self.look_at_own(run, text, search)
        check_reads_answers(run.loaded.model)
        return run.read_over(run.read(text), run.answer_tokens(target))

    def look_at_own(self, run: ReadyRun, text: str, search: Search | None) -> Record:
        """Every weight with which the run's own answer was written."""
        return searched_texts.look_at_answer(run, text, search or run.default_search())

    def look_at_picture(
        self, run: ReadyRun, address: str, target: str | None, search: Search | None
    ) -> CaptionRecord:
        """Where each word of a picture's caption looked."""
        raise SettingError(
            "look: this run reads texts, but a picture was given. Give it a text to read."
        )

    def default_metrics(self, recipe: Recipe) -> Sequence[str]:
        """What is scored unless the caller chooses."""
        return ("bleu", "chrf", "ter", "exact", "ratio", "loss")

    def is_scored_by_answers(self, recipe: Recipe) -> bool:
        """Whether what is scored by default has to be decoded."""
        return not METRICS_WITHOUT_ANSWERS.issuperset(self.default_metrics(recipe))

    def check_metrics(self, recipe: Recipe, metrics: Sequence[str], known: Iterable[str]) -> None:
        """Refuse metrics that would be a false number, or none; `known` are all that there are."""
        usual = self.default_metrics(recipe)
        suited = [
            *usual, *(name for name in known if name not in {*self.meaningless, *usual})
        ]  # fmt: skip
        for name in metrics:
            if name in self.meaningless:
                raise SettingError(
                    f"evaluate: {name} has no meaning for a run that {self.does}: "
                    f"{self.meaningless[name]}. Take --metrics of {', '.join(suited)}."
                )

    def check_can_answer(self, examples: Sequence[Example], who: str, remedy: str) -> None:
        """Refuse to score answers to examples that ask for none.

        Args:
            examples: what the run would be asked.
            who: scores the answers, for errors.
            remedy: what else could be done, besides giving other texts.
        """

    def loss_note(self, examples: Sequence[Example]) -> str:
        """What a reader of the loss should know."""
        return ""

    def n_best_lines(self, number: int, answer: Prediction) -> str:
        """All answers to a request as `regard predict --n-best` prints them."""
        return n_best_lines(number, answer)

    def as_example(self, text: str) -> str:
        """A text of the run's data as a request that can be tried."""
        return text

    def takes_any_text(self, recipe: Recipe) -> bool:
        """Whether sentences that are not the run's own may be tried; no other has its tree."""
        return self.sources.name == "texts" and recipe.tokens.kind != PARSED_WORDS.name
