"""Validating: loss, exact match and BLEU on examples that training never learns from."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from regard.data.batches import Batch, collate
from regard.data.kinds import UNKNOWN
from regard.data.subwords import Subwords
from regard.decoding import Rule, greedy
from regard.decoding.rules import ForcedPrefix
from regard.evaluating import bleu, exact_match
from regard.hardware.hardware import Hardware
from regard.models import Model
from regard.recipes.recipe import Recipe
from regard.tasks import task_of
from regard.training.checkpoints import Progress
from regard.training.events import Validated
from regard.training.loop import Material, summed_loss
from regard.training.preparation import Prepared

UNANSWERABLE = "\ue000"
"""Stands in references for what the vocabulary does not know; no answer holds it."""

AT_ONCE = 250
"""How many examples are decoded together."""
TIMED_BATCHES = 2
"""About how many batches are read to see how long a validation takes."""


@final
@dataclass
class Best:
    """The best validations so far, by each measure, and how long ago the one that counts was."""

    stop_on: str
    """Which measure counts."""
    loss: float | None = None
    bleu: float | None = None
    step: int = 0
    stale: int = 0

    @classmethod
    def at(cls, progress: Progress, stop_on: str) -> "Best":
        """As it was when a checkpoint was written."""
        return cls(
            stop_on, progress.best_loss, progress.best_bleu, progress.best_step, progress.stale
        )

    def into(self, progress: Progress) -> Progress:
        """The progress with this in it."""
        return replace(
            progress,
            best_loss=self.loss,
            best_bleu=self.bleu,
            best_step=self.step,
            stale=self.stale,
        )

    def seen(self, found: Validated) -> Validated:
        """Take in a validation; it comes back with `is_best` set."""
        is_better = {
            "loss": self.loss is None or found.loss < self.loss,
            "bleu": found.bleu is not None and (self.bleu is None or found.bleu > self.bleu),
        }
        if is_better["loss"]:
            self.loss = found.loss
        if is_better["bleu"]:
            self.bleu = found.bleu
        is_best = is_better[self.stop_on]
        self.step, self.stale = (found.step, 0) if is_best else (self.step, self.stale + 1)
        return replace(found, is_best=is_best)


def validate(model: Model, prepared: Prepared, hardware: Hardware, step: int) -> Validated:
    """Measure what the model can do now; nothing is dropped out of it, nor out of its texts."""
    start, recipe, valid = time.perf_counter(), prepared.recipe, prepared.valid
    is_decoded = decodes_at_validation(recipe)
    with hardware.plainly():
        total, asked = summed_loss(
            model,
            valid.corpus,
            target_tokens=recipe.training.target_tokens_per_batch,
            hardware=hardware,
            rows=valid.rows,
        )
        hypotheses, references = decoded(model, prepared, hardware) if is_decoded else ([], [])
    score = bleu(hypotheses, references) if _asks_for_bleu(recipe) else None
    # one pass over a text gives some of its words, which have other characters than all of them
    is_whole = task_of(recipe).is_searched
    return Validated(
        step=step,
        loss=total / asked,
        per_character=total / characters(valid, prepared.target) if is_whole else None,
        exact_match=exact_match(hypotheses, references) if is_decoded else None,
        is_best=False,
        bleu=None if score is None else score.value,
        signature=None if score is None else score.signature,
        seconds=time.perf_counter() - start,
    )


def decodes_at_validation(recipe: Recipe) -> bool:
    """Whether answers are written at a validation: where the run is scored by them, or BLEU is."""
    return _asks_for_bleu(recipe) or task_of(recipe).is_scored_by_answers(recipe)


def _asks_for_bleu(recipe: Recipe) -> bool:
    return recipe.training.validate_bleu or recipe.training.stop_on == "bleu"


def seconds_per_validation(model: Model, prepared: Prepared, hardware: Hardware) -> float:
    """How long a validation takes, from a part of a large one; answers are as long as references.

    An untrained model ends its answers anywhere, so that the references themselves are written.
    """
    valid, limit = prepared.valid, prepared.recipe.training.target_tokens_per_batch
    lengths, rows = valid.corpus.target_lengths, valid.rows
    assert rows is not None
    some = rows[:: 1 + int(lengths[rows].sum()) // (TIMED_BATCHES * limit)]
    with hardware.plainly():
        start = time.perf_counter()
        summed_loss(model, valid.corpus, target_tokens=limit, hardware=hardware, rows=some)
        characters(replace(valid, rows=some), prepared.target)
        seconds = time.perf_counter() - start
        seconds *= int(lengths[rows].sum()) / int(lengths[some].sum())
        if decodes_at_validation(prepared.recipe):
            firsts, _ = _asked(prepared)
            start = time.perf_counter()
            batch = collate(valid.corpus, firsts[:AT_ONCE])
            _answers(model, prepared, hardware, batch, [ForcedPrefix(batch.target)])
            seconds += (time.perf_counter() - start) * len(firsts) / len(batch.rows)
    return seconds


def characters(material: Material, subwords: Subwords) -> int:
    """Of the target texts, as they are read back from their sub-words; at least one."""
    corpus = material.corpus
    rows = range(len(corpus)) if material.rows is None else material.rows.tolist()
    targets = [corpus.target(row).tolist() for row in rows]
    return max(1, sum(len(subwords.decode(ids)) for ids in targets))


def decoded(
    model: Model, prepared: Prepared, hardware: Hardware
) -> tuple[list[str], list[list[str]]]:
    """The first examples of the split, decoded greedily, with all their references."""
    firsts, references = _asked(prepared)
    answers: list[str] = []
    for begin in range(0, len(firsts), AT_ONCE):
        batch = collate(prepared.valid.corpus, firsts[begin : begin + AT_ONCE])
        answers += _answers(model, prepared, hardware, batch)
    return answers, references


def _asked(prepared: Prepared) -> tuple[np.ndarray, list[list[str]]]:
    """The first row of each example that is decoded, and all references of the example."""
    corpus, target = prepared.valid.corpus, prepared.target
    references: dict[int, list[str]] = {}
    first: dict[int, int] = {}
    assert prepared.valid.rows is not None
    for row in prepared.valid.rows.tolist():
        example = int(corpus.examples[row])
        if example not in first and len(first) >= prepared.recipe.training.validate_examples:
            break
        # what the vocabulary does not know cannot be answered right
        text = target.decode(corpus.target(row).tolist()).replace(UNKNOWN, UNANSWERABLE)
        references.setdefault(example, []).append(text)
        first.setdefault(example, row)
    return np.array(list(first.values())), list(references.values())


def _answers(
    model: Model,
    prepared: Prepared,
    hardware: Hardware,
    batch: Batch,
    rules: Sequence[Rule] = (),
) -> list[str]:
    """What a greedy search writes for a batch."""
    model.eval()
    sides = (batch.source_lengths, batch.target_lengths)
    longest = min(int(side.max()) for side in sides) * 2 + 50
    stepper, source = task_of(prepared.recipe).sources.for_search(model, hardware.put(batch.source))
    most = min(longest, prepared.recipe.model.max_len)
    ids = greedy(stepper, source, max_tokens=most, rules=rules)
    return [prepared.target.decode(each) for each in ids]
