"""A run's evaluation: texts → answers → scores, speed, links, and notes on what was done.

`regard evaluate` prints it, and `regard.load(RUN).evaluate()` gives it back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

from regard.choices import find
from regard.data import Example
from regard.decoding.beam import DEFAULT_BEAM_WIDTH
from regard.decoding.length_penalties import DEFAULT_ALPHA
from regard.errors import DataError, SettingError, counted
from regard.evaluating import MetricScore
from regard.evaluating.label_counts import LabelCounts
from regard.progress import counting
from regard.recipes.decoding_recipe import DecodingRecipe
from regard.runs import evaluation
from regard.runs.alignment import AlignmentErrors, align, read_gold
from regard.runs.dictionaries import dictionary_of
from regard.runs.evaluation_texts import places_of_short
from regard.runs.trained import Trained
from regard.tasks.input_format import form_name
from regard.tasks.predictions import AnswerOptions
from regard.tasks.task import METRICS_OF_LOSS, METRICS_WITHOUT_ANSWERS
from regard.training.events import finite

DIGITS = {"loss": 4, "length ratio": 3}
"""Digits behind the point, where two are too few."""


@dataclass(frozen=True)
class GoldLinkFile:
    """A file of word links that people drew, and how it counts words."""

    path: Path
    kind: str | None = None
    first: int | None = None
    is_swapped: bool = False


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """How texts are chosen and answered, and by what the answers are scored."""

    metrics: Sequence[str] | None = None
    """Names of `EVALUATE_METRICS`; those that suit what the run learned from unless given."""
    beam: int = DEFAULT_BEAM_WIDTH
    length_penalty: float = DEFAULT_ALPHA
    max_tokens: int | None = None
    tokenizer: str | None = None
    on_long: str = "error"
    max_source_words: int | None = None
    max_target_words: int | None = None
    replaces_unknown: bool = False
    gold: GoldLinkFile | None = None
    wants_answers: bool = False
    """Whether texts are answered even where no metric reads the answers."""

    def chosen_metrics(self, trained: Trained) -> list[str]:
        """The metrics, checked to have a meaning for the run."""
        recipe, known = trained.loaded.recipe, evaluation.EVALUATE_METRICS
        if isinstance(self.metrics, str):
            raise SettingError(
                f"evaluate: metrics must be a list of names. Write [{self.metrics!r}]."
            )
        for name in self.metrics or ():
            find(name, known, key="evaluate: metrics")
        chosen = list(self.metrics or trained.task.default_metrics(recipe))
        trained.task.check_metrics(recipe, chosen, known)
        return chosen

    def needs_answers(self, chosen: Sequence[str]) -> bool:
        """Whether texts have to be answered."""
        return self.wants_answers or not METRICS_WITHOUT_ANSWERS.issuperset(chosen)


@final
@dataclass(frozen=True)
class EvaluationReport:
    """The scores of a run on some texts, with all that others need to compute them again."""

    run: Path
    texts: str
    """Which texts: a split, or their files."""
    sentences: int
    search: str | None
    """How they were answered; None if nothing was."""
    scores: tuple[MetricScore, ...]
    speed: dict[str, float | int | str] | None
    aligned: AlignmentErrors | None
    notes: tuple[str, ...]
    answers: tuple[str, ...] = ()
    """The run's answers, in the order of the texts."""
    labels: LabelCounts | None = None
    """How often each label was answered by each, if labels are scored."""

    def __repr__(self) -> str:
        scores = ", ".join(self.score_texts()) or "no scores"
        return f"EvaluationReport({self.texts}, {counted(self.sentences, 'sentence')}: {scores})"

    def score_texts(self) -> Iterator[str]:
        """Each score's name and number."""
        for one in self.scores:
            yield f"{one.name} {one.value:.{DIGITS.get(one.name, 2)}f}"

    def as_json(self) -> dict[str, Any]:
        """All but the answers as plain data."""
        return {
            "run": str(self.run),
            "texts": self.texts,
            "sentences": self.sentences,
            "search": self.search,
            "scores": [finite(asdict(one)) for one in self.scores],
            "speed": self.speed,
            "alignment": None if self.aligned is None else self.aligned.as_json(),
            "labels": None if self.labels is None else self.labels.as_json(),
            "notes": list(self.notes),
        }


def evaluate(
    trained: Trained, given: Sequence[Example], texts: str, settings: EvaluationSettings
) -> EvaluationReport:
    """Answer texts and score the answers; `texts` is how the report calls them."""
    chosen, task, recipe = settings.chosen_metrics(trained), trained.task, trained.loaded.recipe
    limits = trained.limits(settings.max_tokens, "evaluate", "max_tokens")
    search = evaluation.search_for(
        trained, beam=settings.beam, length_penalty=settings.length_penalty, limits=limits
    )
    is_decoded = settings.needs_answers(chosen)
    places = places_of_short(
        given,
        max_source_words=settings.max_source_words,
        max_target_words=settings.max_target_words,
    )
    examples = task.as_trained(recipe, (given[place] for place in places))
    evaluation.check_has_scenes(examples, settings.metrics or ())
    if is_decoded:
        who = f"evaluate: --metrics {','.join(chosen)} (or --out)"
        remedy = "take --metrics loss, for which words are hidden at random"
        task.check_can_answer(examples, who, remedy)
        evaluation.check_has_sources(
            examples, who, "take --metrics words,loss, which need no answers"
        )
    task.check_references(trained, examples, "evaluate: this run")
    notes: list[str] = []
    if len(places) < len(given):
        notes.append(
            f"{len(given) - len(places):,} of {len(given):,} texts have more words than asked for "
            "and do not count"
        )
    if (form := form_name(recipe)) is not None:
        notes.append(f"texts and references are in the form '{form}', as the training data are")
    notes += task.notes_on(trained, examples)
    # before the long search, so that a wrong file is reported early
    aligned = None if settings.gold is None else _aligned(trained, given, places, settings.gold)
    answers, speed = None, None
    if is_decoded:
        dictionary = dictionary_of(trained, counting) if settings.replaces_unknown else None
        if dictionary is not None:
            notes.append(
                f"unknown words are replaced by a dictionary of {len(dictionary):,} words, or "
                "copied"
            )
        answering = AnswerOptions(search, on_long=settings.on_long, dictionary=dictionary)
        with counting("decoding", len(examples)) as each:
            sources = [one.source for one in examples]
            answers = evaluation.answer(trained, sources, answering, each=each)
        notes += answers.notes
        speed = _speed(trained, answers)
    written = () if answers is None else answers.texts
    scored = evaluation.ScoredAnswers(trained, examples, written, settings.tokenizer)
    by_name = evaluation.score_each(scored, chosen)
    scores = tuple(one for found in by_name.values() for one in found)
    if not scores and answers is None and aligned is None:
        raise DataError(
            f"evaluate: there is nothing to score: no text of {len(examples):,} has a token "
            f"that is asked for and fits into the {trained.longest:,} that the model reads "
            "(model.max_len, the end token counted). Give texts that are neither empty nor longer."
        )
    notes += [
        f"{name}: no text has a token that is asked for and fits into the {trained.longest:,} that "
        "the model reads"
        for name in METRICS_OF_LOSS
        if not by_name.get(name, True)
    ]
    if aligned is not None and aligned.without_gold:
        notes.append(
            f"{aligned.without_gold:,} of {aligned.sentences:,} sentences have no gold link; every "
            "link in them counts as wrong"
        )
    how = task.how_answered or _how_searched(settings, recipe.decoding)
    return EvaluationReport(
        run=trained.path,
        texts=texts,
        sentences=len(examples),
        search=None if answers is None else how,
        scores=scores,
        speed=speed,
        aligned=aligned,
        notes=tuple(notes),
        answers=written,
        labels=scored.labels if "labels" in by_name else None,
    )


def _aligned(
    trained: Trained, given: Sequence[Example], places: Sequence[int], gold: GoldLinkFile
) -> AlignmentErrors:
    golds = read_gold(
        gold.path,
        sentences=len(given),
        kind=gold.kind,
        first=gold.first,
        is_swapped=gold.is_swapped,
    )
    with counting("aligning", len(places)) as each:
        return align(trained, given, golds, places=places, each=each)


def _speed(trained: Trained, answers: evaluation.Answers) -> dict[str, float | int | str]:
    return {
        "seconds": answers.seconds,
        "tokens": answers.tokens,
        "sentences_per_second": answers.sentences_per_second,
        "tokens_per_second": answers.tokens_per_second,
        "device": str(trained.hardware.device),
        "precision": str(trained.hardware.precision).removeprefix("torch."),
        "engine": trained.engine_name,
        "search": trained.searches,
    }


def _how_searched(settings: EvaluationSettings, decoding: DecodingRecipe) -> str:
    beam = settings.beam
    how = "greedy" if beam == 1 else f"beam {beam}, length penalty {settings.length_penalty:g}"
    if decoding.repetition_penalty > 1:
        how += f", repetition penalty {decoding.repetition_penalty:g}"
    if decoding.no_repeated_ngrams:
        how += f", no repeated {decoding.no_repeated_ngrams}-grams"
    return how + ("" if settings.max_tokens is None else f", at most {settings.max_tokens} tokens")
