"""The shapes that links exchange; the legend is in `regard.dims`, and `*b` is batch and heads."""

from jaxtyping import Bool, Float
from torch import Tensor

Queries = Float[Tensor, "*b q dq"]
Keys = Float[Tensor, "*b k dk"]
Values = Float[Tensor, "*b k dv"]
Prepared = Float[Tensor, "*b k p"]
"""The keys after all of a score's work that does not depend on the query."""
Scores = Float[Tensor, "*b q k"]
Weights = Float[Tensor, "*b q k"]
Bias = Float[Tensor, "*bh q k"]
"""A bias on scores; it may be the same for all sentences."""
Vectors = Float[Tensor, "b n m"]
"""A vector of the model's width for every position."""
Context = Float[Tensor, "*b q dv"]
Mask = Bool[Tensor, "*bm #q #k"]
"""True = may attend."""
RowNumber = Float[Tensor, "*br #q 1"]
"""A number for each query."""
