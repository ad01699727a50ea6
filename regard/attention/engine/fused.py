"""Fused path: softmax of dot products under a mask that torch's kernels support; O(q) memory."""

from typing import final

from regard.attention.attend import Attended
from regard.attention.engine.case import Case, Cost, Path, not_softmax_of_dot
from regard.attention.engine.kernels import softmax_attention
from regard.attention.links import SoftRows, keys_that_exist


@final
class FusedPath(Path):
    """One kernel computes scores, softmax and context without ever storing a weight."""

    name = "fused"

    def why_not(self, case: Case) -> str | None:
        """The reason, if not a softmax of dot products, or if kernels lack the mask or relation."""
        if reason := not_softmax_of_dot(case):
            return reason
        if not case.relation.is_zero:
            return f"{type(case.relation).__name__} changes the scores inside the kernel"
        if case.kernel_mask is None:
            return f"the mask {type(case.mask).__name__} is none that the kernels know"
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
        """Call the kernel."""
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


def _is_square(case: Case) -> bool:
    return case.places.past == 0 and case.query.shape[-2] == case.key.shape[-2]


def _sees_all(case: Case) -> bool:
    """Whether the causal mask hides nothing: a single query after a cache sees every key."""
    return case.query.shape[-2] == 1 and case.places.past == case.key.shape[-2] - 1
