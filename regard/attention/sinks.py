"""Sinks: a number of each head takes a share of the weight of every row, and gives nothing for it.

    a[i,j] = exp(e[i,j] - lse[i]),   lse[i] = log(exp(s[h]) + sum_j exp(e[i,j]))

A row's weights sum to less than 1, so that a head may look at nothing.

Paper: Xiao et al. 2024 (attention sinks); as a learned number of each head, OpenAI 2025 (gpt-oss).
Cost: that of a softmax, in blocks of queries.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.links import Selection, SoftRows, log_normaliser, normalised
from regard.attention.shapes import Mask, Queries, Scores, Weights
from regard.places import Places


@final
class SinkSelection(nn.Module, Selection):
    """The softmax beside a sink; the numbers belong to the caller's model and are no copy."""

    is_movable, own_name = True, "soft_with_sink"

    def __init__(self, sinks: Float[Tensor, " h"]) -> None:
        super().__init__()
        # not a parameter of this part, since a model would save it twice
        self.held = (sinks,)

    def summarise(self, scores: Scores, mask: Mask, query: Queries, places: Places) -> SoftRows:
        """The logarithm of each row's normaliser, the sink included."""
        lse = log_normaliser(scores, mask)
        return SoftRows(torch.logaddexp(lse, self.held[0].to(lse.dtype).view(-1, 1, 1)))

    def weigh(self, scores: Scores, mask: Mask, rows: SoftRows, places: Places) -> Weights:
        """Each key's share."""
        return normalised(scores, mask, rows.lse)
