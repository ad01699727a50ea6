"""Search engine: another program that runs a model and searches by itself; it is not stepped.

A search that is called with such a model hands itself over. What the other program lacks is
refused: there is no silent return to the usual way.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from regard.decoding.sentences import Sentence
from regard.decoding.trellis import Hypothesis
from regard.models.stepper import Stepper

if TYPE_CHECKING:
    from regard.decoding.beam import Beam


@runtime_checkable
class SearchEngine(Protocol):
    """A model in another program."""

    @property
    def engine_name(self) -> str:
        """As the command line spells it: a name and its settings."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader: how its answers compare with those of torch."""

    def search_beam(self, search: "Beam", sentences: Sequence[Sentence]) -> list[list[Hypothesis]]:
        """The answers of each sentence; a beam of one is greedy search."""


Decodable = Stepper | SearchEngine
"""A model that a search can be called with."""
