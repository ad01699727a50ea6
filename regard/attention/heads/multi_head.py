"""Multi-head attention: several attentions in parallel, each in its own small space, then mixed.

    head[i] = chain(Q W_Q[i], K W_K[i], V W_V[i]),   out = concat(head) W_O

Paper: Vaswani et al. 2017, section 3.2.2.
Cost: projections O(n · m²), then the chain's cost for each of the h heads of width m / h.
"""

from regard.attention.chain import Chain
from regard.attention.heads.grouped_query import GroupedQueryHeads
from regard.dims import Dims
from regard.positions.rotary import RotaryPositions


def multi_head(
    dims: Dims,
    *,
    chain: Chain | None = None,
    has_bias: bool = False,
    rotary: RotaryPositions | None = None,
) -> GroupedQueryHeads:
    """Grouped-query heads with as many groups as heads, so each has its own keys and values."""
    return GroupedQueryHeads(
        dims, chain=chain, n_groups=dims.n_heads, has_bias=has_bias, rotary=rotary
    )
