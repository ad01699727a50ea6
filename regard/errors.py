"""Every error a user can meet, and nothing else.

RegardError (a ValueError: somebody can put it right)
├── UnknownChoice    a name that no table holds
├── SettingError     a setting that a part does not have, or a value it cannot take
├── DimsError        widths or head counts that do not fit together
├── ShapeError       tensors that do not fit together
├── LengthError      a sequence longer than a part can take
├── MeetingError     two links of a chain that may not meet
├── PathError        a path that cannot compute the chain it was asked to run
├── DataError        data that cannot be read as asked
├── RecipeError      a recipe with mistakes in it; all of them, each with its line
├── CheckpointError  a file of a run that is not what it should be
├── RunError         a run directory that cannot be used as asked
└── MissingExtra     an optional package that is not installed

A message says who speaks, what was expected, what came, and what to do.
"""


class RegardError(ValueError):
    """The root: catching it catches everything regard says to a user."""


class UnknownChoice(RegardError):
    """A name that no table holds."""


class SettingError(RegardError):
    """A setting that a part does not have, or a value it cannot take."""


class DimsError(RegardError):
    """Widths or head counts that do not fit together."""


class ShapeError(RegardError):
    """Tensors that do not fit together."""


class LengthError(RegardError):
    """A sequence longer than a part can take."""


class MeetingError(RegardError):
    """Two links of a chain that may not meet."""


class PathError(RegardError):
    """A path that cannot compute the chain it was asked to run."""


class DataError(RegardError):
    """Data that cannot be read as asked."""


class RecipeError(RegardError):
    """A recipe with mistakes in it; all of them, each with its line."""


class CheckpointError(RegardError):
    """A file of a run that is not what it should be."""


class RunError(RegardError):
    """A run directory that cannot be used as asked."""


class MissingExtra(RegardError):
    """An optional package that is not installed."""
