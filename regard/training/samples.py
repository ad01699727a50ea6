"""Samples: three fixed validation examples, answered at every validation, with what was looked at.

They are the first examples of the validation data that are short enough, the same at every
validation. Nothing is drawn and nothing of the training changes: random states are put back.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

import numpy as np

from regard.decoding import Greedy, Limits
from regard.errors import RegardError
from regard.hardware.hardware import Hardware, random_states, restore
from regard.inspecting.capture import evaluating
from regard.models import Model, Stepper
from regard.tasks import task_of
from regard.tasks.loaded_run import Loaded, LoadedRun
from regard.tasks.samples import Sample
from regard.tasks.sources import Split
from regard.training.preparation import Prepared

N_SAMPLES = 3
MAX_TOKENS = 256
"""The most tokens of source and target together, unless too few examples are so short."""
MAX_ANSWER_TOKENS = 60


@final
@dataclass(frozen=True)
class LearningRun(LoadedRun):
    """A run whose model still learns: searches step the model itself, no copy of its weights."""

    def read(self, text: str) -> str:
        """A text normalised as the training data are."""
        return task_of(self.loaded.recipe).read_text(self.loaded.recipe, text)

    def _fast(self) -> Stepper:
        return self.loaded.model


def sample_answers(
    model: Model, prepared: Prepared, hardware: Hardware, folder: Path
) -> tuple[Sample, ...]:
    """The answers of the moment to the examples; one that cannot be answered is left out."""
    recipe, before = prepared.recipe, random_states(hardware.device)
    run = LearningRun(folder, Loaded(recipe, prepared.source, prepared.target, model), hardware)
    found: list[Sample] = []
    with hardware.uncompiled(), evaluating(model):
        for source, reference in _examples(prepared):
            # a picture may be gone by now, and a model may look at nothing
            with suppress(RegardError):
                found.append(_sample(run, source, reference))
    restore(before, hardware.device)
    return tuple(found)


def _sample(run: LearningRun, source: str, reference: str) -> Sample:
    task, target = task_of(run.loaded.recipe), run.loaded.target
    asked, wanted = task.sample_of(source, reference)
    most = min(len(target.encode(wanted)) + 10, MAX_ANSWER_TOKENS, run.longest - 1)
    rules = run.loaded.recipe.decoding.rules
    search = Greedy(limits=Limits(max_tokens=max(1, most)), rules=rules)
    answer = task.sample_answer(run, asked, search)
    made = Sample(asked, wanted, answer)
    with suppress(RegardError):
        made = replace(made, looked=task.sample_links(run, asked, answer, search))
    return made


def _examples(prepared: Prepared) -> Iterator[tuple[str, str]]:
    """Source and reference of the examples, as the model reads and writes them."""
    corpus, rows = prepared.valid.corpus, prepared.valid.used
    lengths = corpus.source_lengths[rows] + corpus.target_lengths[rows]
    short = rows[lengths <= MAX_TOKENS]
    if len(short) < N_SAMPLES:
        short = np.sort(rows[np.argsort(lengths, kind="stable")[:N_SAMPLES]])
    _, first = np.unique(corpus.examples[short], return_index=True)
    split = Split(prepared.recipe, prepared.folder, "valid")
    texts = task_of(prepared.recipe).sources
    for row in short[np.sort(first)[:N_SAMPLES]].tolist():
        source = texts.text_of(corpus.source(row).tolist(), prepared.source, split)
        yield source, prepared.target.decode(corpus.target(row).tolist())
