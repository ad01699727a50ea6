"""Linformer: learned mixtures of all keys, and of all values, take the place of the sequence."""

import numpy as np
import pytest
import torch

from regard.attention import FULL, Chain, given, multi_head, padding
from regard.attention.memories.linformer import SHARING, LinformerMemory
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.dims import Dims
from regard.errors import LengthError, MeetingError, SettingError, ShapeError, UnknownChoice
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles

DIMS = Dims(d_model=5, n_heads=3, max_len=17)


def memory(slots=7, **settings):
    return LinformerMemory(DIMS, slots=slots, **settings).double()


def inputs(n_keys=13):
    return {
        "query": doubles(2, 3, 11, 5, requires_grad=True),
        "key": doubles(2, 3, n_keys, 5, requires_grad=True),
        "value": doubles(2, 3, n_keys, 2, requires_grad=True),
    }


def witness(query, key, value, E, F, exists):
    """Equation 7 in loops over batch and heads; keys that do not exist are zeros."""
    out = np.zeros((*query.shape[:-1], value.shape[-1]))
    for b, h in np.ndindex(query.shape[:2]):
        n = key.shape[2]
        short_key = E[h % len(E)][:, :n] @ (key[b, h] * exists[b][:, None])
        short_value = F[h % len(F)][:, :n] @ (value[b, h] * exists[b][:, None])
        weights = np.exp(query[b, h] @ short_key.T / np.sqrt(query.shape[-1]))
        out[b, h] = weights / weights.sum(-1, keepdims=True) @ short_value
    return out


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("n_keys", [17, 13, 1])
def test_attention_over_slots_is_the_equation(sharing, n_keys):
    part, x = memory(sharing=sharing), inputs(n_keys)
    exists = np.ones((2, n_keys))
    want = witness(*(t.detach().numpy() for t in (*x.values(), part.E, part.F)), exists)
    assert_close("context", Chain(memory=part)(*x.values()).context, want)


def test_padded_keys_are_mixed_in_as_zeros():
    part, x = memory(), inputs()
    mask = padding(torch.tensor([5, 11]), 13)
    want = witness(*(t.detach().numpy() for t in (*x.values(), part.E, part.F)), mask.valid.numpy())
    assert_close("context", Chain(memory=part)(*x.values(), mask).context, want)


def test_as_many_slots_as_keys_and_identity_mixtures_are_full_attention():
    part, x = memory(slots=17), inputs(17)
    part.E.data.copy_(torch.eye(17))
    got, want = Chain(memory=part)(*x.values()).context, Chain()(*x.values()).context
    assert_close("context", got, want)
    assert_same_gradients(got, want, x)


def test_masked_tokens_have_no_effect_and_no_gradient():
    part, x = memory(), inputs()
    chain, mask = Chain(memory=part), padding(torch.tensor([5, 11]), 13)
    before = chain(*x.values(), mask).context
    key_grad, value_grad = torch.autograd.grad(before.sum(), (x["key"], x["value"]))
    assert key_grad[0, :, 5:].abs().max() == 0
    assert value_grad[1, :, 11:].abs().max() == 0
    x["key"].data[0, :, 5:], x["value"].data[0, :, 5:] = 97.0, -89.0
    assert torch.equal(before, chain(*x.values(), mask).context)


def test_a_sentence_of_padding_only_gives_zeros():
    part, x = memory(), inputs()
    context = Chain(memory=part)(*x.values(), padding(torch.tensor([0, 13]), 13)).context
    assert context[0].abs().max() == 0
    assert context[1].abs().min() > 0


def test_rows_over_the_slots_sum_to_one():
    weights = Chain(memory=memory())(*inputs().values()).map
    assert weights.columns == "memory slots"
    assert_close("row sums", weights.dense().sum(-1), torch.ones(2, 3, 11))


@pytest.mark.parametrize("sharing", SHARING)
def test_gradcheck_in_double_precision(sharing):
    part = LinformerMemory(Dims(d_model=3, n_heads=2, max_len=4), slots=2, sharing=sharing).double()
    chain = Chain(memory=part)
    tensors = [doubles(1, 2, n, 3, requires_grad=True) for n in (2, 3, 3)]
    E, F = part.E, part.F

    def run(q, k, v, *_):
        return chain(q, k, v).context

    assert torch.autograd.gradcheck(run, [*tensors, *dict.fromkeys((E, F))])


@pytest.mark.parametrize(
    ("sharing", "n_numbers"),
    [
        ("none", 2 * 3 * 7 * 17),
        ("headwise", 2 * 7 * 17),
        ("key_value", 7 * 17),
        ("layerwise", 7 * 17),
    ],
)
def test_sharing_decides_the_number_of_parameters(sharing, n_numbers):
    assert sum(p.numel() for p in memory(sharing=sharing).parameters()) == n_numbers


def test_keys_and_values_share_one_matrix_by_default():
    part = memory()
    assert part.E is part.F
    assert memory(sharing="headwise").E is not memory(sharing="headwise").F


@pytest.mark.parametrize("n", [100, 400, 1600])
def test_a_slot_begins_as_varied_as_a_key_however_long_the_sequence(n):
    part = LinformerMemory(Dims(d_model=8, max_len=n), slots=200)
    keys, values = torch.randn(2, 1, 1, n, 8)
    with torch.no_grad():
        short = part.shorten(keys, values, FULL, Places.between(n, n))
    assert short.key.std().item() == pytest.approx(1.0, rel=0.1)
    assert short.value.std().item() == pytest.approx(1.0, rel=0.1)


def test_any_length_has_the_same_number_of_slots():
    for n in (3, 17):
        key, value = torch.randn(2, 1, 3, n, 5).double()
        short = memory().shorten(key, value, FULL, Places.between(n, n))
        assert short.key.shape[-2] == short.value.shape[-2] == 7


def test_multi_head_attention_runs_over_the_slots():
    dims = Dims(d_model=6, n_heads=3, max_len=17)
    part = LinformerMemory(dims.head(), slots=7).double()
    heads = multi_head(dims, chain=Chain(memory=part)).double()
    assert heads(doubles(2, 13, 6)).map.shape == (2, 3, 13, 7)
    assert heads.explain(13).path == "short"


def test_a_longer_sequence_is_refused():
    said = r"linformer: 19 keys, but max_len is 17\. Raise max_len and train again"
    with pytest.raises(LengthError, match=said):
        Chain(memory=memory())(*inputs(19).values())


def test_a_causal_pattern_is_refused_when_the_chain_is_made():
    said = (
        "chain: causal and linformer cannot meet: every slot mixes all positions, "
        "the future included; take memory_compressed"
    )
    with pytest.raises(MeetingError, match=said):
        Chain(memory=memory(), pattern=CausalPattern())


@pytest.mark.parametrize("hides", ["causal", "window", "matrix"])
def test_a_causal_or_sparse_mask_is_refused_when_it_comes_with_the_batch(hides):
    mask = {
        "causal": CausalPattern(),
        "window": SlidingWindowPattern(size=3),
        "matrix": given(torch.ones(11, 13, dtype=torch.bool)),
    }[hides]
    said = (
        "linformer: a causal mask or a pattern cannot be honoured: every slot mixes all positions, "
        "the future included"
    )
    with pytest.raises(MeetingError, match=said):
        Chain(memory=memory())(*inputs().values(), mask)


def test_a_mask_that_speaks_of_more_keys_is_cut():
    chain, x = Chain(memory=memory()), inputs()
    long, short = (padding(torch.tensor([5, 11]), n) for n in (17, 13))
    assert_close("context", chain(*x.values(), long).context, chain(*x.values(), short).context)


def test_a_mask_that_speaks_of_fewer_keys_is_refused():
    with pytest.raises(ShapeError, match="mask: padding speaks of 11 keys, but there are 13"):
        Chain(memory=memory())(*inputs().values(), padding(torch.tensor([5, 11])))


def test_no_slots_at_all_are_refused():
    with pytest.raises(SettingError, match=r"linformer: slots must be at least 1, got 0\."):
        memory(slots=0)


def test_an_unknown_sharing_is_refused():
    said = r"There is no 'headwse' here\. Did you mean 'headwise'\?"
    with pytest.raises(UnknownChoice, match=said):
        memory(sharing="headwse")
