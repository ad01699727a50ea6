"""Validation: loss, exact match and BLEU on examples that training never learns from."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from regard.data.batches import Batch, collate
from regard.data.subword_kinds import UNKNOWN
from regard.data.subwords import Subwords
from regard.decoding import Rule, greedy
from regard.decoding.rules import ForcedPrefix
from regard.evaluating import bleu, exact_match
from regard.hardware.hardware import Hardware
from regard.models import Model
from regard.recipes.recipe import Recipe
from regard.tasks import task_of
from regard.training.checkpoints import Progress
from regard.training.corpus_losses import summed_loss
from regard.training.events import Validated
from regard.training.loop import Material
from regard.training.preparation import Prepared

UNANSWERABLE = "\ue000"
"""Replaces unknown pieces in references; no answer contains it."""

AT_ONCE = 250
"""How many examples are decoded together."""
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


def validate(model: Model, prepared: Prepared, hardware: Hardware, step: int) -> Validated:
    """Measure the model's scores, without dropout in it or in its texts."""
    start, recipe, valid = time.perf_counter(), prepared.recipe, prepared.valid
    is_decoded, limit = decodes_at_validation(recipe), recipe.training.target_tokens_per_batch
    with hardware.uncompiled():
        total, n_tokens = summed_loss(
            model, valid.corpus, target_tokens=limit, hardware=hardware, rows=valid.rows
        )
        hypotheses, references = decoded(model, prepared, hardware) if is_decoded else ([], [])
    score = bleu(hypotheses, references) if _asks_for_bleu(recipe) else None
    # one pass over a text gives some of its words, which have other characters than all of them
    is_whole = task_of(recipe).is_searched
    return Validated(
        step=step,
        loss=total / n_tokens,
        per_character=total / _count_characters(valid, prepared.target) if is_whole else None,
        exact_match=exact_match(hypotheses, references) if is_decoded else None,
        is_best=False,
        bleu=None if score is None else score.value,
        signature=None if score is None else score.signature,
        seconds=time.perf_counter() - start,
    )


def decodes_at_validation(recipe: Recipe) -> bool:
    """Whether answers are decoded at a validation, for exact match or BLEU."""
    return _asks_for_bleu(recipe) or task_of(recipe).is_scored_by_answers(recipe)


def _asks_for_bleu(recipe: Recipe) -> bool:
    return recipe.training.validate_bleu or recipe.training.stop_on == "bleu"


def seconds_per_validation(model: Model, prepared: Prepared, hardware: Hardware) -> float:
    """How long a validation takes, from a part of a large one; answers are as long as references.

    An untrained model ends its answers anywhere, so that the references themselves are written.
    """
    valid, limit = prepared.valid, prepared.recipe.training.target_tokens_per_batch
    lengths, rows = valid.corpus.counted_lengths, valid.used
    sample = rows[:: 1 + int(lengths[rows].sum()) // (TIMED_BATCHES * limit)]
    with hardware.uncompiled():
        start = time.perf_counter()
        summed_loss(model, valid.corpus, target_tokens=limit, hardware=hardware, rows=sample)
        _count_characters(replace(valid, rows=sample), prepared.target)
        seconds = time.perf_counter() - start
        seconds *= int(lengths[rows].sum()) / int(lengths[sample].sum())
        if decodes_at_validation(prepared.recipe):
            firsts, _ = _first_rows(prepared)
            start = time.perf_counter()
            batch = collate(valid.corpus, firsts[:AT_ONCE])
            _answers(model, prepared, hardware, batch, [ForcedPrefix(batch.target)])
            seconds += (time.perf_counter() - start) * len(firsts) / len(batch.rows)
    return seconds


def _count_characters(material: Material, subwords: Subwords) -> int:
    """How many the target texts have, as they are read back from their sub-words; at least one."""
    targets = (material.corpus.target(row).tolist() for row in material.used.tolist())
    return max(1, sum(len(subwords.decode(ids)) for ids in targets))


def decoded(
    model: Model, prepared: Prepared, hardware: Hardware
) -> tuple[list[str], list[list[str]]]:
    """The first examples of the split, decoded greedily, with all their references."""
    firsts, references = _first_rows(prepared)
    answers: list[str] = []
    for begin in range(0, len(firsts), AT_ONCE):
        batch = collate(prepared.valid.corpus, firsts[begin : begin + AT_ONCE])
        answers += _answers(model, prepared, hardware, batch)
    return answers, references


def _first_rows(prepared: Prepared) -> tuple[np.ndarray, list[list[str]]]:
    """The first row of each example that is decoded, and all references of the example."""
    corpus, target = prepared.valid.corpus, prepared.target
    references: dict[int, list[str]] = {}
    first: dict[int, int] = {}
    for row in prepared.valid.used.tolist():
        example = int(corpus.examples[row])
        if example not in first and len(first) >= prepared.recipe.training.validate_examples:
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
    ids = greedy(stepper, source, max_tokens=most, rules=rules)
    return [prepared.target.decode(each) for each in ids]
