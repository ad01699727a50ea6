"""Shapes of models' inputs and outputs; the legend is in `regard.dims`, and `r` counts rows."""

from jaxtyping import Float, Int
from torch import Tensor

from regard.attention import AttentionMap

Tokens = Int[Tensor, "b n"]
"""Texts as numbers; padding (0) stands last."""
Indices = Int[Tensor, "b n"]
"""A whole number for each token: its place, its segment, its head."""
SourceTokens = Int[Tensor, "b s"]
TargetTokens = Int[Tensor, "b t"]
NewTokens = Int[Tensor, "r t"]
"""The tokens that a step reads; rows of one sentence are adjacent."""
Annotations = Float[Tensor, "b l d"]
"""Encoded pictures: one vector for each cell, row by row."""
States = Float[Tensor, "b t m"]
"""The output layer's inputs after each target token."""
NewStates = Float[Tensor, "r t m"]
Logits = Float[Tensor, "r t v"]
Maps = dict[str, tuple[AttentionMap, ...]]
"""A map for each layer, by kind of attention."""
