"""Memory-compressed attention: every few keys, and values, are merged by a strided convolution."""

import numpy as np
import pytest
import torch

from regard.attention import Chain, all_of, given, padding
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.selections.hard import HardSelection
from regard.dims import Dims
from regard.errors import MeetingError, SettingError
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles

DIMS = Dims(d_model=5, n_heads=3, d_value=7)
CAUSAL = CausalPattern()


def memory(stride=3):
    return MemoryCompressedMemory(DIMS, stride=stride).double()


def inputs(n_keys=13, n_queries=None):
    return {
        "query": doubles(2, 3, n_queries or n_keys, 5, requires_grad=True),
        "key": doubles(2, 3, n_keys, 5, requires_grad=True),
        "value": doubles(2, 3, n_keys, 7, requires_grad=True),
    }


def numbers(part, x):
    return [t.detach().numpy() for t in (*x.values(), part.C_K, part.C_V)]


def merged(tokens, kernel):
    """Each stride of tokens through the kernel; what is missing at the end counts as zero."""
    stride = len(kernel)
    slots = []
    for start in range(0, len(tokens), stride):
        part = tokens[start : start + stride]
        slots.append(sum(part[r] @ kernel[r] for r in range(len(part))))
    return slots


def witness(query, key, value, C_K, C_V, *, is_causal, past=0):
    """Slot by slot: complete ones for a causal query, and the first token before there is one."""
    stride = C_K.shape[1]
    out = np.zeros((*query.shape[:-1], value.shape[-1]))
    for b, h, i in np.ndindex(query.shape[:3]):
        keys, values = merged(key[b, h], C_K[h]), merged(value[b, h], C_V[h])
        complete = (i + past + 1) // stride if is_causal else len(keys)
        keys, values = keys[:complete], values[:complete]
        if not keys:
            keys, values = [key[b, h, 0]], [value[b, h, 0]]
        weights = np.exp(np.array(keys) @ query[b, h, i] / np.sqrt(query.shape[-1]))
        out[b, h, i] = weights / weights.sum() @ np.array(values)
    return out


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("n_keys", [1, 2, 3, 13, 15])
def test_causal_attention_over_complete_slots_is_the_equation(stride, n_keys):
    part, x = memory(stride), inputs(n_keys)
    want = witness(*numbers(part, x), is_causal=True)
    assert_close("context", Chain(memory=part)(*x.values(), CAUSAL).context, want)


@pytest.mark.parametrize("n_keys", [1, 3, 13])
def test_attention_over_a_source_sees_the_filled_up_slot_too(n_keys):
    part, x = memory(), inputs(n_keys, n_queries=11)
    want = witness(*numbers(part, x), is_causal=False)
    assert_close("context", Chain(memory=part)(*x.values()).context, want)


@pytest.mark.parametrize("past", [0, 1, 2, 8])
def test_queries_behind_a_cache_count_from_its_end(past):
    part, x = memory(), inputs(13, n_queries=13 - past)
    got = Chain(memory=part)(*x.values(), CAUSAL, Places.between(13 - past, 13, past=past)).context
    assert_close("context", got, witness(*numbers(part, x), is_causal=True, past=past))


def test_identity_kernels_of_stride_one_are_causal_attention():
    part, x = memory(stride=1), inputs()
    part.C_K.data.copy_(torch.eye(5))
    part.C_V.data.copy_(torch.eye(7))
    got = Chain(memory=part)(*x.values(), CAUSAL).context
    want = Chain(pattern=CAUSAL)(*x.values()).context
    assert_close("context", got, want)
    assert_same_gradients(got, want, x)


def test_kernels_that_average_merge_by_the_mean():
    part, x = memory(), inputs(15)
    part.C_K.data.copy_(torch.eye(5, dtype=torch.float64) / 3)
    part.C_V.data.copy_(torch.eye(7, dtype=torch.float64) / 3)
    key, value = (x[name].unflatten(2, (5, 3)).mean(3) for name in ("key", "value"))
    got, want = Chain(memory=part)(*x.values()).context, Chain()(x["query"], key, value).context
    assert_close("context", got, want)


@pytest.mark.parametrize("changed", range(12))
def test_no_row_sees_a_later_token_at_any_offset(changed):
    part, x = memory(), {name: t.detach() for name, t in inputs(12).items()}
    chain = Chain(memory=part)
    before = chain(*x.values(), CAUSAL).context
    x["key"][:, :, changed], x["value"][:, :, changed] = 29.0, -31.0
    after = chain(*x.values(), CAUSAL).context
    # a token counts from the end of its slot on; the first token alone serves rows 0 and 1
    counts_from = changed - changed % 3 + 2
    early = torch.arange(12) < (0 if changed == 0 else counts_from)
    assert torch.equal(before[:, :, early], after[:, :, early])
    assert (before[:, :, ~early] != after[:, :, ~early]).any()


def test_rows_before_the_first_complete_slot_take_the_first_value():
    x = inputs()
    context = Chain(memory=memory())(*x.values(), CAUSAL).context
    for row in (0, 1):
        assert_close(f"row {row}", context[:, :, row], x["value"][:, :, 0])
    assert (context[:, :, 2] - x["value"][:, :, 0]).abs().min() > 1e-9


@pytest.mark.parametrize("row", range(3, 12))
def test_the_unfinished_slot_receives_no_gradient(row):
    x = inputs()
    context = Chain(memory=memory())(*x.values(), CAUSAL).context
    grads = torch.autograd.grad(context[:, :, row].sum(), (x["key"], x["value"]))
    ended = (row + 1) // 3 * 3
    for name, grad in zip(("key", "value"), grads, strict=True):
        assert grad[:, :, ended:].abs().max() == 0, name
    assert grads[1][:, :, :ended].abs().min() > 0


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("more", [1, 2, 3, 7])
def test_padding_more_changes_nothing(is_causal, more):
    part, x = memory(), {name: t.detach() for name, t in inputs().items()}
    chain = Chain(memory=part)
    mask = [CAUSAL] if is_causal else []
    want = chain(*x.values(), all_of(*mask, padding(torch.tensor([11, 13])))).context
    key, value = (
        torch.cat([x[n], 37 + doubles(*x[n].shape)[:, :, :more]], 2) for n in ("key", "value")
    )
    wider = all_of(*mask, padding(torch.tensor([11, 13]), 13 + more))
    got = chain(x["query"], key, value, wider).context
    assert_close("context", got, want)


def test_a_mask_that_speaks_of_keys_to_come_is_cut():
    part, x = memory(), inputs(7)
    long, short = (all_of(CAUSAL, padding(torch.tensor([5, 7]), n)) for n in (11, 7))
    chain = Chain(memory=part)
    assert_close("context", chain(*x.values(), long).context, chain(*x.values(), short).context)


def test_a_hard_row_before_the_first_complete_slot_takes_the_first_value():
    x = inputs()
    attended = Chain(memory=memory(), select=HardSelection())(*x.values(), CAUSAL)
    for row in (0, 1):
        assert_close(f"row {row}", attended.context[:, :, row], x["value"][:, :, 0])
    assert_close("row sums", attended.map.dense().sum(-1), torch.ones(2, 3, 13))


def test_rows_over_visible_slots_sum_to_one():
    weights = Chain(memory=memory())(*inputs().values(), CAUSAL).map
    assert weights.columns == "memory slots"
    assert_close("row sums", weights.dense().sum(-1), torch.ones(2, 3, 13))


@pytest.mark.parametrize(("n_keys", "slots"), [(1, 2), (3, 2), (4, 3), (13, 6)])
def test_causal_attention_has_one_slot_for_each_stride_and_the_first_tokens(n_keys, slots):
    part = memory()
    assert Chain(memory=part)(*inputs(n_keys).values(), CAUSAL).map.shape[-1] == slots


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradcheck_in_double_precision(is_causal):
    part = MemoryCompressedMemory(Dims(d_model=2, n_heads=2), stride=2).double()
    chain, mask = Chain(memory=part), [CAUSAL] if is_causal else []
    tensors = [doubles(1, 2, 5, 2, requires_grad=True) for _ in range(3)]

    def run(q, k, v, *_):
        return chain(q, k, v, *mask).context

    assert torch.autograd.gradcheck(run, [*tensors, part.C_K, part.C_V])


@pytest.mark.parametrize("hides", ["window", "matrix"])
def test_another_pattern_is_refused_when_it_comes_with_the_batch(hides):
    mask = {
        "window": SlidingWindowPattern(size=3),
        "matrix": given(torch.ones(13, 13, dtype=torch.bool)),
    }[hides]
    said = (
        "memory_compressed: only causal and padding masks can be honoured, because a slot holds "
        "several keys"
    )
    with pytest.raises(MeetingError, match=said):
        Chain(memory=memory())(*inputs().values(), mask)


def test_another_pattern_is_refused_when_the_chain_is_made():
    said = (
        "chain: sliding_window and memory_compressed cannot meet: "
        "a slot mixes positions that the pattern would tell apart; take full"
    )
    with pytest.raises(MeetingError, match=said):
        Chain(memory=memory(), pattern=SlidingWindowPattern(size=3))


def test_an_empty_stride_is_refused():
    said = r"memory_compressed: stride must be at least 1, got 0\."
    with pytest.raises(SettingError, match=said):
        memory(stride=0)
