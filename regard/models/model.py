"""Model: the interface of every model for training, decoding and inspecting.

Packages that use models rely on this interface and never check a model's class.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from regard.attention import AttentionMap
from regard.attention.capture import captured
from regard.models.hard_attention import HardAttention
from regard.models.shapes import Logits, Maps, NewTokens, SourceTokens, States, TargetTokens
from regard.models.stepper import BOS, PAD
from regard.models.trainable import LossInputs, shifted

KIND_OF_PLACE = (
    (r"\bcross", "cross"),
    (r"^encoder\b", "encoder"),
    (r"\blook\.chain$", "cross"),
    (r"^decoder\.\d+\.chain$", "cross"),
    (r"^decoder\..*\bbranches\.attention\.chain$", "cross"),
    (r"^(decoder\b.*|layers\.\d+)\.attention\.chain$", "decoder"),
)
"""The kind of attention by a chain's path in the model; the first matching pattern counts."""


def kind_of(place: str) -> str | None:
    """The kind of attention of a chain, by its path in the model; None if no pattern matches.

    >>> kind_of("decoder.0.cross_attention.chain"), kind_of("chain")
    ('cross', None)
    """
    return next((kind for pattern, kind in KIND_OF_PLACE if re.search(pattern, place)), None)


def by_kind(maps: Mapping[str, AttentionMap]) -> Maps:
    """The maps that `captured` collected, by kind of attention, in the order of the pass."""
    kinds: Maps = {}
    for place, one in maps.items():
        kind = kind_of(place)
        assert kind is not None, place
        kinds[kind] = (*kinds.get(kind, ()), one)
    return kinds


class Model(nn.Module, ABC):
    """A module that is a `Trainable` and a `Stepper`, and gives its attention maps."""

    output: nn.Linear
    """Maps `b t m` to logits; it has no bias."""
    reads_answers = True
    """Whether its maps depend on the target as well as on the source."""

    def __init__(self) -> None:
        super().__init__()
        self.hard: HardAttention | None = None
        """What the draws of its attentions learn by, if some select "hard"."""

    @abstractmethod
    def hidden(self, source: SourceTokens, target: TargetTokens) -> States:
        """The output layer's inputs after each target token, all at once."""

    def maps(self, source: SourceTokens, target: TargetTokens) -> Maps:
        """The attention maps by kind; one of shape `b h q k` for each layer.

        "encoder": source at source, "decoder": target at target, "cross": target at source, and of
        a language model "sequence": the whole row at itself. A model without a kind leaves it out.
        """
        with captured(self) as found:
            self.hidden(source, target)
        return by_kind(found)

    def in_one_row(self, source: SourceTokens, target: TargetTokens) -> list[tuple[str, int]]:
        """Where source and target are one row, which token of which side stands at each position.

        Most models read source and target apart, and have no such row.
        """
        return []

    def without_special_rows(self) -> None:
        """Delete the output layer's rows of special tokens, where it should have none.

        A model that writes texts predicts special tokens too, and keeps them.
        """

    def prompt(self, source: Sequence[int]) -> list[int]:
        """The tokens that the side that writes has read when it writes its first."""
        return [BOS]

    @abstractmethod
    def start(self, source: SourceTokens) -> Any:
        """Read the source, and give the state before the first token."""

    @abstractmethod
    def step(self, state: Any, tokens: NewTokens) -> tuple[Logits, Any]:
        """The logits after each of the new tokens, and the new state."""

    def select(self, state: Any, rows: Int[Tensor, " r"]) -> Any:
        """The state of some rows, all or none of a sentence's, each with its sentence."""
        return state.select(rows)

    def branch(self, state: Any, parents: Int[Tensor, "b w"]) -> Any:
        """Continue in w rows a sentence; the old state is used up."""
        return state.branch(parents)

    def repeated(self) -> Iterator[nn.Module]:
        """The parts that run many times in a pass and are worth compiling: the layers.

        Layers in a list have one form, so that all of them share one compilation, for all lengths.
        """
        if self.hard is not None:
            # a compiled part cannot tell what its attentions drew
            return
        for part in self.children():
            yield from part if isinstance(part, nn.ModuleList) else ()

    def forward(
        self, source: Shaped[Tensor, "b ..."], target: TargetTokens
    ) -> Float[Tensor, "b t v"]:
        """Logits for the token after each target token, all at once."""
        return self.output(self.hidden(source, target))

    def loss_inputs(self, source: SourceTokens, target: TargetTokens) -> LossInputs:
        """Every target token is predicted from those before it; draws have a term of their own."""
        if self.hard is None or not self.training:
            return self.plain_loss_inputs(source, target)
        return self.hard.loss_inputs(self, source, target)

    def plain_loss_inputs(self, source: SourceTokens, target: TargetTokens) -> LossInputs:
        """The same without a term for draws."""
        return LossInputs(self.hidden(source, shifted(target)), target)

    def queries(
        self, place: str, source: SourceTokens, target: TargetTokens
    ) -> Bool[Tensor, "b q"]:
        """True for the queries of the attention at `place` that stand for a token, in training."""
        return (source if kind_of(place) == "encoder" else target) != PAD
