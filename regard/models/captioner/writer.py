"""Writer: what a captioner needs of the part that writes, whatever it is made of."""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import AttentionMap
from regard.models.learner import Lesson


@runtime_checkable
class Writer(Protocol):
    """A module that writes about annotations, one for each cell of a picture's grid."""

    def hidden(
        self, annotations: Float[Tensor, "b l d"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t m"]:
        """What the output layer reads after each target token, all at once."""

    def lesson(self, annotations: Float[Tensor, "b l d"], target: Int[Tensor, "b t"]) -> Lesson:
        """Every target token is asked for, with those before it at hand."""

    def maps(
        self, annotations: Float[Tensor, "b l d"], target: Int[Tensor, "b t"]
    ) -> dict[str, tuple[AttentionMap, ...]]:
        """Where each target token looks; "cross" has a column for each cell."""

    def gates(
        self, annotations: Float[Tensor, "b l d"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t"] | None:
        """How much of what it sees each target token lets in, from 0 to 1; None without gates."""

    def start(self, annotations: Float[Tensor, "b l d"]) -> Any:
        """The state before the first token."""

    def step(self, state: Any, tokens: Int[Tensor, "r t"]) -> tuple[Float[Tensor, "r t m"], Any]:
        """What the output layer reads after each of the new tokens, and the new state."""

    def select(self, state: Any, rows: Int[Tensor, " r"]) -> Any:
        """The state of some rows, all or none of a picture's, each with its picture."""

    def branch(self, state: Any, parents: Int[Tensor, "b w"]) -> Any:
        """Go on in w rows a picture; the old state is used up."""

    def repeated(self) -> Iterator[nn.Module]:
        """What runs over and over in a pass, and is worth compiling."""
