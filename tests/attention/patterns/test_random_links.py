"""Random links: each block of queries sees a few blocks of keys drawn once from a seed."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.attention import Chain
from regard.attention.links import Grid
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.global_tokens import GlobalTokensPattern
from regard.attention.patterns.random_links import RandomLinksPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.errors import SettingError
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles


def drawn(pattern, length):
    """The blocks drawn for each row of blocks, as lists."""
    return [row.nonzero().flatten().tolist() for row in pattern.links(length)]


def by_loops(pattern, n_queries, n_keys, past):
    lists, block = drawn(pattern, n_keys), pattern.block
    return torch.tensor(
        [
            [j // block in lists[(i + past) // block] for j in range(n_keys)]
            for i in range(n_queries)
        ]
    )


@pytest.mark.parametrize("block", [1, 3, 5])
@pytest.mark.parametrize(("n_queries", "n_keys", "past"), [(29, 29, 0), (3, 31, 28), (7, 31, 13)])
def test_visible_spreads_the_drawn_blocks_over_their_positions(n_queries, n_keys, past, block):
    pattern = RandomLinksPattern(block=block, n_random=2)
    seen = pattern.visible(Places.between(n_queries, n_keys, past=past))
    assert torch.equal(seen, by_loops(pattern, n_queries, n_keys, past))


def test_linked_attention_is_the_witness_under_the_drawn_blocks():
    inputs = {
        "query": doubles(2, 3, 71, 5, requires_grad=True),
        "key": doubles(2, 3, 71, 5, requires_grad=True),
        "value": doubles(2, 3, 71, 7, requires_grad=True),
    }
    pattern = RandomLinksPattern(block=7, n_random=2)
    got = Chain(pattern=pattern)(*inputs.values()).context
    want = sdpa(*inputs.values(), attn_mask=by_loops(pattern, 71, 71, 0))
    assert_close("context", got, want)
    assert_same_gradients(got, want, inputs)


@pytest.mark.parametrize("n_random", [0, 1, 3, 12])
def test_every_row_draws_exactly_its_number_of_other_blocks(n_random):
    for own, blocks in enumerate(drawn(RandomLinksPattern(block=2, n_random=n_random), 26)):
        assert len(set(blocks)) == n_random
        assert own not in blocks


def test_no_row_draws_more_than_there_is():
    assert drawn(RandomLinksPattern(block=2, n_random=97), 5) == [[1, 2], [0, 2], [0, 1]]


def test_the_draw_is_the_same_on_every_machine():
    assert drawn(RandomLinksPattern(block=1, n_random=2, seed=0), 7) == [
        [1, 6], [3, 5], [1, 5], [5, 6], [5, 6], [4, 6], [2, 5],
    ]  # fmt: skip
    assert drawn(RandomLinksPattern(block=1, n_random=2, seed=1), 7) == [
        [2, 3], [4, 5], [3, 4], [0, 5], [0, 5], [0, 2], [3, 5],
    ]  # fmt: skip


def test_the_draw_neither_reads_nor_moves_the_generator():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    first = drawn(RandomLinksPattern(block=3), 97)
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(5)
    assert drawn(RandomLinksPattern(block=3), 97) == first


def test_another_seed_gives_other_links():
    found = {str(drawn(RandomLinksPattern(block=3, seed=seed), 97)) for seed in range(11)}
    assert len(found) == 11


def test_every_block_is_drawn_about_equally_often():
    counts = torch.zeros(5)
    for seed in range(400):
        counts += RandomLinksPattern(block=1, n_random=1, seed=seed).links(5).sum(0)
    # 2000 draws over 5 blocks: 400 each, with a standard deviation of 18
    assert (counts - 400).abs().max() < 90


def test_what_another_pattern_shows_is_not_drawn_again():
    near = SlidingWindowPattern(size=2)
    pattern = RandomLinksPattern(block=2, n_random=3, besides=near)
    for a, blocks in enumerate(drawn(pattern, 22)):
        assert len(blocks) == 3
        assert all(abs(a - b) > 1 for b in blocks), (a, blocks)


def test_a_query_that_sees_everything_takes_no_link_from_its_block():
    # the last query, and it alone, sees everything
    pattern = RandomLinksPattern(block=4, n_random=2, besides=GlobalTokensPattern(first=0, last=1))
    for a, blocks in enumerate(drawn(pattern, 24)):
        assert len(blocks) == 2, a
        # the last block of keys is seen in part by all
        assert not {a, 5} & set(blocks)


def test_causal_links_come_from_the_past_and_never_change():
    pattern = RandomLinksPattern(block=3, n_random=2, is_causal=True)
    long = drawn(pattern, 60)
    for own, blocks in enumerate(long):
        assert len(blocks) == min(2, own)
        assert all(block < own for block in blocks)
    for length in (1, 3, 4, 31, 59):
        assert drawn(pattern, length) == long[: -(-length // 3)]


def test_causal_links_see_no_future():
    pattern = RandomLinksPattern(block=3, n_random=2, is_causal=True)
    places = Places.between(29, 29)
    assert not (pattern.visible(places) & ~CausalPattern().visible(places)).any()


def test_rows_without_links_are_zero_with_zero_gradients():
    query, key, value = (doubles(1, 2, 7, 3, requires_grad=True) for _ in range(3))
    chain = Chain(pattern=RandomLinksPattern(block=2, n_random=0))
    context = chain(query, key, value).context
    assert context.abs().max() == 0
    for grad in torch.autograd.grad(context.sum(), (query, key, value)):
        assert grad.abs().max() == 0


def test_gradcheck_in_double_precision():
    inputs = [doubles(1, 2, 5, 3, requires_grad=True) for _ in range(3)]
    chain = Chain(pattern=RandomLinksPattern(block=1, n_random=2))
    assert torch.autograd.gradcheck(lambda q, k, v: chain(q, k, v).context, inputs)


@pytest.mark.parametrize("block", [1, 2, 5])
@pytest.mark.parametrize(("q_size", "k_size", "past"), [(1, 1, 0), (3, 5, 0), (5, 3, 2)])
def test_no_visible_pair_stands_in_a_block_that_is_not_touched(q_size, k_size, past, block):
    pattern = RandomLinksPattern(block=block, n_random=1)
    places = Places.between(11, 13, past=past)
    touched = pattern.touches(Grid.over(places, range(11), range(13), q_size=q_size, k_size=k_size))
    for a, rows in enumerate(pattern.visible(places).split(q_size)):
        for b, part in enumerate(rows.split(k_size, 1)):
            assert touched[a, b] or not part.any(), (a, b)


@pytest.mark.parametrize(("block", "n_random"), [(0, 3), (2, -1)])
def test_impossible_settings_are_refused(block, n_random):
    said = (
        "random_links: block must be at least 1 and n_random at least 0, "
        rf"got {block} and {n_random}\."
    )
    with pytest.raises(SettingError, match=said):
        RandomLinksPattern(block=block, n_random=n_random)


def test_queries_behind_the_last_key_see_what_the_last_block_of_queries_sees():
    pattern = RandomLinksPattern(block=2, n_random=2)
    seen = pattern.visible(Places.between(17, 10))
    assert torch.equal(seen[:10], pattern.visible(Places.between(10, 10)))
    assert torch.equal(seen[10:], seen[9:10].expand(7, 10))
