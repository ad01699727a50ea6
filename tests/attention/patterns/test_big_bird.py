"""BigBird: neighbours, global blocks and random blocks, against masks built from block lists."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.attention import Chain
from regard.attention.links import Grid
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.errors import SettingError
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles

BLOCK, N_BLOCKS = 3, 17
LENGTH = BLOCK * N_BLOCKS


def random_blocks(pattern, length):
    """What the third part of the union drew, row of blocks by row of blocks."""
    return [row.nonzero().flatten().tolist() for row in pattern.union.parts[2].links(length)]


def block_lists(pattern, n_blocks, *, is_causal=False):
    """The blocks each row of blocks sees, written down from the paper."""
    lists = []
    for a, drawn in enumerate(random_blocks(pattern, n_blocks * pattern.block)):
        ends = {0} if is_causal else {0, n_blocks - 1}
        near = {b for b in (a - 1, a, a + 1) if 0 <= b < n_blocks}
        seen = set(range(n_blocks)) if a in ends else near | ends | set(drawn)
        lists.append(sorted(b for b in seen if not is_causal or b <= a))
    return lists


def dense_mask(lists, block, *, is_causal=False):
    """The n × n mask of some block lists, pair by pair."""
    n = block * len(lists)
    return torch.tensor(
        [
            [j // block in lists[i // block] and (not is_causal or j <= i) for j in range(n)]
            for i in range(n)
        ]
    )


@pytest.mark.parametrize("is_causal", [False, True])
def test_visible_is_the_mask_of_the_block_lists(is_causal):
    pattern = BigBirdPattern(block=BLOCK, n_random=2, is_causal=is_causal)
    want = dense_mask(
        block_lists(pattern, N_BLOCKS, is_causal=is_causal), BLOCK, is_causal=is_causal
    )
    assert torch.equal(pattern.visible(Places.between(LENGTH, LENGTH)), want)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_is_the_witness_under_that_mask(is_causal):
    inputs = {
        "query": doubles(2, 3, LENGTH, 5, requires_grad=True),
        "key": doubles(2, 3, LENGTH, 5, requires_grad=True),
        "value": doubles(2, 3, LENGTH, 7, requires_grad=True),
    }
    pattern = BigBirdPattern(block=BLOCK, n_random=2, is_causal=is_causal)
    lists = block_lists(pattern, N_BLOCKS, is_causal=is_causal)
    got = Chain(pattern=pattern)(*inputs.values()).context
    want = sdpa(*inputs.values(), attn_mask=dense_mask(lists, BLOCK, is_causal=is_causal))
    assert_close("context", got, want)
    assert_same_gradients(got, want, inputs)


def test_the_number_of_edges_is_that_of_the_block_lists():
    pattern = BigBirdPattern(block=BLOCK, n_random=2)
    edges = int(pattern.visible(Places.between(LENGTH, LENGTH)).sum())
    assert edges == sum(map(len, block_lists(pattern, N_BLOCKS))) * BLOCK**2


def test_enough_random_blocks_make_it_full_attention():
    query, key, value = (doubles(2, 3, LENGTH, 5) for _ in range(3))
    chain = Chain(pattern=BigBirdPattern(block=BLOCK, n_random=N_BLOCKS))
    assert_close("context", chain(query, key, value).context, Chain()(query, key, value).context)


def test_short_sentences_are_seen_whole():
    query, key, value = (doubles(2, 3, 11, 5) for _ in range(3))
    chain = Chain(pattern=BigBirdPattern(block=4, n_random=0))
    assert_close("context", chain(query, key, value).context, Chain()(query, key, value).context)


def test_global_rows_see_all_and_global_columns_are_seen_by_all():
    seen = BigBirdPattern(block=BLOCK, n_random=1).visible(Places.between(LENGTH, LENGTH))
    for ends in (slice(0, BLOCK), slice(LENGTH - BLOCK, LENGTH)):
        assert seen[ends].all()
        assert seen[:, ends].all()


def test_the_last_positions_are_global_when_the_last_block_is_not_whole():
    seen = BigBirdPattern(block=5, n_random=0).visible(Places.between(47, 47))
    assert seen[42:].all()
    assert seen[:, 42:].all()
    assert not seen[41].all()


@pytest.mark.parametrize("seed", range(5))
def test_random_blocks_repeat_neither_neighbours_nor_global_blocks(seed):
    pattern = BigBirdPattern(block=BLOCK, n_random=3, seed=seed)
    for a, drawn in enumerate(random_blocks(pattern, LENGTH)):
        known = {a - 1, a, a + 1, 0, N_BLOCKS - 1}
        assert not known & set(drawn), (a, drawn)


@pytest.mark.parametrize("n_random", [0, 1, 3, 11, 13])
def test_a_row_draws_its_number_of_blocks_where_enough_are_left(n_random):
    pattern = BigBirdPattern(block=BLOCK, n_random=n_random)
    for a, drawn in enumerate(random_blocks(pattern, LENGTH)):
        left = N_BLOCKS - len(
            {b for b in (a - 1, a, a + 1) if 0 <= b < N_BLOCKS} | {0, N_BLOCKS - 1}
        )
        left = 0 if a in (0, N_BLOCKS - 1) else left
        assert len(drawn) == min(n_random, left), a


def drawn_and_free(seen, i, block):
    """The blocks that row i sees by lot, and how many it could: from what it sees, and no more."""
    n = len(seen)
    n_blocks = -(-n // block)
    near = {b for b in range(n_blocks) if abs(b - i // block) <= 1}
    ends = {j // block for j in range(n) if j < block or j >= n - block}
    by_lot = {int(j) // block for j in seen[i].nonzero().flatten()} - near - ends
    whole = all(bool(seen[i, b * block : (b + 1) * block].all()) for b in by_lot)
    assert whole, f"row {i} sees a block in part"
    return by_lot, n_blocks - len(near | ends)


def assert_every_row_has_its_blocks(n, block, n_random, seed=0):
    pattern = BigBirdPattern(block=block, n_random=n_random, seed=seed)
    seen = pattern.visible(Places.between(n, n))
    for i in range(block, n - block):
        by_lot, free = drawn_and_free(seen, i, block)
        assert len(by_lot) == min(n_random, free), (i, by_lot)


@pytest.mark.parametrize("n", [1000, 1337, 2047, 1024])
def test_every_row_has_its_random_blocks_whether_or_not_blocks_divide_the_length(n):
    assert_every_row_has_its_blocks(n, 64, 3)


@given(
    n=st.integers(1, 160), block=st.integers(1, 40), n_random=st.integers(0, 9), seed=st.integers(0)
)
def test_every_row_has_its_random_blocks_or_all_there_are(n, block, n_random, seed):
    assert_every_row_has_its_blocks(n, block, n_random, seed % 997)


def test_rows_of_a_length_that_blocks_divide_keep_the_blocks_they_always_had():
    assert random_blocks(BigBirdPattern(block=BLOCK, n_random=2), LENGTH) == [
        [], [7, 12], [7, 12], [5, 7], [6, 9], [7, 11], [11, 12], [2, 12], [11, 14], [4, 12],
        [4, 14], [3, 13], [8, 9], [6, 9], [5, 7], [2, 10], [],
    ]  # fmt: skip


def test_a_causal_row_draws_from_the_blocks_before_its_neighbour():
    pattern = BigBirdPattern(block=BLOCK, n_random=3, is_causal=True)
    for a, drawn in enumerate(random_blocks(pattern, LENGTH)):
        assert set(drawn) <= set(range(1, a - 1))
        assert len(drawn) == min(3, max(0, a - 2)), a


def test_training_and_evaluation_are_one_function():
    query, key, value = (doubles(2, 3, LENGTH, 5) for _ in range(3))
    chain = Chain(pattern=BigBirdPattern(block=BLOCK))
    trained = chain.train()(query, key, value).context
    assert torch.equal(trained, chain.eval()(query, key, value).context)


def test_a_key_outside_the_neighbourhood_changes_nothing():
    query, key, value = (doubles(1, 2, LENGTH, 5) for _ in range(3))
    pattern = BigBirdPattern(block=BLOCK, n_random=2)
    sees = pattern.visible(Places.between(LENGTH, LENGTH))[:, 25]
    before = Chain(pattern=pattern)(query, key, value).context
    key[:, :, 25], value[:, :, 25] = 89.0, -97.0
    after = Chain(pattern=pattern)(query, key, value).context
    assert torch.equal(before[:, :, ~sees], after[:, :, ~sees])
    assert (before[:, :, sees] != after[:, :, sees]).any(-1).all()


def test_two_hops_reach_everything():
    seen = BigBirdPattern(block=BLOCK, n_random=0).visible(Places.between(LENGTH, LENGTH)).double()
    assert (seen @ seen > 0).all()


def test_another_seed_gives_another_pattern():
    places = Places.between(LENGTH, LENGTH)
    one, same, other = (BigBirdPattern(block=BLOCK, seed=s).visible(places) for s in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_the_causal_variant_sees_no_future():
    seen = BigBirdPattern(block=BLOCK, is_causal=True).visible(Places.between(LENGTH, LENGTH))
    assert not seen.triu(1).any()
    assert seen.diagonal().all()


def test_what_a_causal_row_sees_never_depends_on_the_length():
    pattern = BigBirdPattern(block=BLOCK, n_random=2, is_causal=True)
    long = pattern.visible(Places.between(LENGTH, LENGTH))
    for n in range(1, LENGTH):
        assert torch.equal(pattern.visible(Places.between(n, n)), long[:n, :n]), n


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("q_size", "k_size"), [(1, 1), (3, 3), (5, 7), (64, 64)])
def test_no_visible_pair_stands_in_a_block_that_is_not_touched(q_size, k_size, is_causal):
    pattern = BigBirdPattern(block=BLOCK, n_random=1, is_causal=is_causal)
    places = Places.between(47, 47)
    touched = pattern.touches(Grid.over(places, range(47), range(47), q_size=q_size, k_size=k_size))
    for a, rows in enumerate(pattern.visible(places).split(q_size)):
        for b, part in enumerate(rows.split(k_size, 1)):
            assert touched[a, b] or not part.any(), (a, b)


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradcheck_in_double_precision(is_causal):
    inputs = [doubles(1, 1, 7, 2, requires_grad=True) for _ in range(3)]
    chain = Chain(pattern=BigBirdPattern(block=1, n_random=1, is_causal=is_causal))
    assert torch.autograd.gradcheck(lambda q, k, v: chain(q, k, v).context, inputs)


def test_an_empty_block_is_refused():
    with pytest.raises(SettingError, match=r"big_bird: block must be at least 1, got 0\."):
        BigBirdPattern(block=0)


def test_a_negative_number_of_random_blocks_is_refused():
    with pytest.raises(SettingError, match="n_random at least 0, got 64 and -2"):
        BigBirdPattern(n_random=-2)
