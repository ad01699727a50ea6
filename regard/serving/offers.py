"""Texts that a run may be tried with: some of its own data, and sentences of no data.

What is offered can be asked as it stands, and its answer shows something:

    running text    a row itself where nothing is read before it, as before the first
    hidden words    a text in which one word is hidden
    parsed words    the run's own sentences alone: no other brings its tree along
"""

from dataclasses import dataclass
from itertools import islice
from typing import final

from regard.data import Example
from regard.errors import RegardError
from regard.runs.trained import Trained
from regard.serving.provenance import known_examples

N_EXAMPLES = 4
"""How many examples of a run's own data are offered."""
N_EXAMPLES_READ = 50
"""Among how many; some may be empty, or longer than the model reads."""
SENTENCES = (
    "A dog ate the food because it was hungry.",
    "Jane visite l'Afrique en septembre.",
    "الكلب يأكل",
    "我 很 好",
)
"""What any run that reads plain texts may be tried with, whatever it was trained on."""


@final
@dataclass(frozen=True)
class Offer:
    """Examples of a run's own data, or why there are none."""

    examples: tuple[str, ...]
    """Texts, or addresses of pictures."""
    why_not: str | None = None


def own_examples(trained: Trained) -> Offer:
    """Some texts or pictures of a run's validation data, if they can be read and may be shown."""
    task = trained.task
    try:
        found = _validation(trained)
    except (RegardError, OSError) as error:
        # the data may have stayed on the machine that the run was trained on
        return Offer((), f"No examples of this run's data: {error}")
    texts = (one.source if one.source.strip() else one.targets[0] for one in found)
    short = (
        task.as_example(text)
        for text in texts
        if text.strip()
        and (not task.sources.has_lengths or trained.length(text) <= trained.longest)
    )
    return Offer(tuple(islice(short, N_EXAMPLES)))


def other_examples(trained: Trained) -> list[str]:
    """Sentences that are of no run's data; none for a run that reads no plain texts."""
    task = trained.task
    if not task.takes_any_text(trained.loaded.recipe):
        return []
    return [task.as_example(sentence) for sentence in SENTENCES]


def _validation(trained: Trained) -> list[Example]:
    valid = trained.loaded.recipe.data.valid
    return list(islice(known_examples(trained.path, valid, "valid"), N_EXAMPLES_READ))
