"""Comparisons: scores whose work on a source's keys is done once, for as many queries as will come.

    general    q · (W h) + (q · w) g            additive   v · act(W q + (U h + c) + w g)
    concat     v · tanh(W_q q + (W_h h) + w g)  any other  the score as it is

What stands in brackets is done once. With coverage a key is the source's state h[j] and, beside it,
the weight g[i,j] that it has received before step i, so that w is the last part of W or U.

Paper: Bahdanau, Cho & Bengio 2015, appendix A.1.2 (once for each sentence); Tu et al. 2016, section
3.1, and See, Liu & Manning 2017, equations 10 and 11 (coverage, in an additive score).
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, final, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.links import Score
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.concat import ConcatScore
from regard.attention.scores.general import GeneralScore
from regard.places import Places


@runtime_checkable
class Comparison(Protocol):
    """A score whose work on the keys is done once."""

    def keys(self, key: Float[Tensor, "b h k d"]) -> Float[Tensor, "b h k p"]:
        """The keys' share of the work."""

    def __call__(
        self,
        query: Float[Tensor, "b h q d"],
        key: Float[Tensor, "b h k p"],
        places: Places,
        covered: Float[Tensor, "b h q k"] | None,
    ) -> Float[Tensor, "b h q k"]:
        """The scores."""


@final
class AsItIs:
    """A score that leaves nothing to do beforehand, and takes no coverage."""

    def __init__(self, score: Score, d_query: int, d_key: int) -> None:
        self.score = score

    def keys(self, key: Float[Tensor, "b h k d"]) -> Float[Tensor, "b h k d"]:
        """The keys."""
        return key

    def __call__(
        self,
        query: Float[Tensor, "b h q d"],
        key: Float[Tensor, "b h k p"],
        places: Places,
        covered: Float[Tensor, "b h q k"] | None,
    ) -> Float[Tensor, "b h q k"]:
        """The scores."""
        assert covered is None
        return self.score(query, key, places)


@final
class Multiplied:
    """The general score: q · (W h) + (q · w) coverage."""

    def __init__(self, score: GeneralScore, d_query: int, d_key: int) -> None:
        self.score, self.d_key = score, d_key

    def keys(self, key: Float[Tensor, "b h k d"]) -> Float[Tensor, "b h k p"]:
        """W h."""
        return _projected(key, self.score.W[..., : self.d_key].mT)

    def __call__(
        self,
        query: Float[Tensor, "b h q d"],
        key: Float[Tensor, "b h k p"],
        places: Places,
        covered: Float[Tensor, "b h q k"] | None,
    ) -> Float[Tensor, "b h q k"]:
        """The scores."""
        scores = query @ key.mT
        if covered is None:
            return scores
        return scores + query @ self.score.W[..., self.d_key :] * covered


@final
class Compared:
    """The additive score: v · act(W q + (U h + c) + w coverage)."""

    def __init__(self, score: AdditiveScore, d_query: int, d_key: int) -> None:
        self.score, self.d_key = score, d_key

    def keys(self, key: Float[Tensor, "b h k d"]) -> Float[Tensor, "b h k p"]:
        """U h + c."""
        keys = _projected(key, self.score.U[:, : self.d_key])
        return keys if self.score.c is None else keys + self.score.c

    def __call__(
        self,
        query: Float[Tensor, "b h q d"],
        key: Float[Tensor, "b h k p"],
        places: Places,
        covered: Float[Tensor, "b h q k"] | None,
    ) -> Float[Tensor, "b h q k"]:
        """The scores."""
        pairs = _pairs(query @ self.score.W, key, covered, self.score.U[:, self.d_key :])
        return torch.einsum("bhqkf,hf->bhqk", self.score.activation(pairs), self.score.v)


@final
class Joined:
    """The concat score: v · tanh(W_q q + W_h h + w coverage), the parts of W apart."""

    def __init__(self, score: ConcatScore, d_query: int, d_key: int) -> None:
        self.score, self.d_query, self.d_joined = score, d_query, d_query + d_key

    def keys(self, key: Float[Tensor, "b h k d"]) -> Float[Tensor, "b h k p"]:
        """W_h h."""
        return _projected(key, self.score.W[:, self.d_query : self.d_joined])

    def __call__(
        self,
        query: Float[Tensor, "b h q d"],
        key: Float[Tensor, "b h k p"],
        places: Places,
        covered: Float[Tensor, "b h q k"] | None,
    ) -> Float[Tensor, "b h q k"]:
        """The scores."""
        of_query, of_covered = self.score.W[:, : self.d_query], self.score.W[:, self.d_joined :]
        pairs = _pairs(query @ of_query, key, covered, of_covered)
        return torch.einsum("bhqkf,hf->bhqk", pairs.tanh(), self.score.v)


def _projected(
    key: Float[Tensor, "b h k d"], weight: Float[Tensor, "h d p"]
) -> Float[Tensor, "b h k p"]:
    """One product for all sentences together."""
    return torch.einsum("bhkd,hdp->bhkp", key, weight)


def _pairs(
    query: Tensor, key: Tensor, covered: Tensor | None, w: Float[Tensor, "h c p"]
) -> Float[Tensor, "b h q k p"]:
    pairs = query[..., :, None, :] + key[..., None, :, :]
    return pairs if covered is None else pairs + covered[..., None] * w[:, :, None]


COMPARISONS: Mapping[type, Callable[[Any, int, int], Comparison]] = {
    GeneralScore: Multiplied,
    AdditiveScore: Compared,
    ConcatScore: Joined,
}
"""Scores whose keys can be projected once; any other one is taken as it is."""


@final
class Covered:
    """A comparison as a score that knows what has been covered before each row, for a map."""

    held_per_pair = 0

    def __init__(self, comparison: Comparison, covered: Float[Tensor, "b h q k"]) -> None:
        self.comparison, self.covered = comparison, covered

    def __call__(
        self,
        query: Float[Tensor, "b h q d"],
        key: Float[Tensor, "b h k p"],
        places: Places | None = None,
    ) -> Float[Tensor, "b h q k"]:
        """The scores of these rows with these keys, wherever they stand."""
        places = places or Places.between(query.shape[-2], key.shape[-2], device=query.device)
        return self.comparison(query, key, places, self.covered[..., places.query, places.key])

    def as_dot(self, query: Float[Tensor, "b h q d"], key: Float[Tensor, "b h k p"]) -> None:
        """Every row has keys of its own."""
