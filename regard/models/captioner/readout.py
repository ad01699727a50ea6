"""What part the LSTM's state has in what is said.

    deep   L_h h        as in the paper
    seen   0            words are said of the last word and of what is seen, and of nothing else

A state that speaks can be kept from being relied on: while training it is left out of some words,
all of it, so that they have to be said of what is seen. That is dropout of a whole input, not of
its numbers one by one: of many numbers that say the same, some always come through.

Paper: Xu et al. 2015, equation 7 (deep); Neverova et al. 2016, section 3.3 (leaving out an input).
"""

from collections.abc import Callable, Mapping
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import SettingError


@final
class Silent(nn.Module):
    """Says nothing of a state.

    Args:
        d_hidden: width of the state.
        d_said: width of what is said.
    """

    def __init__(self, d_hidden: int, d_said: int) -> None:
        super().__init__()
        self.d_said = d_said

    def forward(self, state: Float[Tensor, "*b n"]) -> Float[Tensor, "*b m"]:
        """Zeros."""
        return state.new_zeros(*state.shape[:-1], self.d_said)


@final
class StateDropout(nn.Module):
    """Leaves whole vectors out, each by lot, while training; those that stay are as they were.

    Args:
        p: how likely one is left out.
    """

    def __init__(self, p: float = 0.0) -> None:
        super().__init__()
        if not 0.0 <= p <= 1.0:
            raise SettingError(f"state_dropout: p must lie in [0, 1], got {p}.")
        self.p = p

    def forward(self, state: Float[Tensor, "*b n"]) -> Float[Tensor, "*b n"]:
        """All of a vector, or zeros."""
        if not self.training or not self.p:
            return state
        lots = torch.rand(*state.shape[:-1], 1, device=state.device)
        return state * (lots >= self.p).to(state.dtype)


def _deep(d_hidden: int, d_said: int) -> nn.Module:
    return nn.Linear(d_hidden, d_said, bias=False)


READOUTS: Mapping[str, Callable[[int, int], nn.Module]] = {"deep": _deep, "seen": Silent}
"""What `model.readout` may name: the state's part, for widths of the state and of what is said."""
