"""Comparisons: a score that knows what its keys have received, as the chain takes one.

With coverage a key is the source's state h[j] and, beside it, the weight g[i,j] that it has
received before step i. Every score does its work on h once, and is told of g when it is there
(regard.attention.links.Score: `prepared` and `compare`).

Paper: Bahdanau, Cho & Bengio 2015, appendix A.1.2 (once for each sentence); Tu et al. 2016, section
3.1, and See, Liu & Manning 2017, equations 10 and 11 (coverage, in an additive score).
"""

from typing import final

from jaxtyping import Float
from torch import Tensor

from regard.attention.links import Score
from regard.places import Places


@final
class Covered:
    """A score of prepared keys that knows what has been covered before each row, for a map."""

    held_per_pair = 0

    def __init__(self, score: Score, covered: Float[Tensor, "b h q k"]) -> None:
        self.score, self.covered = score, covered

    def __call__(
        self,
        query: Float[Tensor, "b h q d"],
        key: Float[Tensor, "b h k p"],
        places: Places | None = None,
    ) -> Float[Tensor, "b h q k"]:
        """The scores of these rows with these keys, wherever they stand."""
        places = places or Places.between(query.shape[-2], key.shape[-2], device=query.device)
        return self.score.compare(query, key, places, self.covered[..., places.query, places.key])

    def as_dot(self, query: Float[Tensor, "b h q d"], key: Float[Tensor, "b h k p"]) -> None:
        """Every row has keys of its own."""

    def prepared(self, key: Float[Tensor, "b h k p"]) -> Float[Tensor, "b h k p"]:
        """The keys, which are prepared already."""
        return key

    def compare(
        self,
        query: Float[Tensor, "b h q d"],
        prepared: Float[Tensor, "b h k p"],
        places: Places | None = None,
        late: Float[Tensor, "b h q k"] | None = None,
    ) -> Float[Tensor, "b h q k"]:
        """The scores: what is late is known already."""
        return self(query, prepared, places)
