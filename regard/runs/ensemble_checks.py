"""Runs that write together: one vocabulary for all, and the same kind of sources."""

from regard.errors import RunError
from regard.tasks import task_of
from regard.tasks.loaded import Loaded


def check_can_write_together(first: Loaded, other: Loaded, who: str, with_whom: str) -> None:
    """Refuse a run that reads or writes other pieces than the first, or other sources.

    Args:
        first: what the others must be like.
        other: one of them.
        who: the other, for errors.
        with_whom: the first, for errors.
    """
    if _vocabularies(other) != _vocabularies(first):
        raise RunError(
            f"{who} has other vocabularies than {with_whom}. Train it with training.start_from, or "
            "with the same data and [tokens]."
        )
    if _sources(other) != _sources(first):
        raise RunError(
            f"{who} looks at other sources than {with_whom}: texts or pictures, of one size and "
            "framing, must be the same for all."
        )


def _vocabularies(run: Loaded) -> tuple[str, str]:
    return run.source.fingerprint, run.target.fingerprint


def _sources(run: Loaded) -> tuple[object, ...]:
    return task_of(run.recipe).sources.form(run.recipe)
