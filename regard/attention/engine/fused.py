"""Fused path: softmax of dot products under a mask that torch's kernels support; O(q) memory.

A bias that depends on the distance alone is one vector: with the rows in reverse order, the bias of
row i and key j is its element i + j, a view that the CPU's kernel reads without a copy.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.attend import Attended
from regard.attention.engine.case import Case, Cost, Path, not_softmax_of_dot
from regard.attention.engine.kernels import softmax_attention
from regard.attention.links import SoftRows, keys_that_exist
from regard.places import Places


@final
class FusedPath(Path):
    """One kernel computes scores, softmax and context without ever storing a weight."""

    name = "fused"

    def why_not(self, case: Case) -> str | None:
        """The reason, if not a softmax of dot products, or if kernels lack the mask or relation."""
        if reason := not_softmax_of_dot(case):
            return reason
        if case.kernel_mask is None:
            return f"the kernels do not know the mask {type(case.mask).__name__}"
        if not case.relation.is_zero:
            return _not_one_vector(case)
        if case.kernel_mask.valid is not None and case.places.past is None:
            return "the rows or columns have gaps"
        if case.kernel_mask.is_causal and not (_is_square(case) or _sees_all(case)):
            return "several queries stand behind a cache, which the kernels align wrongly"
        return None

    def why(self, case: Case) -> str:
        """The kernels compute a softmax of dot products."""
        return "a softmax of dot products under a mask that torch's kernels know"

    def cost(self, case: Case) -> Cost:
        """The cost of the visible pairs' products, and one normaliser per row."""
        width = case.query.shape[-1] + case.value.shape[-1]
        mask = case.kernel_mask
        halves = 1 if mask is not None and mask.is_causal and _is_square(case) else 2
        rows = case.n_pairs // case.key.shape[-2]
        return Cost(multiply_adds=halves * case.n_pairs * width // 2, numbers=rows)

    def run(self, case: Case) -> Attended:
        """Call the kernels."""
        if not case.relation.is_zero:
            return _under_bias(case)
        assert case.dot is not None and case.softmax is not None and case.kernel_mask is not None
        valid = case.kernel_mask.valid
        context, lse = softmax_attention(
            case.dot.query,
            case.dot.key,
            case.value,
            None,
            valid=None if valid is None else keys_that_exist(valid, case.key.shape[-2]),
            is_causal=case.kernel_mask.is_causal and _is_square(case) and not _sees_all(case),
            scale=case.dot.scale * case.softmax,
        )
        return case.attended(context, SoftRows(lse.unsqueeze(-1)))


CAUSAL_ROWS = 512
"""Rows of a causal map under a bias that are computed at a time, against the keys before them."""


def _not_one_vector(case: Case) -> str | None:
    """Why the relation is not a fixed vector of biases by distance that the CPU's kernel takes."""
    name = type(case.relation).__name__
    if case.relation.reads_query or not case.relation.is_movable:
        return f"{name} changes the scores inside the kernel"
    # tensors without memory stand for those of a CPU
    on_cpu = case.query.is_cpu or case.query.is_meta
    if not on_cpu or case.query.dtype not in (torch.float32, torch.float64):
        return f"only the CPU's kernel, in single or double precision, takes {name}'s bias by view"
    bias = case.relation.as_bias(case.places.tile(slice(0, 1), slice(0, 1)))
    if bias is None:
        return f"{name} changes the scores inside the kernel"
    if bias.requires_grad and torch.is_grad_enabled():
        return f"{name} learns its bias, which the kernels cannot"
    if case.places.past is None:
        return "the rows or columns have gaps"
    if case.kernel_mask is not None and case.kernel_mask.valid is not None:
        return "padding would need a bias for each sentence"
    return None


def _under_bias(case: Case) -> Attended:
    """Rows in reverse order, so that their biases are overlapping parts of one vector."""
    assert case.dot is not None and case.softmax is not None and case.kernel_mask is not None
    n_queries, n_keys = case.query.shape[-2], case.key.shape[-2]
    is_causal, past = case.kernel_mask.is_causal, case.places.past or 0
    vector, query = _bias_by_distance(case, is_causal=is_causal), case.dot.query.flip(-2)
    strides = (0, vector.stride(0) if len(vector) > 1 else 0, 1, 1)
    size = CAUSAL_ROWS if is_causal else max(1, n_queries)
    parts = []
    for first in range(0, max(1, n_queries), size):
        n_rows = min(size, n_queries - first)
        n_seen = min(n_keys, past + n_queries - first) if is_causal else n_keys
        bias = vector[:, first:].as_strided((*case.query.shape[:2], n_rows, n_seen), strides)
        part = softmax_attention(
            query[..., first : first + n_rows, :],
            case.dot.key[..., :n_seen, :],
            case.value[..., :n_seen, :],
            bias,
            is_causal=False,
            scale=case.dot.scale * case.softmax,
        )
        parts.append(part)
    context, lse = (torch.cat(each, 2).flip(2) for each in zip(*parts, strict=True))
    return case.attended(context, SoftRows(lse.unsqueeze(-1)))


def _bias_by_distance(case: Case, *, is_causal: bool) -> Float[Tensor, "h l"]:
    """The bias of the last query and every key, the first queries' distances to it included."""
    assert case.softmax is not None and case.places.past is not None
    n_queries, n_keys = case.query.shape[-2], case.key.shape[-2]
    n_distances, last = n_queries + n_keys - 1, case.places.past + n_queries - 1
    places = Places(torch.tensor([[last]]), torch.arange(n_distances)[None], n_distances)
    bias = case.relation.as_bias(places)
    assert bias is not None
    # a temperature divides the whole score, the bias included
    vector = (bias.detach() * case.softmax).to(case.query.dtype).reshape(-1, n_distances)
    return vector.masked_fill(places.offsets > 0, -torch.inf) if is_causal else vector


def _is_square(case: Case) -> bool:
    return case.places.past == 0 and case.query.shape[-2] == case.key.shape[-2]


def _sees_all(case: Case) -> bool:
    """Whether the causal mask hides nothing: a single query after a cache sees every key."""
    return case.query.shape[-2] == 1 and case.places.past == case.key.shape[-2] - 1
