"""Any two links that may meet do what the equations say, by every path; the others are refused."""

from itertools import product

import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import attend, padding
from regard.attention.engine import PATHS
from regard.attention.masks import all_of
from regard.attention.tables import why_not
from regard.errors import MeetingError
from tests.assertions import assert_close, assert_same_gradients
from tests.contracts.building import TABLES, Inputs, build, chain_of, part_of, small_dims
from tests.contracts.witness import expected

TABLES_THAT_MEET = (
    ("score", "select"),
    ("score", "relation"),
    ("score", "pattern"),
    ("select", "relation"),
    ("select", "pattern"),
    ("relation", "pattern"),
    ("memory", "score"),
    ("memory", "select"),
    ("memory", "pattern"),
    ("memory", "relation"),
)
ALL = [pair for one, other in TABLES_THAT_MEET for pair in product(TABLES[one], TABLES[other])]
REASONS = {pair: why_not(*(build(name, small_dims(*pair)) for name in pair)) for pair in ALL}
ALLOWED = [pair for pair, reason in REASONS.items() if reason is None]
REFUSED = [pair for pair, reason in REASONS.items() if reason is not None]

every_allowed_pair = pytest.mark.parametrize(("one", "other"), ALLOWED)


def sizes(one: str, other: str) -> tuple[int, int]:
    """Queries and keys: as many of each where a link speaks of distances, else not."""
    is_square = {one, other} & (set(TABLES["relation"]) | set(TABLES["pattern"]))
    return (11, 11) if is_square else (7, 13)


def for_gradcheck(name: str) -> dict:
    """A drawn key has no gradient, its expectation has."""
    return {"at_test": "expected"} if name == "hard" else {}


def test_the_table_of_meetings_is_complete(record_property):
    record_property("allowed pairs", len(ALLOWED))
    record_property("refused pairs", len(REFUSED))
    print(f"{len(ALLOWED)} pairs of links may meet, {len(REFUSED)} are refused")
    assert len(ALLOWED) + len(REFUSED) == len(ALL) == len(set(ALL))
    assert (len(ALLOWED), len(REFUSED)) == (207, 35)


@every_allowed_pair
def test_a_pair_is_its_equations(one, other):
    dims = small_dims(one, other)
    chain = chain_of(one, other, dims=dims)
    inputs = Inputs.of(dims, *sizes(one, other))
    done = chain(inputs.query, inputs.key, inputs.value, inputs.mask, inputs.places)
    weights, context = expected(chain, inputs)
    assert_close("weights", done.map.dense(), weights)
    assert_close("context", done.context, context)


@every_allowed_pair
def test_the_chosen_path_is_the_law(one, other, monkeypatch):
    monkeypatch.setattr("regard.attention.engine.sparse.CHUNKS", (4,))
    dims = small_dims(one, other)
    chain = chain_of(one, other, dims=dims)
    inputs = Inputs.of(dims, *sizes(one, other))
    done = chain(inputs.query, inputs.key, inputs.value, inputs.mask, inputs.places)
    law = dense(chain, inputs)
    assert_close("weights", done.map.dense(), law.map.dense())
    assert_close("context", done.context, law.context)
    assert_same_gradients(done.context, law.context, inputs.named(chain))


def dense(chain, inputs):
    """`attend` itself, over the memory's slots where there is a memory."""
    key, value, places = inputs.key, inputs.value, inputs.places
    mask = all_of(chain.pattern, inputs.mask)
    if chain.memory is not None:
        key, value, mask, places = chain.memory.shorten(key, value, mask, places)
    return attend(
        inputs.query,
        key,
        value,
        mask,
        score=chain.score,
        relation=chain.relation,
        select=chain.select,
        places=places,
    )


@every_allowed_pair
def test_a_pair_passes_gradcheck(one, other):
    dims = small_dims(one, other, n_heads=2, width=2)
    chain = chain_of(one, other, dims=dims, **for_gradcheck(other))
    inputs = Inputs.of(dims, 5, 5, shortage=1)

    def context(query, key, value, *_):
        return chain(query, key, value, inputs.mask, inputs.places).context

    assert gradcheck(context, tuple(inputs.named(chain).values()), fast_mode=True)


def test_every_path_is_chosen_by_some_pair():
    left = set(PATHS)
    # windows and pieces pay in long rows alone, thresholds and blocks of queries in longer ones
    for times in (1, 20, 400):
        for one, other in ALLOWED:
            if times > 1 and "memory" in (part_of(one), part_of(other)):
                # some memories have a length of their own
                continue
            dims = small_dims(one, other)
            chain = chain_of(one, other, dims=dims)
            widths = {"d_query": dims.query, "d_key": dims.key, "d_value": dims.value}
            n_queries, n_keys = (times * n for n in sizes(one, other))
            said = chain.explain(n_queries, n_keys, n_heads=dims.n_heads, **widths)
            left.discard(said.path)
            if not left:
                return
    pytest.fail(f"no pair is computed by {left}")


@every_allowed_pair
def test_explain_says_the_same_on_another_device(one, other):
    dims = small_dims(one, other)
    chain = chain_of(one, other, dims=dims)
    widths = {"d_query": dims.query, "d_key": dims.key, "d_value": dims.value}
    asked = {"n_heads": dims.n_heads, "mask": padding(torch.tensor([13])), **widths}
    said = chain.explain(*sizes(one, other), **asked)
    # meta tensors meet no tensors of the CPU, as those of a GPU do not
    chain.to("meta")
    asked["mask"] = padding(torch.ones(1, 13, dtype=torch.bool, device="meta"))
    assert chain.explain(*sizes(one, other), **asked) == said


@pytest.mark.parametrize(("one", "other"), REFUSED)
def test_a_refused_pair_is_named_when_the_chain_is_built(one, other):
    dims = small_dims(one, other)
    with pytest.raises(MeetingError, match=r"chain: \w+ and \w+ cannot meet: .+\.$") as refusal:
        chain_of(one, other, dims=dims)
    before_reason = str(refusal.value).split(" cannot meet")[0]
    assert set(before_reason.removeprefix("chain: ").split(" and ")) == {one, other}
    assert str(REASONS[one, other]) in str(refusal.value)
