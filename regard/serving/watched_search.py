"""A search for one request: it ends at its next step once the client has gone.

The model of a run is held only while it computes, so that texts are cut into tokens meanwhile.
"""

from collections.abc import Sequence
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.decoding import Hypothesis, Search, Sentence
from regard.models import Stepper
from regard.serving.turns import Lockable, check_asker, held


@final
class WatchedSearch:
    """A search that keeps what it found, so that each answer can be looked at as it was written.

    Args:
        search: finds the answers.
        busy: held while the model computes.
    """

    def __init__(self, search: Search, busy: Lockable) -> None:
        self.search, self.busy = search, busy
        self.found = list[list[Hypothesis]]()

    def __call__(
        self, model: Stepper, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """Search, and keep."""
        with held(self.busy):
            found = self.search(_Watched(model), sentences, device=device)
        self.found += found
        return found


class _Watched:
    """A stepper that asks before each step whether the client still waits."""

    def __init__(self, model: Stepper) -> None:
        self.model = model

    def start(self, source: Int[Tensor, "b s"]) -> Any:
        """As the model does."""
        return self.model.start(source)

    def step(self, state: Any, tokens: Int[Tensor, "r t"]) -> tuple[Float[Tensor, "r t v"], Any]:
        """As the model does, unless the client has gone."""
        check_asker()
        return self.model.step(state, tokens)

    def select(self, state: Any, rows: Int[Tensor, " r"]) -> Any:
        """As the model does."""
        return self.model.select(state, rows)

    def branch(self, state: Any, parents: Int[Tensor, "b w"]) -> Any:
        """As the model does."""
        return self.model.branch(state, parents)
