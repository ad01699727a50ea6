"""recipe + corpus → run directory."""

from regard.training.run import run

__all__ = ["run"]
