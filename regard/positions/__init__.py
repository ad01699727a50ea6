"""indices → vectors that are added to the inputs (or, rotary, that turn queries and keys)."""

from collections.abc import Callable, Mapping

from torch import nn

from regard.positions.learned import LearnedPositions
from regard.positions.rotary import RotaryPositions
from regard.positions.sinusoidal import SinusoidalPositions
from regard.positions.tree_depth import TreeDepthPositions

POSITIONS: Mapping[str, Callable[..., nn.Module]] = {
    "sinusoidal": SinusoidalPositions,
    "learned": LearnedPositions,
    "rotary": RotaryPositions,
    "tree_depth": TreeDepthPositions,
}

__all__ = [
    "POSITIONS",
    "LearnedPositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "TreeDepthPositions",
]
