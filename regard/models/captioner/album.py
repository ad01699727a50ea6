"""Album: a captioner for searches, whose sources are numbers of pictures instead of words.

    Beam()(Album(model, pictures), [Sentence([0]), Sentence([1]), …])

A search knows sentences of whole numbers. Here such a sentence has one number, and the picture of
that number is fetched when the search starts on its batch.
"""

from collections.abc import Callable
from typing import Any, final

from jaxtyping import Float, Int
from torch import Tensor

from regard.models.captioner.network import Seen
from regard.models.stepper import Stepper


@final
class Album:
    """A stepper that fetches its pictures by number.

    Args:
        model: what writes.
        fetch: the pictures, or annotations, of some numbers; a tensor of all of them will do, as
            `pictures.__getitem__`.
    """

    def __init__(self, model: Stepper, fetch: Callable[[Int[Tensor, " b"]], Seen]) -> None:
        self.model, self.fetch = model, fetch

    def start(self, source: Int[Tensor, "b 1"]) -> Any:
        """Fetch the pictures, and look at them."""
        return self.model.start(self.fetch(source[:, 0]))

    def step(self, state: Any, tokens: Int[Tensor, "r t"]) -> tuple[Float[Tensor, "r t v"], Any]:
        """As the model does."""
        return self.model.step(state, tokens)

    def select(self, state: Any, rows: Int[Tensor, " r"]) -> Any:
        """As the model does."""
        return self.model.select(state, rows)

    def branch(self, state: Any, parents: Int[Tensor, "b w"]) -> Any:
        """As the model does."""
        return self.model.branch(state, parents)
