"""Validation: the loss, and what suits the task, on examples that training never learns from."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import final

import numpy as np

from regard.data.batches import Batch, collate
from regard.data.subword_kinds import UNKNOWN
from regard.data.subwords import Subwords
from regard.decoding import Rule, greedy
from regard.decoding.rules import ForcedPrefix
from regard.evaluating import bleu, exact_match
from regard.evaluating.accuracy import measured_token_accuracy
from regard.evaluating.rouge import measured_rouge
from regard.evaluating.score import TextLists, Texts
from regard.hardware.hardware import Hardware
from regard.models import Model
from regard.recipes.recipe import Recipe
from regard.recipes.training_recipe import TrainingRecipe
from regard.tasks import task_of
from regard.training.checkpoints import Progress
from regard.training.corpus_losses import summed_loss
from regard.training.events import Validated
from regard.training.loop import Material
from regard.training.preparation import Prepared

UNANSWERABLE = "\ue000"
"""Replaces unknown pieces in references; no answer contains it."""

FIRST_DECODED, AT_ONCE = (4, 32), 250
"""How many examples are decoded with the first batches, which tell the time, and with any later."""
MAX_CHOSEN_EXAMPLES = 1000
"""The most that the share of the time pays for; more are decoded where the recipe says so."""


def _accuracy(texts: Texts, references: TextLists) -> tuple[str, float]:
    return "accuracy", measured_token_accuracy(texts, references).score.value / 100


def _rouge(texts: Texts, references: TextLists) -> tuple[str, float]:
    return "rouge_l", measured_rouge(texts, references)[-1].score.value


SCORES: Mapping[str, Callable[[Texts, TextLists], tuple[str, float]]] = {
    "accuracy": _accuracy,
    "rouge": _rouge,
}
"""Scores of decoded answers beside exact match and BLEU, by the metric's name, each with its key
in `metrics.jsonl`: accuracy is a share, as exact match is, ROUGE-L is in per cent, as BLEU is."""
MIN_TOLD_S, TOLERANCE = 10.0, 1.25
"""Validations that take less together, or little more than their share, are not worth a note."""
PESSIMISM = 4
"""A large batch may take so many times as long as a small one before it is not tried."""
MAX_TIMED_BATCH_S = 1.0
"""A small batch that takes longer tells the time of a large one too."""
TIMED_BATCHES = 2
"""About how many batches are read to estimate the time of a validation."""


@final
@dataclass
class Best:
    """The best validations so far, under the names that a checkpoint has for them."""

    best_loss: float | None = None
    best_bleu: float | None = None
    best_step: int = 0
    stale: int = 0

    @classmethod
    def at(cls, progress: Progress) -> "Best":
        """The best validations at the time of a checkpoint."""
        return cls(progress.best_loss, progress.best_bleu, progress.best_step, progress.stale)

    def with_validation(self, found: Validated, stop_on: str) -> Validated:
        """Add a validation, and give it back with `is_best` set by the score of early stopping."""
        is_better = {
            "loss": self.best_loss is None or found.loss < self.best_loss,
            "bleu": found.bleu is not None
            and (self.best_bleu is None or found.bleu > self.best_bleu),
        }
        if is_better["loss"]:
            self.best_loss = found.loss
        if is_better["bleu"]:
            self.best_bleu = found.bleu
        is_best = is_better[stop_on]
        self.best_step, self.stale = (
            (found.step, 0) if is_best else (self.best_step, self.stale + 1)
        )
        return replace(found, is_best=is_best)


@final
class ValidationTime:
    """How long a validation may take, by the updates so far, and notes on how long it took."""

    def __init__(self, training: TrainingRecipe) -> None:
        self.training = training
        self.first = self.sum = 0.0
        self.count = 0

    def add(self, update_seconds: float) -> None:
        """Count an update; the first one warms up, and stands for others only while it is alone."""
        if not self.first:
            self.first = update_seconds
            return
        self.sum, self.count = self.sum + update_seconds, self.count + 1

    @property
    def per_update(self) -> float:
        """The mean time of an update."""
        return self.sum / self.count if self.count else self.first

    @property
    def seconds(self) -> float:
        """How long a validation may take by the recipe's share."""
        return self.training.validation_seconds(self.per_update)

    def note(self, found: Validated) -> str | None:
        """A note if validations as long as this one take more than their share."""
        return excess_note(self.training, self.per_update, found.seconds)


def excess_note(
    training: TrainingRecipe, seconds_per_update: float, seconds_per_validation: float
) -> str | None:
    """A note if validations take more of the time than their share, and are worth a word."""
    validating = training.n_validations * seconds_per_validation
    share = validating / (validating + training.steps * seconds_per_update)
    if validating < MIN_TOLD_S or share < TOLERANCE * training.validation_share:
        return None
    count = training.validate_examples
    fewer = "" if count is None else f", or lower training.validate_examples = {count}"
    return (
        f"validations take about {100 * share:.0f} % of the time, more than "
        f"training.validation_share = {training.validation_share:g}: raise "
        f"training.validate_every = {training.validate_every}{fewer}"
    )


def validate(
    model: Model,
    prepared: Prepared,
    hardware: Hardware,
    step: int,
    *,
    n_examples: int | None = None,
    seconds: float = math.inf,
) -> Validated:
    """Measure the model's scores, without dropout in it or in its texts.

    So many examples are decoded as the recipe says, else `n_examples`, else as many as `seconds`
    for the whole validation pay for, rounded down to 1, 2, 5, 10, 20, 50, …
    """
    start, recipe, valid = time.perf_counter(), prepared.recipe, prepared.valid
    is_decoded, limit = decodes_at_validation(recipe), recipe.training.target_tokens_per_batch
    with hardware.uncompiled():
        total, n_tokens = summed_loss(
            model, valid.corpus, target_tokens=limit, hardware=hardware, rows=valid.rows
        )
        hypotheses, references = list[str](), list[list[str]]()
        if is_decoded:
            count = recipe.training.validate_examples or n_examples
            left = seconds - (time.perf_counter() - start)
            hypotheses, references = decoded(model, prepared, hardware, count, left)
        named = task_of(recipe).validation_scores(recipe) if is_decoded else ()
        score = bleu(hypotheses, references) if _asks_for_bleu(recipe) else None
        others = [SCORES[name](hypotheses, references) for name in named if name in SCORES]
    # one pass over a text gives some of its words, which have other characters than all of them
    is_whole = task_of(recipe).is_searched
    return Validated(
        step=step,
        loss=total / n_tokens,
        per_character=total / _count_characters(valid, prepared.target) if is_whole else None,
        scores=dict(others),
        exact_match=exact_match(hypotheses, references) if is_decoded else None,
        is_best=False,
        decoded_examples=len(references) or None,
        bleu=None if score is None else score.value,
        signature=None if score is None else score.signature,
        seconds=time.perf_counter() - start,
    )


def decodes_at_validation(recipe: Recipe) -> bool:
    """Whether answers are decoded at a validation, for exact match or BLEU."""
    return _asks_for_bleu(recipe) or task_of(recipe).is_scored_by_answers(recipe)


def _asks_for_bleu(recipe: Recipe) -> bool:
    if recipe.training.stop_on == "bleu":
        return True
    asked = recipe.training.validate_bleu
    return "bleu" in task_of(recipe).validation_scores(recipe) if asked is None else asked


@final
@dataclass(frozen=True)
class ValidationCost:
    """What a validation takes, measured in parts where it is large."""

    loss: float
    """The seconds of the loss over the whole split."""
    batches: tuple[tuple[int, float], ...] = ()
    """The examples and seconds of a small batch that is decoded, and maybe of larger ones."""
    n_there: int = 0
    """How many examples there are to decode, at most as many as are ever chosen."""

    def chosen(self, training: TrainingRecipe, seconds: float) -> int:
        """How many examples a training decodes where a validation may take so many seconds."""
        if not self.batches or training.validate_examples is not None:
            return min(training.validate_examples or 0, self.n_there)
        return chosen_examples(self._batch_seconds, self.n_there, seconds - self.loss)

    def seconds(self, count: int) -> float:
        """How long a validation takes that decodes so many examples."""
        return self.loss + sum(self._batch_seconds(*place) for place in batch_places(count))

    def _batch_seconds(self, begin: int, end: int) -> float:
        sizes, times = zip(*self.batches, strict=True)
        larger = max(1.0, (end - begin) / sizes[-1])
        return larger * float(np.interp((end - begin) / larger, sizes, times))


def validation_cost(model: Model, prepared: Prepared, hardware: Hardware) -> ValidationCost:
    """Measure what a validation takes; answers are as long as the references.

    An untrained model ends its answers anywhere, so that the references themselves are written.
    """
    valid, training = prepared.valid, prepared.recipe.training
    limit = training.target_tokens_per_batch
    lengths, rows = valid.corpus.counted_lengths, valid.used
    sample = rows[:: 1 + int(lengths[rows].sum()) // (TIMED_BATCHES * limit)]
    with hardware.uncompiled():
        start = time.perf_counter()
        summed_loss(model, valid.corpus, target_tokens=limit, hardware=hardware, rows=sample)
        _count_characters(replace(valid, rows=sample), prepared.target)
        loss = time.perf_counter() - start
        loss *= int(lengths[rows].sum()) / int(lengths[sample].sum())
        if not decodes_at_validation(prepared.recipe):
            return ValidationCost(loss)
        firsts, _ = _first_rows(prepared, training.validate_examples or MAX_CHOSEN_EXAMPLES)
        batches: list[tuple[int, float]] = []
        for begin, end in batch_places(min(len(firsts), AT_ONCE)):
            # a large batch of long documents would take minutes
            if begin and batches[-1][1] > MAX_TIMED_BATCH_S:
                break
            start = time.perf_counter()
            batch = collate(valid.corpus, firsts[begin:end])
            _answers(model, prepared, hardware, batch, [ForcedPrefix(batch.target)])
            batches.append((end - begin, time.perf_counter() - start))
    return ValidationCost(loss, tuple(batches), len(firsts))


def _count_characters(material: Material, subwords: Subwords) -> int:
    """How many the target texts have, as they are read back from their sub-words; at least one."""
    targets = (material.corpus.target(row).tolist() for row in material.used.tolist())
    return max(1, sum(len(subwords.decode(ids)) for ids in targets))


def decoded(
    model: Model, prepared: Prepared, hardware: Hardware, count: int | None, seconds: float
) -> tuple[list[str], list[list[str]]]:
    """The first examples of the split, decoded greedily, with all their references.

    `count` of them, or, if it is None, as many as can be decoded in about so many seconds.
    """
    firsts, references = _first_rows(prepared, count or MAX_CHOSEN_EXAMPLES)
    known: dict[tuple[int, int], list[str]] = {}

    def answered(begin: int, end: int) -> float:
        """Decode a batch, and give back how long it took."""
        start = time.perf_counter()
        batch = collate(prepared.valid.corpus, firsts[begin:end])
        known[begin, end] = _answers(model, prepared, hardware, batch)
        return time.perf_counter() - start

    if count is None:
        count = chosen_examples(answered, len(firsts), seconds)
    answers: list[str] = []
    for place in batch_places(min(count, len(firsts))):
        if place not in known:
            answered(*place)
        answers += known[place]
    return answers, references[: len(answers)]


def chosen_examples(timed: Callable[[int, int], float], n_there: int, seconds: float) -> int:
    """How many of the examples that are there can be decoded in so many seconds.

    `timed` decodes those between two numbers and gives back its time. A large batch is timed only
    where a small one leaves time for it, since each takes about as many steps.
    """
    count, took = 0, 0.0
    for begin, end in batch_places(min(n_there, AT_ONCE)):
        if begin and PESSIMISM * took > seconds:
            break
        took = timed(begin, end)
        count = int((end - begin) * seconds / max(took, 1e-9))
    return n_there if count >= n_there else rounded_down(count)


def rounded_down(count: int) -> int:
    """1, 2, 5, 10, 20, 50, …: so that two runs on one machine choose alike.

    >>> [rounded_down(count) for count in (0, 1, 4, 7, 49, 230, 999)]
    [1, 1, 2, 5, 20, 200, 500]
    """
    power = 10 ** (len(str(count)) - 1)
    return max([1, *(digit * power for digit in (1, 2, 5) if digit * power <= count)])


def batch_places(count: int) -> list[tuple[int, int]]:
    """The first and the last number of each batch, the last excluded; the first ones are small.

    >>> batch_places(600)
    [(0, 4), (4, 32), (32, 250), (250, 500), (500, 600)]
    """
    edges = [0, *FIRST_DECODED, *range(AT_ONCE, count, AT_ONCE)]
    return list(pairwise([*(edge for edge in edges if edge < count), count]))


def _first_rows(prepared: Prepared, count: int) -> tuple[np.ndarray, list[list[str]]]:
    """The first row of each of so many examples, and all references of the example."""
    corpus, target = prepared.valid.corpus, prepared.target
    references: dict[int, list[str]] = {}
    first: dict[int, int] = {}
    for row in prepared.valid.used.tolist():
        example = int(corpus.examples[row])
        if example not in first and len(first) >= count:
            break
        # pieces that the vocabulary lacks can never be answered right
        text = target.decode(corpus.target(row).tolist()).replace(UNKNOWN, UNANSWERABLE)
        references.setdefault(example, []).append(text)
        first.setdefault(example, row)
    return np.array(list(first.values())), list(references.values())


def _answers(
    model: Model, prepared: Prepared, hardware: Hardware, batch: Batch, rules: Sequence[Rule] = ()
) -> list[str]:
    """The greedy answers of a batch."""
    model.eval()
    longest = min(int(side.max()) for side in (batch.source_lengths, batch.target_lengths))
    stepper, source = task_of(prepared.recipe).sources.for_search(model, hardware.put(batch.source))
    most = min(longest * 2 + 50, prepared.recipe.model.max_len)
    rules = rules or prepared.recipe.decoding.rules
    ids = greedy(stepper, source, max_tokens=most, rules=rules)
    return [prepared.target.decode(each) for each in ids]
