"""hypotheses + references → scores."""

from regard.evaluating.exact_match import exact_match

__all__ = ["exact_match"]
