"""A copy of a chain is the chain: the same path for the same reasons, and the same numbers."""

import copy
import io
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import torch

from regard.attention import HEADS, Chain
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.dims import Dims
from regard.positions import RotaryPositions
from tests.assertions import doubles, gradients
from tests.contracts.building import TABLES, Inputs, chain_of, small_dims
from tests.contracts.test_pairs import ALLOWED, sizes


def saved(module):
    """The module from a file of `torch.save`."""
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "copied": copy.deepcopy,
    "pickled": lambda module: pickle.loads(pickle.dumps(module)),
    "saved": saved,
}

every_copy = pytest.mark.parametrize("way", COPIES)


def said_of(chain, dims, one, other):
    """What `explain` says of a chain, in rows short and long."""
    widths = {"d_query": dims.query, "d_key": dims.key, "d_value": dims.value}
    n_queries, n_keys = sizes(one, other)
    longest = dims.max_len if chain.memory is not None else 20 * n_keys
    explained = [
        chain.explain(rows, columns, n_heads=dims.n_heads, **widths)
        for rows, columns in ((n_queries, n_keys), (longest, longest))
    ]
    return [(said.path, said.refused, str(said)) for said in explained]


def computed(chain, inputs):
    """Context, weights and every gradient of a chain."""
    done = chain(inputs.query, inputs.key, inputs.value, inputs.mask, inputs.places)
    found = gradients(done.context, inputs.named(chain))
    return {"context": done.context, "weights": done.map.dense(), **found}


@every_copy
@pytest.mark.parametrize(("one", "other"), ALLOWED)
def test_a_copy_takes_the_same_path_for_the_same_reasons_to_the_same_numbers(one, other, way):
    dims = small_dims(one, other)
    chain = chain_of(one, other, dims=dims)
    made = COPIES[way](chain)
    assert said_of(made, dims, one, other) == said_of(chain, dims, one, other)
    inputs = Inputs.of(dims, *sizes(one, other))
    want = computed(chain, inputs)
    for name, got in computed(made, inputs).items():
        assert torch.equal(got, want[name]), name


@every_copy
def test_a_copied_window_computes_no_more_than_the_first(way):
    chain = Chain(pattern=SlidingWindowPattern(size=64))
    made = COPIES[way](chain).explain(4096)
    assert made == chain.explain(4096)
    assert made.path == "sparse"


@every_copy
@pytest.mark.parametrize("has_rotary", [False, True])
@pytest.mark.parametrize("name", HEADS)
def test_copied_heads_take_the_same_path_to_the_same_numbers(name, has_rotary, way):
    dims = Dims(d_model=12, n_heads=3)
    rotary = RotaryPositions(dims) if has_rotary else None
    heads = HEADS[name](dims, rotary=rotary).double().eval()
    made, x = COPIES[way](heads), doubles(2, 7, 12)
    assert made.explain(7) == heads.explain(7)
    assert made.explain(7).path == "fused"
    assert torch.equal(made(x).context, heads(x).context)


def in_a_process_of_its_own(chains):
    """Paths and contexts of chains that came from another process."""
    torch.set_num_threads(1)
    x = torch.linspace(-1, 1, 3 * 11 * 5).view(1, 3, 11, 5).double()
    with torch.no_grad():
        return {
            name: (chain.explain(11, n_heads=3, d_query=5), chain(x, x, x).context.numpy())
            for name, chain in chains.items()
        }


@pytest.mark.processes
def test_chains_sent_to_a_spawned_process_take_the_same_path_there():
    dims = Dims(d_model=5, n_heads=3, d_key=5, d_value=5, max_len=17)
    names = [name for table in TABLES.values() for name in table]
    # a tree belongs to a batch of sentences, and there is none here
    chains = {name: chain_of(name, dims=dims) for name in names if name != "structural"}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = pool.submit(in_a_process_of_its_own, chains).result()
    for name, (said, context) in in_a_process_of_its_own(chains).items():
        assert there[name][0] == said, name
        assert (there[name][1] == context).all(), name
