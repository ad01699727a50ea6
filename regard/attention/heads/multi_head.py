"""Multi-head attention: several attentions in parallel, each in its own small space, then mixed.

    head[i] = chain(Q W_Q[i], K W_K[i], V W_V[i]),   out = concat(head) W_O

Paper: Vaswani et al. 2017, section 3.2.2.
Cost: projections O(n · m²), then the chain's cost for each of the h heads of width m / h.
"""

from regard.attention.chain import Chain
from regard.attention.given_links import given_link
from regard.attention.heads.grouped_query import GroupedQueryHeads
from regard.attention.links import Memory, Pattern, Relation, Score, Selection
from regard.dims import Dims, check_dims
from regard.errors import SettingError
from regard.positions.rotary import RotaryPositions


def multi_head(
    dims: Dims,
    *,
    chain: Chain | None = None,
    score: Score | str | None = None,
    relation: Relation | str | None = None,
    pattern: Pattern | str | None = None,
    select: Selection | str | None = None,
    memory: Memory | str | None = None,
    has_bias: bool = False,
    rotary: RotaryPositions | None = None,
) -> GroupedQueryHeads:
    """Grouped-query heads with as many groups as heads, so each has its own keys and values.

    The links stand in a `chain`, or are given here one by one, as objects or by name:
    `multi_head(dims, select="sparsemax", relation="shaw:clip=16")`. Names get a head's sizes.
    """
    check_dims("multi_head", dims)
    places = {
        "score": score,
        "relation": relation,
        "pattern": pattern,
        "select": select,
        "memory": memory,
    }
    given = {keyword: link for keyword, link in places.items() if link is not None}
    if chain is not None and given:
        raise SettingError(
            f"multi_head: chain holds all links, so {' and '.join(given)} would change nothing. "
            "Give the links in the chain, or leave chain out."
        )
    if given:
        head = dims.head()
        links = {
            keyword: given_link("multi_head", keyword, link, head)
            for keyword, link in given.items()
        }
        chain = Chain(**links)
    return GroupedQueryHeads(
        dims, chain=chain, n_groups=dims.n_heads, has_bias=has_bias, rotary=rotary
    )
