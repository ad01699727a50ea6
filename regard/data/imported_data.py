"""Data that are elsewhere: what an imported model learned from, which nobody here has."""

from collections.abc import Iterator
from dataclasses import dataclass

from regard.data.examples import Example
from regard.errors import DataError


@dataclass(frozen=True)
class LearnedElsewhere:
    """Stands in the recipe of an imported run where its data would be."""

    model: str
    """What was imported."""
    normalise: str | None = None
    """Nothing."""

    def examples(self) -> Iterator[Example]:
        """None; to ask for them is a mistake."""
        raise DataError(
            f"elsewhere: the run was imported ('{self.model}'), and the data that it learned from "
            "are not here. Give texts of your own: --source and --reference, or another [data]."
        )
