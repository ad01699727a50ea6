"""Errors for users: all are ValueErrors that the user can correct.

A message names the part that raised it, what it expected, what it got, and the remedy.
"""


class RegardError(ValueError):
    """The base class: catching it catches every error that regard raises for a user."""


class UnknownChoice(RegardError):
    """A name that is in no table."""


class SettingError(RegardError):
    """A setting that a part does not have, or a value it cannot take."""


class DimsError(RegardError):
    """Widths or head counts that do not fit together."""


class ShapeError(RegardError):
    """Tensors that do not fit together."""


class LengthError(RegardError):
    """A sequence longer than a part can take."""


class MeetingError(RegardError):
    """Two links that may not stand in one chain."""


class PathError(RegardError):
    """A path that cannot compute the chain it was asked to run."""


class DataError(RegardError):
    """Data that cannot be read as requested."""


class RecipeError(RegardError):
    """A recipe with mistakes in it; all of them, each with its line."""


class CheckpointError(RegardError):
    """A file of a run that is damaged or does not fit."""


class RunError(RegardError):
    """A run directory that cannot be used as requested."""


class NotPortable(RegardError):
    """A model that other runtimes cannot hold; the message is the reason and the alternative."""


class MissingExtra(RegardError):
    """An optional package that is not installed."""


def counted(number: int, noun: str) -> str:
    """A number and its noun: "1 line", "1,200 lines"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def check_share(name: str, value: float) -> None:
    """Refuse a share outside [0, 1)."""
    if not 0.0 <= value < 1.0:
        raise SettingError(f"{name} must lie in [0, 1), got {value}.")


def check_least(name: str, value: float | int, least: int) -> None:
    """Refuse a setting below its least value; `name` is the part and setting in the message."""
    # NaN fails this comparison
    if not value >= least:
        raise SettingError(f"{name} must be at least {least}, got {value}.")
