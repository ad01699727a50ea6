"""Model: what training, decoding and looking need of a model that turns one text into another.

Nothing above this package asks what kind of model it has.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import AttentionMap
from regard.models.learner import Lesson, shifted


class Model(nn.Module, ABC):
    """A module that is a `Learner` and a `Stepper`, and can show where it looked."""

    output: nn.Linear
    """Maps `b t m` to logits; it has no bias."""

    @abstractmethod
    def hidden(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t m"]:
        """What the output layer reads after each target token, all at once."""

    @abstractmethod
    def maps(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> dict[str, tuple[AttentionMap, ...]]:
        """Where each row looks, by kind of attention; one map of shape `b h q k` a layer.

        "encoder": source at source, "decoder": target at target, "cross": target at source. A model
        has those kinds that it has.
        """

    @abstractmethod
    def start(self, source: Int[Tensor, "b s"]) -> Any:
        """Read the source; the state before the first token."""

    @abstractmethod
    def step(self, state: Any, tokens: Int[Tensor, "r t"]) -> tuple[Float[Tensor, "r t v"], Any]:
        """The logits after each of the new tokens, and the new state."""

    @abstractmethod
    def select(self, state: Any, rows: Int[Tensor, " r"]) -> Any:
        """The state of some rows, all or none of a sentence's, each with its sentence."""

    @abstractmethod
    def branch(self, state: Any, parents: Int[Tensor, "b w"]) -> Any:
        """Go on in w rows a sentence; the old state is used up."""

    def repeated(self) -> Iterator[nn.Module]:
        """The parts that run over and over in a pass, and are worth compiling: the layers.

        Layers in a list are alike, so that all of them share one compilation, for all lengths.
        """
        for part in self.children():
            yield from part if isinstance(part, nn.ModuleList) else ()

    def forward(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t v"]:
        """Logits for the token after each target token, all at once."""
        return self.output(self.hidden(source, target))

    def lesson(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Lesson:
        """Every target token is asked for, with those before it at hand."""
        return Lesson(self.hidden(source, shifted(target)), target)
