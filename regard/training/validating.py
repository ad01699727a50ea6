"""Validating: loss, exact match and BLEU on examples that training never learns from."""

import time
from dataclasses import dataclass, replace
from itertools import islice
from typing import final

import torch

from regard.data.batches import collate
from regard.data.kinds import UNKNOWN
from regard.data.subwords import Subwords
from regard.decoding import greedy
from regard.evaluating import bleu, exact_match
from regard.models import Model
from regard.training.checkpoints import Progress
from regard.training.events import Validated
from regard.training.filling import fills_words
from regard.training.hardware import Hardware
from regard.training.loop import Material, summed_loss
from regard.training.preparing import Prepared
from regard.training.source_kinds import source_kind

UNANSWERABLE = "\ue000"
"""Stands in references for what the vocabulary does not know; no answer holds it."""

AT_ONCE = 250
"""How many examples are decoded together."""


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
    start, training, valid = time.perf_counter(), prepared.recipe.training, prepared.valid
    with hardware.plainly():
        total, asked = summed_loss(
            model,
            valid.corpus,
            target_tokens=training.target_tokens_per_batch,
            hardware=hardware,
            rows=valid.rows,
        )
        is_decoded = not fills_words(prepared.recipe)
        hypotheses, references = decoded(model, prepared, hardware) if is_decoded else ([], [])
    has_bleu = is_decoded and (training.validate_bleu or training.stop_on == "bleu")
    score = bleu(hypotheses, references) if has_bleu else None
    return Validated(
        step=step,
        loss=total / asked,
        # of hidden words there are other characters than of whole texts
        per_character=total / characters(valid, prepared.target) if is_decoded else None,
        exact_match=exact_match(hypotheses, references) if is_decoded else None,
        is_best=False,
        bleu=None if score is None else score.value,
        signature=None if score is None else score.signature,
        seconds=time.perf_counter() - start,
    )


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
    model.eval()
    corpus, target, recipe = prepared.valid.corpus, prepared.target, prepared.recipe
    references: dict[int, list[str]] = {}
    first: dict[int, int] = {}
    assert prepared.valid.rows is not None
    for row in prepared.valid.rows.tolist():
        example = int(corpus.examples[row])
        if example not in first and len(first) >= recipe.training.validate_examples:
            break
        # what the vocabulary does not know cannot be answered right
        text = target.decode(corpus.target(row).tolist()).replace(UNKNOWN, UNANSWERABLE)
        references.setdefault(example, []).append(text)
        first.setdefault(example, row)
    hypotheses: list[str] = []
    rows = iter(first.values())
    while some := list(islice(rows, AT_ONCE)):
        batch = collate(corpus, torch.tensor(some).numpy())
        sides = (batch.source_lengths, batch.target_lengths)
        longest = min(int(side.max()) for side in sides) * 2 + 50
        stepper, source = source_kind(recipe).asked(model, hardware.put(batch.source))
        ids = greedy(stepper, source, max_tokens=min(longest, recipe.model.max_len))
        hypotheses += [target.decode(each) for each in ids]
    return hypotheses, list(references.values())
