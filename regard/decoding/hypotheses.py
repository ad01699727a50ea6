"""What a search gives back."""

from typing import NamedTuple


class Hypothesis(NamedTuple):
    """One answer, and how likely the model holds it to be."""

    tokens: tuple[int, ...]
    """Without begin and end."""
    score: float
    """What the search compared: after rules and length penalty."""
    log_probability: float
    """The model's own, the end token included where it was written."""
    token_log_probabilities: tuple[float, ...]
    """The model's own, token by token; one more than there are tokens if it has ended."""
    has_ended: bool
    """Whether the end token was written; if not, the limit cut it."""
