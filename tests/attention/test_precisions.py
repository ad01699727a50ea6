"""Half precision, torch.func, head widths and lengths: every link is near its float64 self."""

import pytest
import torch

from regard.attention import Chain, attend, multi_head, padding
from regard.attention.heads.grouped_query import GroupedQueryHeads
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.shaw import ShawRelation
from regard.attention.scores.additive import AdditiveScore
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.dims import Dims
from regard.errors import PathError
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles
from tests.contracts.building import TABLES, Inputs, chain_of, small_dims

LINKS = [name for table in TABLES.values() for name in table]
N = 13
NEAR = {torch.bfloat16: 0.03, torch.float16: 0.008}
"""How far a context or map may be from float64's, as a share of its norm."""

CUTS = {"top_k": 0.3, "hard": 0.4}
"""A rounded score may change which key is taken whole."""


def distance(got, want):
    got, want = got.detach().double(), want.detach()
    return float((got - want).norm() / want.norm())


def in_float64(name):
    dims = small_dims(name)
    chain, x = chain_of(name, dims=dims), Inputs.of(dims, N, N)
    return chain, x, chain(x.query, x.key, x.value, x.mask, x.places)


@pytest.mark.parametrize("dtype", NEAR)
@pytest.mark.parametrize("name", LINKS)
def test_half_precision_is_near(name, dtype):
    chain, x, law = in_float64(name)
    want, shown = law.context, law.map.dense()
    low = [t.detach().to(dtype).requires_grad_() for t in (x.query, x.key, x.value)]
    got = chain.to(dtype)(*low, x.mask, x.places)
    assert got.context.dtype == dtype
    assert distance(got.context, want) < CUTS.get(name, NEAR[dtype])
    assert distance(got.map.dense(), shown) < CUTS.get(name, 2 * NEAR[dtype])
    got.context.float().sum().backward()
    assert all(t.grad is None or t.grad.isfinite().all() for t in low)


@pytest.mark.parametrize("name", LINKS)
def test_autocast_is_near(name):
    chain, x, law = in_float64(name)
    want, shown = law.context, law.map.dense()
    single = [t.detach().float().requires_grad_() for t in (x.query, x.key, x.value)]
    with torch.autocast("cpu", torch.bfloat16):
        got = chain.float()(*single, x.mask, x.places)
    assert distance(got.context, want) < CUTS.get(name, NEAR[torch.bfloat16])
    assert distance(got.map.dense(), shown) < CUTS.get(name, 2 * NEAR[torch.bfloat16])
    got.context.float().sum().backward()
    assert all(t.grad is None or t.grad.isfinite().all() for t in single)


@pytest.mark.parametrize("name", [None, "sliding_window", "linear_bias", "sparsemax"])
def test_heads_under_autocast_are_near(name):
    dims = Dims(d_model=12, n_heads=3)
    heads = multi_head(dims, chain=Chain() if name is None else chain_of(name, dims=dims.head()))
    heads.double()
    x = doubles(2, N, 12)
    want = heads(x).context.detach()
    with torch.autocast("cpu", torch.bfloat16):
        got = heads.float()(x.float()).context
    assert got.dtype == torch.bfloat16
    assert distance(got, want) < 0.02


FUNC = {
    "soft": {},
    "sliding_window": {"pattern": SlidingWindowPattern(size=3)},
    "shaw": {"relation": ShawRelation(Dims(d_model=5, n_heads=3), clip=2).double()},
    "additive": {"score": AdditiveScore(Dims(d_model=5, n_heads=3)).double(), "path": "streamed"},
    "local_monotonic": {"select": LocalMonotonicSelection(half_width=0)},
}


@pytest.mark.parametrize("name", FUNC)
def test_vmap_and_grad_of_torch_func_work(name):
    chain = Chain(**FUNC[name])
    x = [doubles(4, 2, 3, N, 5) for _ in range(3)]

    def context(*x):
        return chain(*x).context

    assert_close("vmap", torch.func.vmap(context)(*x), torch.stack(list(map(context, *x))))
    query, key, value = (t[0] for t in x)
    found = torch.func.grad(lambda q: context(q, key, value).sin().sum())(query)
    leaf = query.clone().requires_grad_()
    (want,) = torch.autograd.grad(context(leaf, key, value).sin().sum(), leaf)
    assert_close("gradient", found, want)


@pytest.mark.parametrize(
    ("path", "links"),
    [
        ("sparse", FUNC["sliding_window"]),
        ("windowed", FUNC["local_monotonic"]),
        ("joined", FUNC["shaw"]),
        ("thresholded", {"select": SparsemaxSelection()}),
    ],
)
def test_a_path_that_torch_func_cannot_transform_says_so(path, links):
    chain, x = Chain(**links, path=path), [doubles(2, 1, 3, N, 5) for _ in range(3)]
    with pytest.raises(PathError, match=rf"the {path} path .* torch.func cannot transform"):
        torch.func.vmap(lambda *x: chain(*x).context)(*x)


@pytest.mark.parametrize("width", [8, 16, 40, 80, 128, 160, 256])
@pytest.mark.parametrize("path", ["fused", "sparse", "streamed"])
def test_head_widths_and_more_keys_than_queries(path, width):
    x = {
        "query": doubles(2, 2, 5, width, requires_grad=True),
        "key": doubles(2, 2, 9, width, requires_grad=True),
        "value": doubles(2, 2, 9, width, requires_grad=True),
    }
    mask = padding(torch.tensor([9, 6]), 9)
    got, want = Chain(path=path)(*x.values(), mask), attend(*x.values(), mask)
    assert_close("context", got.context, want.context)
    assert_close("map", got.map.dense(), want.map.dense())
    assert_same_gradients(got.context, want.context, x)


@pytest.mark.parametrize("n_groups", [1, 2, 4])
def test_grouped_queries_behind_a_cache_are_many_heads_with_equal_keys(n_groups):
    dims = Dims(d_model=32, n_heads=4)
    grouped = GroupedQueryHeads(dims, n_groups=n_groups).double()
    many = multi_head(dims).double()
    with torch.no_grad():
        for name in ("W_Q", "W_O"):
            getattr(many, name).weight.copy_(getattr(grouped, name).weight)
        for name in ("W_K", "W_V"):
            shared = getattr(grouped, name).weight.unflatten(0, (n_groups, 8))
            repeated = shared.repeat_interleave(4 // n_groups, 0)
            getattr(many, name).weight.copy_(repeated.flatten(0, 1))
    x, new = doubles(2, 9, 32), doubles(2, 3, 32)
    past, law = grouped.remember(x, x), many.remember(x, x)
    at = Places.between(3, 9)
    assert_close("context", grouped.attend_to_memory(new, past, places=at).context,
                 many.attend_to_memory(new, law, places=at).context)  # fmt: skip
    step, want = (h.step(new, m, CausalPattern())[0] for h, m in ((grouped, past), (many, law)))
    assert_close("a step", step.context, want.context)
