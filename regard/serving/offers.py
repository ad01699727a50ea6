"""Texts that a run may be tried with: some of its own data, and sentences of nobody's.

What is offered can be asked as it stands, and its answer shows something:

    running text    a row itself where nothing is read before it, as before the first
    hidden words    a text in which one word is hidden
    parsed words    the run's own sentences alone: no other brings its tree along
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import final

from regard.data import Example
from regard.data.kinds import MASK_PIECE
from regard.data.parsed_words import PARSED_WORDS
from regard.errors import RegardError
from regard.recipes.recipe import Recipe
from regard.runs.trained import Trained
from regard.serving.provenance import known_examples
from regard.tasks.masked_words import asked_of

N_EXAMPLES = 4
"""How many examples of a run's own data are offered."""
SEARCHED = 50
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
    asked = asked_of(trained.loaded.recipe)
    ask, length = ASKING[asked], LENGTH[asked]
    try:
        found = _validation(trained)
    except (RegardError, OSError) as error:
        # the data may have stayed on the machine that the run was trained on
        return Offer((), f"No examples of this run's data: {error}")
    texts = (one.source if one.source.strip() else one.targets[0] for one in found)
    short = (
        ask(text) for text in texts if text.strip() and length(trained, text) <= trained.longest
    )
    return Offer(tuple(islice(short, N_EXAMPLES)))


def name_of_example(recipe: Recipe, example: str) -> str:
    """What a page calls an example: a text itself, and a picture by the name of its file.

    The page does not learn where the picture lies on this machine.
    """
    return NAME[recipe.source_kind](example)


def other_examples(recipe: Recipe) -> list[str]:
    """Sentences of nobody's data; none for a run that reads no plain texts."""
    if recipe.source_kind != "texts" or recipe.tokens.kind == PARSED_WORDS.name:
        return []
    return [ASKING[asked_of(recipe)](sentence) for sentence in SENTENCES]


def _validation(trained: Trained) -> list[Example]:
    valid = trained.loaded.recipe.data.valid
    return list(islice(known_examples(trained.path, valid, "valid"), SEARCHED))


def with_hidden_word(text: str) -> str:
    """A text with a word in its middle hidden, one of letters alone where there is such a word.

    >>> with_hidden_word("Paris is the capital of France .")
    'Paris is the [MASK] of France .'
    """
    if MASK_PIECE in text:
        return text
    words = list(re.finditer(r"\S+", text))
    plain = [word for word in words if word[0].isalpha()] or words
    hidden = plain[len(plain) // 2]
    return f"{text[: hidden.start()]}{MASK_PIECE}{text[hidden.end() :]}"


def _as_it_is(text: str) -> str:
    return text


ASKING: Mapping[str, Callable[[str], str]] = {
    "texts": _as_it_is,
    "pictures": _as_it_is,
    "hidden_words": with_hidden_word,
}
"""How an example is asked, by what is asked of a run (`asked_of`)."""

LENGTH: Mapping[str, Callable[[Trained, str], int]] = {
    "texts": Trained.length,
    "pictures": lambda trained, address: 0,
    "hidden_words": Trained.length,
}
"""How many tokens of an example are read, by what is asked of a run; a picture has none."""

NAME: Mapping[str, Callable[[str], str]] = {
    "texts": _as_it_is,
    "pictures": lambda address: address.rpartition("/")[2],
}
"""What a page calls an example, by what `Recipe.source_kind` says."""
