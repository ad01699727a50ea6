"""model + source → hypotheses."""

from regard.decoding.greedy import greedy

__all__ = ["greedy"]
