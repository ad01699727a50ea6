"""Checks that given examples can be scored by the metrics that the caller chose."""

from collections.abc import Sequence

from regard.data import Example
from regard.data.scenes import is_scene
from regard.errors import DataError


def check_has_sources(examples: Sequence[Example], who: str, remedy: str) -> None:
    """Refuse to score answers where every source is empty.

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
    """Refuse the pointing game where the boxes of words are not known."""
    if "pointing" in metrics and not any(is_scene(example.source) for example in examples):
        raise DataError(
            "evaluate: pointing needs scenes, the only pictures in which the boxes of words are "
            "known, but no picture given is one. Leave pointing out of --metrics, or take scenes."
        )
