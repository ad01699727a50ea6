"""Heads → their portable form: every link of the chain is asked for what it is in other terms.

score       as_dot(I, I): what queries and keys are multiplied by, and the factor
selection   as_softmax(): one more factor
relation    as_banded(I): vectors or numbers by distance
pattern     as_kernel(): everything, or the past
"""

import torch
from torch import Tensor

from regard.attention import GroupedQueryHeads
from regard.attention.banded import Banded
from regard.attention.links import Dot
from regard.attention.tables import name_of
from regard.errors import NotPortable
from regard.models.portable.forms import PortableAttention, PortableLinear


def linear_form(layer: torch.nn.Linear) -> PortableLinear:
    """A linear layer as it is."""
    return PortableLinear(
        layer.weight.detach(), None if layer.bias is None else layer.bias.detach()
    )


@torch.no_grad()
def attention_form(heads: GroupedQueryHeads, *, is_causal: bool) -> PortableAttention:
    """The heads, which are those of a layer that hides the future or of one that does not."""
    chain, n_heads = heads.chain, heads.dims.n_heads
    if chain.memory is not None:
        raise NotPortable(
            f"{name_of(chain.memory)} shortens keys before attention, which no other runtime does; "
            "take 'full' instead"
        )
    kernel = chain.pattern.as_kernel()
    if kernel is None or kernel.valid is not None or kernel.is_causal > is_causal:
        raise NotPortable(
            f"the pattern {name_of(chain.pattern)} hides keys that other runtimes show; take 'full'"
        )
    if heads.query_norm is not None or heads.key_norm is not None:
        raise NotPortable(
            "each head norms its queries and keys, which other runtimes do not; take "
            "model.norms_heads = false"
        )
    if heads.rotary is not None and not heads.rotary.is_plain:
        raise NotPortable(
            "its rotary positions turn by other waves than those of the paper; take rotary "
            "without settings"
        )
    weight = heads.W_Q.weight
    identity = torch.eye(heads.dims.d_head, dtype=weight.dtype, device=weight.device)
    identity = identity.expand(1, n_heads, -1, -1)
    dot = chain.score.as_dot(identity, identity)
    if dot is None:
        raise NotPortable(
            f"the score {name_of(chain.score)} is no dot product, and other runtimes have no "
            "other; take model.score = 'scaled_dot'"
        )
    sharpness = chain.select.as_softmax()
    if sharpness is None:
        raise NotPortable(
            f"the selection {name_of(chain.select)} is no softmax, and other runtimes have no "
            "other; take model.select = 'soft'"
        )
    each = n_heads // heads.n_groups
    form = PortableAttention(
        query=_projected(linear_form(heads.W_Q), dot.query),
        key=_projected(_repeated(heads.W_K, heads.n_groups, each), dot.key),
        value=_repeated(heads.W_V, heads.n_groups, each),
        output=linear_form(heads.W_O),
        n_heads=n_heads,
        scale=dot.scale * sharpness,
        is_rotary=heads.rotary is not None,
    )
    if chain.relation.is_zero:
        return form
    banded = chain.relation.as_banded(identity)
    if banded is None:
        raise NotPortable(
            f"the relation {name_of(chain.relation)} knows more of a pair of words than their "
            "distance; leave model.relation out"
        )
    return _related(form, banded, dot, sharpness, reads_query=chain.relation.reads_query)


def _related(
    form: PortableAttention, banded: Banded, dot: Dot, sharpness: float, *, reads_query: bool
) -> PortableAttention:
    n_heads, d = form.n_heads, form.d_head
    values = banded.to_values
    form = form._replace(
        values_by_distance=None if values is None else values.expand(n_heads, -1, -1),
        slope=None if banded.slope is None else banded.slope * sharpness,
    )
    if banded.to_keys is not None:
        return form._replace(keys_by_distance=banded.to_keys.expand(n_heads, -1, -1))
    assert banded.by_distance is not None
    by_distance = banded.by_distance[0]
    if reads_query:
        # the rows are those of the identity: what each channel of a query adds
        vectors = by_distance.expand(n_heads, d, -1).mT / dot.scale
        return form._replace(keys_by_distance=vectors)
    return form._replace(bias_by_distance=by_distance[:, 0].expand(n_heads, -1) * sharpness)


def _projected(linear: PortableLinear, by_head: Tensor) -> PortableLinear:
    """A projection to heads, followed by one matrix for each head."""
    turned = by_head[0].mT

    def each(rows: Tensor) -> Tensor:
        return (turned @ rows.reshape(len(turned), turned.shape[-1], -1)).reshape(
            -1, *rows.shape[1:]
        )

    return PortableLinear(each(linear.weight), None if linear.bias is None else each(linear.bias))


def _repeated(layer: torch.nn.Linear, n_groups: int, each: int) -> PortableLinear:
    """Keys or values of groups, repeated for every head of each."""

    def repeated(rows: Tensor) -> Tensor:
        if each == 1:
            return rows
        return rows.unflatten(0, (n_groups, -1)).repeat_interleave(each, 0).flatten(0, 1)

    weight, bias = linear_form(layer)
    return PortableLinear(repeated(weight), None if bias is None else repeated(bias))
