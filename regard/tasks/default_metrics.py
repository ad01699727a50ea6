"""Which scores suit a run: those that are given unless the caller chooses, and which say nothing.

A run is known by what is asked of it (`asked_of`): texts, captions of pictures, or hidden words.
"""

from collections.abc import Iterable, Mapping, Sequence

from regard.data import Example
from regard.data.kinds import MASK_PIECE
from regard.data.scenes import is_scene
from regard.errors import DataError, SettingError
from regard.recipes.recipe import Recipe
from regard.tasks.labels import says_labels
from regard.tasks.masked_words import asked_of, fills_words

USUAL = ("bleu", "chrf", "ter", "exact", "ratio", "loss")
"""What is scored of texts unless the caller chooses; accuracy of tokens is for tags."""

LABELS = ("accuracy", "exact", "loss")
"""What is scored of tags and labels."""

USUAL_BY_DATA: Mapping[str, Sequence[str]] = {
    "running_text": ("words", "loss"),
    "conllu": LABELS,
    "documents": ("rouge", "ratio", "loss"),
}
"""The same of other texts, by the reader that a run learned from."""

USUAL_OF: Mapping[str, Sequence[str]] = {
    "pictures": ("captions", "loss", "pointing"),
    "hidden_words": ("loss",),
}
"""What is scored of other runs, by what is asked of them; only scenes have a pointing game."""

DOES: Mapping[str, str] = {
    "texts": "answers texts",
    "pictures": "captions pictures",
    "hidden_words": "guesses hidden words",
}

_POINTS = "it is played on pictures, in which the boxes of a caption's words are known"

OF_LOSS = ("loss", "words", "lengths")
WITHOUT_ANSWERS = frozenset({*OF_LOSS, "pointing"})
"""Scores that ask how a run takes the references, and for which nothing is decoded."""

MEANINGLESS: Mapping[str, Mapping[str, str]] = {
    "texts": {"pointing": _POINTS},
    "pictures": {"lengths": "a picture has no length, by which losses are sorted"},
    "hidden_words": {
        "words": "few of a text's words are asked for, and their loss is not that of all",
        "lengths": "it does not read the source, by whose length losses are sorted",
        "pointing": _POINTS,
    },
}
"""Scores that say nothing of a run, by what is asked of it, and why."""


def usual_of(recipe: Recipe) -> list[str]:
    """What is scored of a run unless the caller chooses."""
    return list(_usual(recipe))


def is_scored_by_answers(recipe: Recipe) -> bool:
    """Whether what is scored of a run has to be decoded, unless the caller chooses."""
    return not WITHOUT_ANSWERS.issuperset(_usual(recipe))


def check_metrics(recipe: Recipe, metrics: Sequence[str], known: Iterable[str]) -> None:
    """Nothing is scored that would be a false number, or none.

    Args:
        recipe: of the run.
        metrics: what was asked for.
        known: all scores there are.
    """
    asked = asked_of(recipe)
    why = MEANINGLESS[asked]
    usual = _usual(recipe)
    suited = [*usual, *(name for name in known if name not in why and name not in usual)]
    for name in metrics:
        if name in why:
            raise SettingError(
                f"evaluate: {name} has no meaning for a run that {DOES[asked]}: {why[name]}. Take "
                f"--metrics of {', '.join(suited)}."
            )


def _usual(recipe: Recipe) -> Sequence[str]:
    asked = asked_of(recipe)
    if says_labels(recipe):
        return LABELS
    if asked == "texts":
        return USUAL_BY_DATA.get(recipe.data.train.name, USUAL)
    return USUAL_OF[asked]


def check_has_hidden(recipe: Recipe, examples: Sequence[Example], who: str, remedy: str) -> None:
    """Answers of a run that guesses hidden words are scored only where words are hidden.

    Args:
        recipe: the run's.
        examples: what it is asked.
        who: scores them, for errors.
        remedy: what else could be done, besides giving other texts.
    """
    if fills_words(recipe) and not any(MASK_PIECE in example.source for example in examples):
        raise DataError(
            f"{who} needs texts in which words are hidden, but no source given holds {MASK_PIECE}. "
            f"Give such texts (--source), or {remedy}."
        )


def check_has_sources(examples: Sequence[Example], who: str, remedy: str) -> None:
    """Answers are scored only where something was asked; of an empty text there are none.

    Args:
        examples: what a run is asked.
        who: scores it, for errors.
        remedy: what else could be done, besides giving other texts.
    """
    if examples and not any(example.source.strip() for example in examples):
        raise DataError(
            f"{who} needs texts to answer, but every source is empty, as those of a running text "
            f"without context are. Give texts (--source), or {remedy}."
        )


def check_has_scenes(examples: Sequence[Example], metrics: Sequence[str]) -> None:
    """The pointing game is not asked for where nobody knows what lies where."""
    if "pointing" in metrics and not any(is_scene(example.source) for example in examples):
        raise DataError(
            "evaluate: pointing needs scenes, the only pictures in which the boxes of words are "
            "known, but no picture given is one. Leave pointing out of --metrics, or take scenes."
        )
