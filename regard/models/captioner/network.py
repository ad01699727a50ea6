"""The captioner: an encoder sees a grid of annotations, a decoder writes what they show.

    a = encoder(picture),   logits[t] = L_o decoder(y[:t], a)

A source is a picture, or annotations that were computed before: those of an encoder that never
learns are made once and kept.

Paper: Xu et al. 2015 (Show, Attend and Tell), section 3.1.
"""

from collections.abc import Iterator
from typing import Any, final

from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor, nn

from regard.attention import AttentionMap
from regard.errors import ShapeError
from regard.models.captioner.writer import Writer
from regard.models.learner import Lesson
from regard.models.model import Model

Seen = UInt8[Tensor, "b 3 y x"] | Float[Tensor, "b l d"]
"""Pictures, or their annotations: one vector for each cell, row by row."""


@final
class Captioner(Model):
    """An encoder of pictures and a decoder of words.

    Args:
        encoder: makes annotations of pictures.
        decoder: writes about annotations; a module too.
        output: maps `b t m` to logits; its weight may be the embedding's.
        d_annotation: width of an annotation.
    """

    def __init__(
        self, *, encoder: nn.Module, decoder: Writer, output: nn.Linear, d_annotation: int
    ) -> None:
        super().__init__()
        self.encoder, self.decoder, self.output = encoder, decoder, output
        self.d_annotation = d_annotation

    def annotations(self, source: Shaped[Tensor, "b ..."]) -> Float[Tensor, "b l d"]:
        """Look at pictures; what is annotations already stays, in the precision of the weights."""
        if source.dim() == 4:
            return self.encoder(source)
        wanted = self.d_annotation
        if source.dim() != 3 or source.shape[-1] != wanted or not source.is_floating_point():
            raise ShapeError(
                "captioner: expected pictures (b, 3, y, x) or annotations (b, l, "
                f"{wanted}) of real numbers, got {tuple(source.shape)} of {source.dtype}. A text "
                "is no source for it: take data with pictures, or another model.kind."
            )
        return source.to(self.output.weight.dtype)

    def hidden(self, source: Seen, target: Int[Tensor, "b t"]) -> Float[Tensor, "b t m"]:
        """What the output layer reads."""
        return self.decoder.hidden(self.annotations(source), target)

    def forward(self, source: Seen, target: Int[Tensor, "b t"]) -> Float[Tensor, "b t v"]:
        """Logits for the token after each target token, all at once."""
        return self.output(self.hidden(source, target))

    def lesson(self, source: Seen, target: Int[Tensor, "b t"]) -> Lesson:
        """Every target token is asked for; in training the loss may ask where it was looked."""
        return self.decoder.lesson(self.annotations(source), target)

    def maps(self, source: Seen, target: Int[Tensor, "b t"]) -> dict[str, tuple[AttentionMap, ...]]:
        """Where each row looks, of a pass over what `hidden` takes; "cross" has the cells.

        A row stands for a target token that is read. If the begin token comes first, row i
        predicts token i of the caption, and one more row predicts the end.
        """
        return self.decoder.maps(self.annotations(source), target)

    def gates(self, source: Seen, target: Int[Tensor, "b t"]) -> Float[Tensor, "b t"] | None:
        """How much of what it sees each row lets in, from 0 to 1; None without gates."""
        return self.decoder.gates(self.annotations(source), target)

    def start(self, source: Seen) -> Any:
        """Look at the pictures, and do with them what can be done once."""
        return self.decoder.start(self.annotations(source))

    def step(self, state: Any, tokens: Int[Tensor, "r t"]) -> tuple[Float[Tensor, "r t v"], Any]:
        """Logits after each new token; earlier ones are in the state."""
        said, state = self.decoder.step(state, tokens)
        return self.output(said), state

    def select(self, state: Any, rows: Int[Tensor, " r"]) -> Any:
        """The state of some rows, all or none of a picture's, each with its picture."""
        return self.decoder.select(state, rows)

    def branch(self, state: Any, parents: Int[Tensor, "b w"]) -> Any:
        """Go on in w rows a picture; the picture stays where it is."""
        return self.decoder.branch(state, parents)

    def repeated(self) -> Iterator[nn.Module]:
        """The decoder's layers, or its step."""
        return self.decoder.repeated()
