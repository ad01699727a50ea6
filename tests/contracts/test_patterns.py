"""What every pattern promises, and each of the table is held to."""

import pytest
import torch
from hypothesis import given as over
from hypothesis import settings
from hypothesis import strategies as st

from regard.attention import PATTERNS, Chain, all_of, any_of, given, padding
from regard.attention.links import Grid
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.attention.patterns.blocks import BlocksPattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.global_tokens import GlobalTokensPattern
from regard.attention.patterns.random_links import RandomLinksPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.places import Places
from tests.assertions import assert_close, doubles, gradients
from tests.contracts.building import build, small_dims
from tests.contracts.witness import visible_pairs

DIMS = small_dims()
B, H, N = 2, DIMS.n_heads, 11

CAUSAL = {
    "causal": CausalPattern(),
    "causal sliding_window": all_of(CausalPattern(), SlidingWindowPattern(size=3)),
    "causal blocks": all_of(CausalPattern(), BlocksPattern(size=4)),
    "causal global_tokens": all_of(CausalPattern(), GlobalTokensPattern(first=2)),
    "causal big_bird": BigBirdPattern(block=2, n_random=2, is_causal=True),
    "causal random_links": RandomLinksPattern(block=3, n_random=2, is_causal=True),
    **{
        f"causal random_links besides {name}": RandomLinksPattern(
            block=2, n_random=1, is_causal=True, besides=besides
        )
        for name, besides in {
            "sliding_window": SlidingWindowPattern(size=1),
            "global_tokens": GlobalTokensPattern(first=1),
            # queries of one block see other blocks of the past
            "random_links": RandomLinksPattern(block=1, n_random=1, is_causal=True),
        }.items()
    },
}
"""Everything that never shows a later key."""

MASKS = {
    "padding": padding(torch.tensor([5, 0, 29]), 40),
    "given": given(torch.rand(3, 1, 50, 40, generator=torch.Generator().manual_seed(7)) > 0.97),
    "all_of": all_of(SlidingWindowPattern(size=2), BlocksPattern(size=5)),
    "any_of": any_of(BlocksPattern(size=4), GlobalTokensPattern(first=1, last=3)),
}
"""Masks of a batch, and patterns that are joined."""

ALL = {name: build(name, DIMS) for name in PATTERNS}
SEEDS = {f"big_bird {s}": BigBirdPattern(block=3, n_random=1, seed=s) for s in (1, 2)}

every_pattern = pytest.mark.parametrize("name", ALL)
quickly = settings(max_examples=60, deadline=None, derandomize=True)

lengths = st.integers(1, 40)
block_sizes = st.integers(1, 9)


def visible(pattern, places):
    """The whole matrix, from whatever part of it the pattern wrote out."""
    seen = pattern.visible(places)
    return seen.expand(*seen.shape[:-2], places.query.shape[-2], places.key.shape[-1])


@every_pattern
@quickly
@over(n_queries=st.integers(1, 13), past=st.integers(0, 13), later=st.integers(0, 5))
def test_visible_is_the_equation(name, n_queries, past, later):
    n_keys = past + n_queries + later
    seen = visible(ALL[name], Places.between(n_queries, n_keys, past=past))
    assert (seen.numpy() == visible_pairs(ALL[name], n_queries, n_keys, past)).all()


@pytest.mark.parametrize("name", ALL | CAUSAL | MASKS | SEEDS)
@quickly
@over(
    n_queries=lengths,
    n_keys=lengths,
    past=st.integers(0, 10),
    q_size=block_sizes,
    k_size=block_sizes,
)
def test_touches_never_misses_a_visible_pair(name, n_queries, n_keys, past, q_size, k_size):
    pattern = (ALL | CAUSAL | MASKS | SEEDS)[name]
    if name == "given":
        # a matrix speaks of its own length only
        n_queries, n_keys, past = 50 - past, 40, past
    places = Places.between(n_queries, n_keys, past=past)
    grid = Grid.over(places, range(n_queries), range(n_keys), q_size=q_size, k_size=k_size)
    seen, touched = visible(pattern, places), pattern.touches(grid)
    for r in range(touched.shape[0]):
        for c in range(touched.shape[1]):
            rows = slice(r * q_size, (r + 1) * q_size)
            columns = slice(c * k_size, (c + 1) * k_size)
            assert touched[r, c] or not seen[..., rows, columns].any()


@pytest.mark.parametrize("name", ["sliding_window", "blocks", "causal", "random_links", "big_bird"])
def test_touches_skips_most_of_a_long_sequence(name):
    pattern = (ALL | CAUSAL)[name]
    places = Places.between(211, 211)
    touched = (
        pattern.touches(Grid.over(places, range(211), range(211), q_size=4, k_size=4))
        .float()
        .mean()
    )
    assert touched < (0.55 if name == "causal" else 0.25)


@pytest.mark.parametrize("name", CAUSAL)
@quickly
@over(n=lengths, more=st.integers(1, 23))
def test_what_a_causal_row_sees_does_not_depend_on_the_length(name, n, more):
    short = visible(CAUSAL[name], Places.between(n, n))
    long = visible(CAUSAL[name], Places.between(n + more, n + more))
    assert torch.equal(long[:n, :n], short)
    assert not long[:n, n:].any()


@pytest.mark.parametrize("name", CAUSAL)
def test_the_future_cannot_change_the_past(name):
    chain = Chain(pattern=CAUSAL[name])
    query, key, value = doubles(B, H, N, 5), doubles(B, H, N, 5), doubles(B, H, N, 7)
    whole = chain(query, key, value).context

    def with_another_future(now):
        later = torch.arange(N)[:, None] >= now
        return chain(query, key.masked_fill(later, 3.0), value.masked_fill(later, -3.0)).context

    for now in range(1, N):
        past = with_another_future(now)[..., :now, :]
        assert_close(f"context before {now}", past, whole[..., :now, :])
    assert (with_another_future(1) - whole).abs().max() > 1e-3


@pytest.mark.parametrize("name", ALL | CAUSAL)
def test_a_query_is_moved_by_exactly_the_keys_it_sees(name):
    pattern = (ALL | CAUSAL)[name]
    query, key = doubles(1, 1, N, 5), doubles(1, 1, N, 5)
    value = doubles(1, 1, N, 3, requires_grad=True)
    context = Chain(pattern=pattern)(query, key, value).context
    seen = visible(pattern, Places.between(N, N))
    for i in range(N):
        (moved,) = torch.autograd.grad(context[0, 0, i].sum(), value, retain_graph=True)
        assert torch.equal(moved[0, 0].abs().sum(-1) > 0, seen[i]), f"query {i}"


@every_pattern
def test_hidden_keys_receive_no_weight_and_no_gradient(name):
    query, value = doubles(B, H, N, 5), doubles(B, H, N, 7)
    key = doubles(B, H, N, 5, requires_grad=True)
    done = Chain(pattern=ALL[name])(query, key, value, padding(torch.tensor([N, N - 4])))
    hidden = ~visible(ALL[name], Places.between(N, N))
    assert (done.map.dense()[..., hidden] == 0).all()
    gradient = gradients(done.context, {"key": key})["key"]
    assert (gradient[1, :, N - 4 :] == 0).all()
    assert (gradient[0] != 0).any()


@every_pattern
def test_an_all_masked_row_is_zero_with_finite_gradients(name):
    tensors = {what: doubles(B, H, N, 5, requires_grad=True) for what in ("query", "key", "value")}
    mask = torch.ones(N, N, dtype=torch.bool)
    mask[3] = False
    done = Chain(pattern=ALL[name])(**tensors, mask=given(mask))
    assert (done.context[..., 3, :] == 0).all()
    assert (done.map.dense()[..., 3, :] == 0).all()
    for what, gradient in gradients(done.context, tensors).items():
        assert torch.isfinite(gradient).all(), what


@every_pattern
def test_rows_that_see_a_key_sum_to_one(name):
    query, key, value = (doubles(B, H, N, 5) for _ in range(3))
    weights = Chain(pattern=ALL[name])(query, key, value).map.dense()
    sees = visible(ALL[name], Places.between(N, N)).any(-1)
    assert_close("sum of each row", weights.sum(-1), sees.expand(B, H, N))


@every_pattern
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_queries_overflow_nothing_in_single_precision(name, size):
    query, key, value = (torch.randn(B, H, N, 5) for _ in range(3))
    query = (size * query).requires_grad_()
    done = Chain(pattern=ALL[name])(query, key, value, padding(torch.tensor([N, N - 4])))
    assert torch.isfinite(done.context).all()
    assert torch.isfinite(done.map.dense()).all()
    assert torch.isfinite(gradients(done.context, {"query": query})["query"]).all()


@pytest.mark.parametrize("name", ALL | CAUSAL)
@pytest.mark.parametrize(
    ("rows", "columns"),
    [(slice(0, 1), slice(0, 1)), (slice(2, 5), slice(3, 10)), (slice(10, 11), slice(5, 11))],
)
def test_map_tiles_are_rectangles_of_the_weights(name, rows, columns):
    pattern, values = (ALL | CAUSAL)[name], torch.eye(N).double().expand(B, H, N, N)
    query, key = doubles(B, H, N, 5), doubles(B, H, N, 5)
    done = Chain(pattern=pattern)(query, key, values)
    # with the identity for values, the context is the matrix of weights
    assert_close("tile", done.map.tile(rows, columns), done.context[..., rows, columns])
    assert_close("dense map", done.map.dense(), done.context)


@every_pattern
def test_a_kernel_mask_by_its_own_word_is_the_pattern(name):
    lowered = ALL[name].as_kernel()
    assert (lowered is None) == (name not in {"full", "causal"})
    if lowered is not None:
        assert lowered.valid is None
        tril = torch.ones(N, N).tril().bool()
        wanted = tril if lowered.is_causal else torch.ones(N, N, dtype=torch.bool)
        assert torch.equal(visible(ALL[name], Places.between(N, N)), wanted)


@every_pattern
def test_a_batch_of_one_is_a_row_of_the_batch(name):
    chain = Chain(pattern=ALL[name])
    query, key, value = (doubles(B, H, N, 5) for _ in range(3))
    alone = chain(query[1:], key[1:], value[1:]).context
    assert_close("context", alone, chain(query, key, value).context[1:])


@quickly
@over(n_blocks=st.integers(1, 17), n_random=st.integers(0, 4), seed=st.integers(0, 99))
def test_random_links_draws_as_many_other_blocks_as_it_was_told(n_blocks, n_random, seed):
    pattern = RandomLinksPattern(block=3, n_random=n_random, seed=seed)
    links = pattern.links(3 * n_blocks)
    assert not links.diagonal().any()
    assert (links.sum(-1) == min(n_random, n_blocks - 1)).all()


@quickly
@over(n_blocks=st.integers(1, 17), n_random=st.integers(0, 4), seed=st.integers(0, 99))
def test_big_bird_draws_only_blocks_that_it_does_not_see_already(n_blocks, n_random, seed):
    pattern = BigBirdPattern(block=2, n_random=n_random, seed=seed)
    links = pattern.union.parts[-1].links(2 * n_blocks)
    for a in range(n_blocks):
        is_end = a in (0, n_blocks - 1)
        free = [b for b in range(1, n_blocks - 1) if abs(a - b) > 1 and not is_end]
        drawn = links[a].nonzero().flatten().tolist()
        assert set(drawn) <= set(free)
        assert len(drawn) == min(n_random, len(free))


def test_another_seed_is_another_pattern_and_the_same_seed_the_same():
    places = Places.between(41, 41)
    for pattern in (RandomLinksPattern, BigBirdPattern):
        one, again, other = (
            pattern(block=2, n_random=2, seed=seed).visible(places) for seed in (5, 5, 6)
        )
        assert torch.equal(one, again)
        assert not torch.equal(one, other)
