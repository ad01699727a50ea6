"""batches + model → run directory."""

from regard.training.recipes import Recipe, read_recipe
from regard.training.run import run

__all__ = ["Recipe", "read_recipe", "run"]
