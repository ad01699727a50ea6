"""Kernels: softmax attention with its log-sum-exp; only this file calls torch's private operators.

`softmax_attention` gives the context and, for each row, the logarithm of its normaliser, from
which any weight can be rebuilt. torch's public function does not return the second. On the CPU
and on CUDA torch's kernels are used, except for short sequences on CUDA (short_kernel.py); on other
devices plain tensor algebra gives the same numbers.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad

from regard.attention.links import wide

_ops = torch.ops.aten

HALF, FLASH_WIDTH = (torch.float16, torch.bfloat16), 256
"""The dtypes of the fastest CUDA kernel, and its widest head."""

CUDNN_QUERIES, CUDNN_GENERATION = 512, 9
"""Fewest queries, and the oldest GPUs (Hopper), for cuDNN's kernel. It is up to twice as fast as
flash at every length, but plans each new shape for a tenth of a second, and short sequences come in
many shapes. Measured on an H200."""

WHOLE = 8
"""The CUDA kernels need widths that are a multiple of this."""

TILE, TILE_WIDTHS = 64, (16, 32, 64, 128)
"""Longest sequence and head widths of the kernel for short sequences."""

MOST_HEADS = 65_535
"""Heads of a whole batch that our kernels over tiles take: a CUDA grid's second axis ends there."""

EMPTY_ROW = 0.0
"""The log-sum-exp of a row that sees nothing; its weights are masked anyway."""


def is_transformed() -> bool:
    """Whether torch.func (vmap, grad) runs the call, which takes no autograd function of ours."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def like_rows(vectors: Tensor, n: int | None = None, width: int | None = None) -> Tensor:
    """An empty tensor of as many vectors, or `n`, laid out as `b n h d`, ready to be joined."""
    b, h, n_own, d = vectors.shape
    shape = (b, n_own if n is None else n, h, d if width is None else width)
    return vectors.new_empty(shape).transpose(1, 2)


def softmax_attention(
    query: Float[Tensor, "b h q d"],
    key: Float[Tensor, "b h k d"],
    value: Float[Tensor, "b h k dv"],
    bias: Float[Tensor, "b h q k"] | None,
    *,
    valid: Bool[Tensor, "b k"] | None = None,
    is_causal: bool,
    scale: float,
) -> tuple[Float[Tensor, "b h q dv"], Float[Tensor, "b h q"]]:
    """softmax(scale · q kᵀ + bias) v and the log-sum-exp of each row; differentiable in q, k, v.

    `valid` says which keys exist. `is_causal` aligns the first query with the first key. The bias
    gets no gradient.
    """
    width = value.shape[-1]
    query, key, value = _same_width(query, key, value)
    if bias is None and _fits_a_tile(query, key):
        # Triton comes with torch only where there is a GPU
        from regard.attention.engine.short_kernel import AttendInATile

        out, lse = AttendInATile.apply(query, key, value, valid, is_causal, scale)
        return out[..., :width], lse.detach()
    # causal rows before the first real key see nothing, which cuDNN answers with NaN
    is_sure = bias is None and (valid is None or not is_causal)
    if is_sure and _suits_cudnn(query, key, value, is_causal=is_causal):
        out, lse = _by_cudnn(query, key, value, valid, is_causal=is_causal, scale=scale)
        return out[..., :width], lse.detach()
    bias = _with_hidden(bias, valid, query)
    if query.is_cpu and _holds_pairs(query, key):
        out, lse = _ops._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, is_causal, attn_mask=_for_all(bias, query), scale=scale
        )
    elif query.is_cuda and bias is None and query.dtype in HALF and query.shape[-1] <= FLASH_WIDTH:
        out, lse, *_ = _ops._scaled_dot_product_flash_attention(
            query, key, value, 0.0, is_causal, scale=scale
        )
    elif query.is_cuda:
        out, lse, _, _ = _ops._scaled_dot_product_efficient_attention(
            query, key, value, _aligned(bias, query), True, 0.0, is_causal, scale=scale
        )
        lse = lse[..., : query.shape[-2]].nan_to_num(posinf=EMPTY_ROW, neginf=EMPTY_ROW)
    else:
        out, lse = _algebra(query, key, value, bias, is_causal=is_causal, scale=scale)
    return out[..., :width], lse.detach()


def softmax_attention_backward(
    grad: Float[Tensor, "b h q dv"],
    query: Float[Tensor, "b h q d"],
    key: Float[Tensor, "b h k d"],
    value: Float[Tensor, "b h k dv"],
    out: Float[Tensor, "b h q dv"],
    lse: Float[Tensor, "b h q"],
    bias: Float[Tensor, "b h q k"] | None,
    *,
    valid: Bool[Tensor, "b k"] | None = None,
    is_causal: bool = False,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `softmax_attention`, computed from its results.

    `out` and `lse` may be those of a larger attention, of which these keys are a part.
    """
    d, width = key.shape[-1], value.shape[-1]
    q, k, v = _same_width(query, key, value)
    if fill := v.shape[-1] - width:
        grad, out = pad(grad, (0, fill)), pad(out, (0, fill))
    bias = _with_hidden(bias, valid, query)
    if query.is_cpu and _holds_pairs(query, key):
        found = _ops._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, q, k, v, out, lse, 0.0, is_causal, attn_mask=_for_all(bias, query), scale=scale
        )
    elif query.is_cuda:
        found = _on_cuda_backward(grad, q, k, v, out, lse, bias, is_causal=is_causal, scale=scale)
    else:
        found = _algebra_backward(grad, q, k, v, out, lse, bias, is_causal=is_causal, scale=scale)
    return found[0][..., :d], found[1][..., :d], found[2][..., :width]


def _on_cuda_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    bias: Tensor | None,
    *,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, ...]:
    """By cuDNN's kernel, by flash, or under a bias and in single precision by the efficient one."""
    seed = torch.zeros((), dtype=torch.int64, device=query.device)
    lse, lengths = lse.contiguous(), (query.shape[-2], key.shape[-2])
    if bias is None and _suits_cudnn(query, key, value, is_causal=is_causal):
        # contiguous vectors are all that it needs
        grad, out = (x if x.stride(-1) == 1 else x.contiguous() for x in (grad, out))
        return _ops._scaled_dot_product_cudnn_attention_backward(
            grad, query, key, value, out, lse[..., None], seed, seed, None, None, None,
            *lengths, 0.0, is_causal, scale=scale,
        )  # fmt: skip
    grad, out = grad.contiguous(), out.contiguous()
    if bias is None and query.dtype in HALF and query.shape[-1] <= FLASH_WIDTH:
        return _ops._scaled_dot_product_flash_attention_backward(
            grad, query, key, value, out, lse, None, None, *lengths, 0.0, is_causal, seed, seed,
            scale=scale,
        )  # fmt: skip
    # this kernel reads whole groups of rows, and the context as its forward pass lays it out
    lse = pad(lse, (0, -lse.shape[-1] % 32), value=torch.inf)
    out = like_rows(out).copy_(out)
    wanted = [True, True, True, False]
    return _ops._scaled_dot_product_efficient_attention_backward(
        grad, query, key, value, _aligned(bias, query), out, lse, seed, seed, 0.0, wanted,
        is_causal, scale=scale,
    )[:3]  # fmt: skip


def _algebra_backward(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    bias: Tensor | None,
    *,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    dtype = query.dtype
    query, key, value, grad, out = (wide(x) for x in (query, key, value, grad, out))
    scores = query @ key.mT * scale
    scores = scores if bias is None else scores + bias
    if is_causal:
        scores = scores.masked_fill(_late(scores), -torch.inf)
    weights = (scores - lse.unsqueeze(-1)).exp()
    level = (grad * out).sum(-1, keepdim=True)
    d_scores = weights * (grad @ value.mT - level) * scale
    d_query, d_key, d_value = d_scores @ key, d_scores.mT @ query, weights.mT @ grad
    return d_query.to(dtype), d_key.to(dtype), d_value.to(dtype)


def _holds_pairs(query: Tensor, key: Tensor) -> bool:
    """Whether there is a pair at all: without one the CPU's kernel ends the process."""
    return query.shape[:-1].numel() > 0 and key.shape[-2] > 0


def _fits_a_tile(query: Tensor, key: Tensor) -> bool:
    """Whether one program of the kernel for short sequences can hold a head's whole matrix."""
    is_short = query.shape[-2] <= TILE and key.shape[-2] <= TILE
    return query.is_cuda and query.dtype in HALF and is_short and query.shape[-1] in TILE_WIDTHS


def _suits_cudnn(query: Tensor, key: Tensor, value: Tensor, *, is_causal: bool) -> bool:
    """Whether cuDNN's kernel takes the case, and has rows enough to repay its plan."""
    if not query.is_cuda or query.dtype not in HALF or query.shape[-2] < CUDNN_QUERIES:
        return False
    if _generation(query.device) < CUDNN_GENERATION:
        return False
    asked = torch.backends.cuda.SDPAParams(query, key, value, None, 0.0, is_causal, False)
    return torch.backends.cuda.can_use_cudnn_attention(asked)


def _generation(device: torch.device) -> int:
    """The first number of a GPU's capability, which takes longer to ask for than to remember."""
    if device not in _GENERATIONS:
        _GENERATIONS[device] = torch.cuda.get_device_capability(device)[0]
    return _GENERATIONS[device]


_GENERATIONS: dict[torch.device, int] = {}


def _by_cudnn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    valid: Tensor | None,
    *,
    is_causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp; padding is a bias with one row for all queries of a sentence."""
    sees: Tensor | None = None
    bias: Tensor | None = None
    if valid is not None:
        # a row that sees nothing would be NaN: it sees all keys, and the result is set to zero
        sees = valid.any(-1)
        bias = _with_hidden(None, valid | ~sees[:, None], query)
    out, lse, *_ = _ops._scaled_dot_product_cudnn_attention(
        query, key, value, bias, True, 0.0, is_causal, False, scale=scale
    )
    lse = lse.view(out.shape[:-1])
    if sees is None:
        return out, lse
    return out * sees[:, None, None, None], lse.where(sees[:, None, None], EMPTY_ROW)


def _with_hidden(bias: Tensor | None, valid: Tensor | None, query: Tensor) -> Tensor | None:
    """The bias with minus infinity for padded keys; without a bias, one row for all queries."""
    if valid is None:
        return bias
    hidden = ~valid[:, None, None]
    bias = query.new_zeros(hidden.shape) if bias is None else bias
    return bias.masked_fill(hidden, -torch.inf)


def _same_width(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Pad vectors with zeros to the one width that kernels need; no dot product changes."""
    d, dv = key.shape[-1], value.shape[-1]
    width = max(d, dv)
    width += -width % WHOLE if query.is_cuda else 0
    if d == dv == width:
        return query, key, value
    return pad(query, (0, width - d)), pad(key, (0, width - d)), pad(value, (0, width - dv))


def _aligned(bias: Tensor | None, query: Tensor) -> Tensor | None:
    """The bias of every query in rows of a multiple of 16 numbers, as the CUDA kernel needs."""
    if bias is not None and (short := -bias.shape[-1] % 16):
        bias = pad(bias, (0, short))[..., :-short]
    return _for_all(bias, query)


def _for_all(bias: Tensor | None, query: Tensor) -> Tensor | None:
    """The bias expanded to every query, without a copy."""
    return None if bias is None else bias.expand(*query.shape[:-1], -1)


def _algebra(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, *, is_causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    scores = query @ key.mT * scale
    scores = scores if bias is None else scores + bias
    if is_causal:
        scores = scores.masked_fill(_late(scores), -torch.inf)
    # finite where hidden, so that a row that sees nothing has finite gradients
    hidden = scores == -torch.inf
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    lse = scores.logsumexp(-1, keepdim=True)
    weights = (scores - lse).exp().masked_fill(hidden, 0.0)
    return weights @ value, lse.masked_fill(hidden.all(-1, keepdim=True), EMPTY_ROW).squeeze(-1)


def _late(scores: Tensor) -> Bool[Tensor, "q k"]:
    """The keys after each query."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
