"""Maps: any rectangle of the weights, rebuilt from query, key and a few numbers per row."""

import gc
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.attention import Chain, all_of, maps, padding
from regard.attention.memories.linformer import LinformerMemory
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.shaw import ShawRelation
from regard.attention.selections.hard import HardSelection
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.attention.selections.local_predictive import LocalPredictiveSelection
from regard.attention.selections.soft import SoftSelection
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.attention.selections.top_k import TopKSelection
from regard.dims import Dims
from regard.errors import LengthError
from regard.places import Places
from tests.assertions import assert_close, doubles

CAUSAL = CausalPattern()
N_QUERIES, N_KEYS = 13, 23
DIMS = Dims(d_model=5, n_heads=3, d_value=N_KEYS)


def chains():
    """One chain for each way the weights are rebuilt."""
    shaw = ShawRelation(DIMS, clip=3)
    shaw.wV.data.zero_()
    return {
        "fused": Chain(),
        "temperature": Chain(select=SoftSelection(temperature=0.3)),
        "causal": Chain(pattern=CAUSAL),
        "big_bird": Chain(pattern=BigBirdPattern(block=2, n_random=1)),
        "sliding_window": Chain(pattern=SlidingWindowPattern(size=2)),
        "local_monotonic": Chain(select=LocalMonotonicSelection(half_width=2)),
        "local_predictive": Chain(select=LocalPredictiveSelection(DIMS, half_width=2)),
        "linformer": Chain(memory=LinformerMemory(DIMS, slots=11)),
        "memory_compressed": Chain(memory=MemoryCompressedMemory(DIMS)),
        "hard over slots": Chain(
            memory=MemoryCompressedMemory(DIMS), select=HardSelection()
        ).eval(),
        "hard in training": Chain(select=HardSelection()),
        "hard": Chain(select=HardSelection()).eval(),
        "expected": Chain(select=HardSelection(at_test="expected")).eval(),
        "sparsemax": Chain(select=SparsemaxSelection()),
        "top_k": Chain(select=TopKSelection(count=4)),
        "top_k of all": Chain(select=TopKSelection(count=97)),
        "shaw": Chain(relation=shaw),
    }


def mask_for(name):
    exists = padding(torch.tensor([N_KEYS - 6, N_KEYS]), N_KEYS)
    return all_of(CAUSAL, exists) if name in ("memory_compressed", "hard over slots") else exists


@pytest.fixture(params=chains())
def seen(request):
    """The map of one chain, and the weights it stands for, read off with an identity as values."""
    chain = chains()[request.param].double()
    query, key = doubles(2, 3, N_QUERIES, 5), doubles(2, 3, N_KEYS, 5)
    eye = torch.eye(N_KEYS, dtype=torch.float64).expand(2, 3, N_KEYS, N_KEYS)
    mask = mask_for(request.param)
    with torch.no_grad():
        attended = chain(query, key, eye, mask)
        if chain.memory is None:
            return attended.map, attended.context
        # the identity was merged into slots, which an inverse takes apart again
        slots = chain.memory.shorten(key, eye, mask, Places.between(N_QUERIES, N_KEYS)).value
        return attended.map, attended.context @ torch.linalg.pinv(slots)


@pytest.fixture
def _tiny_tiles(monkeypatch):
    """A row and a few columns at a time, so that every method crosses many borders."""
    monkeypatch.setattr(maps, "TILE_NUMBERS", 24)


def test_the_whole_map_is_what_the_values_were_weighed_with(seen):
    weights, dense = seen
    assert_close("dense", weights.dense(), dense)
    assert weights.shape == dense.shape


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (slice(0, 1), slice(0, 1)),
        (slice(3, 11), slice(5, 8)),
        (slice(None), slice(7, None)),
        (slice(10, 99), slice(-4, None)),
    ],
)
def test_a_tile_is_a_rectangle_of_the_map(seen, rows, columns):
    weights, dense = seen
    assert_close("tile", weights.tile(rows, columns), dense[..., rows, columns])


@pytest.mark.parametrize("i", [0, 7, N_QUERIES - 1, -2])
def test_a_row_is_a_row_of_the_map(seen, i):
    weights, dense = seen
    assert_close("row", weights.row(i), dense[..., i, :])


@pytest.mark.usefixtures("_tiny_tiles")
def test_entropy_is_that_of_each_row(seen):
    weights, dense = seen
    logs = torch.where(dense > 0, dense.clamp(min=1e-300).log(), 0.0)
    assert_close("entropy", weights.entropy(), -(dense * logs).sum(-1))


@pytest.mark.usefixtures("_tiny_tiles")
def test_received_is_the_sum_of_each_column(seen):
    weights, dense = seen
    assert_close("received", weights.received(), dense.sum(-2))


@pytest.mark.usefixtures("_tiny_tiles")
@pytest.mark.parametrize("count", [1, 3, 7])
def test_top_finds_the_largest_weights_and_where_they_stand(seen, count):
    weights, dense = seen
    top = weights.top(count)
    assert_close("weights", top.weights, dense.topk(count).values)
    found = dense.gather(-1, top.columns)
    assert_close("weights in their columns", found * (top.weights > 1e-12), top.weights)


@pytest.mark.usefixtures("_tiny_tiles")
@pytest.mark.parametrize("size", [1, 4, 11, 97])
def test_pooled_is_the_mean_over_rows_of_sums_over_columns(seen, size):
    weights, dense = seen
    n_rows, n_columns = dense.shape[-2:]
    g, c = min(size, n_rows), min(size, n_columns)
    want = torch.zeros(2, 3, g, c, dtype=torch.float64)
    for a in range(g):
        for b in range(c):
            rows = [i for i in range(n_rows) if i * g // n_rows == a]
            columns = [j for j in range(n_columns) if j * c // n_columns == b]
            want[..., a, b] = dense[..., rows, :][..., columns].sum(-1).mean(-1)
    assert_close("pooled", weights.pooled(size), want)


def test_several_tiles_are_really_used(monkeypatch):
    weights = Chain()(*(doubles(2, 3, 23, 5) for _ in range(3))).map
    assert len(list(weights._tiles())) == 1
    monkeypatch.setattr(maps, "TILE_NUMBERS", 6)
    assert len(list(weights._tiles())) > 100


@pytest.mark.usefixtures("_tiny_tiles")
def test_tiles_without_a_visible_pair_are_left_out():
    chain = Chain(pattern=SlidingWindowPattern(size=1))
    weights = chain(*(doubles(1, 1, 101, 3) for _ in range(3))).map
    # a row sees three columns, which stand in a tile or two of a few columns
    assert sum(tile.numel() for _, _, tile in weights._tiles()) < 101 * 16
    assert_close("received", weights.received().sum(), torch.tensor(101.0))


def test_rows_behind_a_cache_are_rebuilt_at_their_places():
    query, key = doubles(1, 2, 3, 5), doubles(1, 2, 11, 5)
    weights = Chain(pattern=CAUSAL)(query, key, key, places=Places.between(3, 11, past=6)).map
    want = (query @ key.mT / 5**0.5).masked_fill(torch.ones(3, 11).triu(7).bool(), -torch.inf)
    assert_close("dense", weights.dense(), want.softmax(-1))
    assert_close("received", weights.received(), want.softmax(-1).sum(-2))


def test_a_map_does_not_keep_the_graph_alive():
    hidden = doubles(1, 2, 5, 3, requires_grad=True).exp()
    query = hidden * doubles(3, requires_grad=True)
    attended = Chain()(query, query, query)
    weights, kept = attended.map, weakref.ref(hidden)
    assert weights.query.grad_fn is weights.key.grad_fn is None
    assert all(number.grad_fn is None for number in weights.rows)
    assert not weights.dense().requires_grad
    del hidden, query
    gc.collect()
    assert kept() is not None, "the context still needs the graph"
    del attended
    gc.collect()
    assert kept() is None, "the map alone does not"


def test_a_map_says_what_its_columns_are():
    x = doubles(1, 3, 7, 5)
    assert Chain()(x, x, x).map.columns == "keys"
    assert chains()["linformer"].double()(x, x, x).map.columns == "memory slots"


def test_the_whole_matrix_is_refused_past_a_limit(monkeypatch):
    weights = Chain()(*(doubles(2, 3, 23, 5) for _ in range(3))).map
    monkeypatch.setattr(maps, "DENSE_BYTES", 8 * 2 * 3 * 23 * 23)
    assert weights.dense().shape == (2, 3, 23, 23)
    monkeypatch.setattr(maps, "DENSE_BYTES", 8 * 2 * 3 * 23 * 23 - 1)
    said = (
        r"map: the whole matrix of shape \(2, 3, 23, 23\) would take 0\.0 GiB\. Look at a part: "
        r"tile\(rows, columns\), row\(i\), pooled\(size\) or top\(count\)\."
    )
    with pytest.raises(LengthError, match=said):
        weights.dense()


class Largest(TorchDispatchMode):
    """Watches how many numbers the largest tensor holds that is made meanwhile."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // 8)
        return out


def test_fifty_thousand_tokens_are_looked_at_in_little_memory():
    n = 50_021
    query, key, value = (torch.randn(1, 1, n, 8) for _ in range(3))
    chain = Chain(pattern=SlidingWindowPattern(size=3))
    with torch.no_grad(), Largest() as largest:
        weights = chain(query, key, value).map
        tile = weights.tile(slice(40_000, 40_064), slice(39_990, 40_080))
        row = weights.row(49_999)
    assert largest.numbers < 200 * n
    near = (query[..., 49_999:50_000, :] @ key[..., 49_996:50_003, :].mT / 8**0.5).softmax(-1)
    assert_close("row", row[..., 49_996:50_003], near[..., 0, :], atol=1e-5)
    assert_close("row sum", row.sum(-1), torch.ones(1, 1), atol=1e-5)
    assert_close("tile", tile.sum(-1), torch.ones(1, 1, 64), atol=1e-5)
    with pytest.raises(LengthError, match=r"\(1, 1, 50021, 50021\) would take 9\.3 GiB"):
        weights.dense()
