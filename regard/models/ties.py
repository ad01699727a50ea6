"""Ties: which of source embeddings, target embeddings and output layer are one table.

    none     each has its own
    output   target embeddings and output layer
    all      source embeddings too, for which both sides need one vocabulary

An output layer that is the table of embeddings compares a state with every word.
"""

from regard.choices import find
from regard.errors import SettingError

TIES = ("none", "output", "all")


def check_is_tie(tied: str) -> None:
    """Say which names there are if this is none."""
    find(tied, dict.fromkeys(TIES), key="model.tied")


def table_apart(tied: str) -> str | None:
    """What would give source and target a table of embeddings each; None if they have."""
    return "model.tied = 'output'" if tied == "all" else None


def check_sides(tied: str, n_source_tokens: int, n_target_tokens: int) -> None:
    """One table has as many rows for the one side as for the other."""
    if tied == "all" and n_source_tokens != n_target_tokens:
        raise SettingError(
            f"model.tied = 'all' needs one vocabulary for both sides, got {n_source_tokens} source "
            f"and {n_target_tokens} target tokens. Take a joint vocabulary, or tied = 'output'."
        )
