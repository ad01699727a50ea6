"""Which path is chosen, and what explain says of it: order, reasons, costs, refusals."""

import re
from copy import deepcopy

import pytest
import torch

from regard.attention import Chain, engine
from regard.attention.memories.linformer import LinformerMemory
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.bucketed import BucketedRelation
from regard.attention.relations.shaw import ShawRelation
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.general import GeneralScore
from regard.attention.selections.hard import HardSelection
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.dims import Dims
from regard.errors import PathError, UnknownChoice
from tests.assertions import assert_close
from tests.attention.engine.test_paths import (
    CAUSAL,
    DIMS,
    DV,
    FUSED,
    SHORT,
    SPARSE,
    WINDOWED,
    B,
    D,
    H,
    inputs,
)


def test_paths_are_asked_in_the_order_that_is_documented():
    assert list(engine.PATHS) == [
        "short", "windowed", "fused", "joined", "sparse", "thresholded", "streamed", "dense",
    ]  # fmt: skip
    assert ", ".join(engine.PATHS) in engine.__doc__


@pytest.mark.parametrize(
    ("path", "links"),
    [
        *(("fused", links) for links in FUSED.values()),
        *(
            ("sparse", links)
            for name, links in SPARSE.items()
            if name != "causal" and "linear_bias" not in name
        ),
        *(("windowed", links) for links in WINDOWED.values()),
        *(("short", links) for links in SHORT.values()),
        ("fused", SPARSE["causal"]),
        ("dense", {"score": AdditiveScore(DIMS)}),
        ("dense", {"select": HardSelection()}),
        ("dense", {"relation": ShawRelation(DIMS)}),
        ("dense", {"relation": BucketedRelation(DIMS)}),
        ("dense", {"relation": ShawRelation(DIMS), **WINDOWED["local_monotonic"]}),
        ("dense", {**WINDOWED["local_monotonic"], **SPARSE["sliding_window"]}),
    ],
)
def test_the_first_path_that_can_is_taken(path, links):
    # windows pay in long rows alone
    n = 170 if path == "windowed" else 17
    said = Chain(**links).explain(n, n_heads=H, d_query=D, d_value=DV)
    assert said.path == path
    assert list(said.refused) == list(engine.PATHS)[: list(engine.PATHS).index(path)]


EXPLAINED = [
    (
        {"pattern": CAUSAL},
        "fused: a softmax of dot products under a mask that torch's kernels know\n"
        "  not short: no memory shortens the keys\n"
        "  not windowed: SoftSelection looks beyond a window\n"
        r"  1.68e\+07 multiply-adds \(50 % of dense\), 512 numbers held \(0.0977 %\)",
    ),
    (
        {"pattern": SlidingWindowPattern(size=3)},
        r"sparse: \d+ % of the map, in chunks of \d+ rows\n"
        "  not short: no memory shortens the keys\n"
        "  not windowed: SoftSelection looks beyond a window\n"
        "  not fused: the kernels do not know the mask SlidingWindowPattern\n"
        "  not joined: no relation tells near keys from far ones\n"
        r"  .* multiply-adds \(.* % of dense\), .* numbers held \(.* %\)",
    ),
    (
        {"select": LocalMonotonicSelection(half_width=3)},
        "windowed: each row reads 7 of 512 keys\n"
        "  not short: no memory shortens the keys\n"
        r"  4.59e\+05 multiply-adds \(1.37 % of dense\), 7.17e\+03 numbers held \(1.37 %\)",
    ),
    (
        {"memory": LinformerMemory(Dims(d_model=64), slots=16)},
        "short: 512 keys become 16 slots, over which fused runs\n"
        r"  1.05e\+06 multiply-adds \(3.12 % of dense\), 512 numbers held \(0.0977 %\)",
    ),
    (
        {"dropout": 0.1},
        "dense: the reference: every score is computed and kept\n"
        "  not short: no memory shortens the keys\n"
        "  not windowed: SoftSelection looks beyond a window\n"
        "  not fused: the kernels cannot drop attention weights\n"
        "  not joined: the kernels cannot drop attention weights\n"
        "  not sparse: the kernels cannot drop attention weights\n"
        "  not thresholded: SoftSelection has no threshold that its weights follow from\n"
        "  not streamed: 512 keys are few: rows of up to 512 are kept whole\n"
        r"  3.36e\+07 multiply-adds \(100 % of dense\), 5.24e\+05 numbers held \(100 %\)",
    ),
]


@pytest.mark.parametrize(("links", "said"), EXPLAINED)
def test_explain_says_which_path_why_and_at_what_cost(links, said):
    assert re.fullmatch(said, str(Chain(**links).explain(512)))


@pytest.mark.parametrize(
    ("links", "path", "reason"),
    [
        ({"relation": ShawRelation(DIMS)}, "fused", "ShawRelation changes the scores inside"),
        ({"relation": ShawRelation(DIMS)}, "sparse", "ShawRelation depends on the query"),
        ({"relation": BucketedRelation(DIMS)}, "sparse", "BucketedRelation learns its bias"),
        ({"score": AdditiveScore(DIMS)}, "fused", "AdditiveScore is not a dot product"),
        ({"path": "dense"}, "fused", "another path was asked for"),
        (
            {**WINDOWED["local_monotonic"], **SPARSE["blocks"]},
            "windowed",
            "the mask BlocksPattern does not say where a row ends",
        ),
    ],
)
def test_explain_says_why_a_faster_path_cannot(links, path, reason):
    assert reason in Chain(**links).explain(17, n_heads=H, d_query=D, d_value=DV).refused[path]


def test_rows_of_a_few_windows_are_read_whole():
    chain = Chain(GeneralScore(DIMS), select=LocalMonotonicSelection(half_width=2))
    sizes = {"n_heads": H, "d_query": D, "d_value": DV}
    assert chain.explain(40, **sizes).path == "windowed"
    said = chain.explain(39, **sizes)
    assert said.path == "dense"
    assert said.refused["windowed"] == "39 keys are fewer than 8 windows of 5"


def test_several_queries_behind_a_cache_are_no_case_for_the_kernel():
    said = Chain(pattern=CAUSAL).explain(3, 17, past=14)
    assert said.path == "sparse"
    assert said.refused["fused"] == (
        "several queries stand behind a cache, which the kernels align wrongly"
    )
    assert Chain(pattern=CAUSAL).explain(1, 17, past=16).path == "fused"


def test_a_window_computes_little_more_than_it_shows():
    said = Chain(pattern=SlidingWindowPattern(size=64)).explain(8192, n_heads=8)
    share = said.cost.multiply_adds / said.dense.multiply_adds
    assert 129 / 8192 < share < 3 * 129 / 8192


def test_a_copied_chain_takes_the_path_of_the_first():
    chain = Chain()
    assert deepcopy(chain).explain(8).path == chain.explain(8).path == "fused"


def test_a_path_that_cannot_is_refused_with_the_remedy():
    x = inputs(3, 3)
    said = (
        "engine: the fused path cannot compute this chain: HardSelection is not a plain softmax "
        "of the scores. Leave path out, and dense will run; or build the chain of links"
    )
    with pytest.raises(PathError, match=said):
        Chain(select=HardSelection(), path="fused")(*x.values())


def test_an_unknown_path_is_refused_when_the_chain_is_made():
    said = r"There is no 'fussed' here\. Did you mean 'fused'\? Known: short, windowed, fused"
    with pytest.raises(UnknownChoice, match=said):
        Chain(path="fussed")


def test_dropping_weights_in_training_takes_the_dense_path():
    chain = Chain(dropout=0.3)
    assert chain.explain(17).path == "dense"
    assert chain.eval().explain(17).path == "fused"


def test_dropped_weights_are_missing_from_the_context_in_training_only():
    chain, x = Chain(dropout=0.3), inputs(17, 17)
    eye = torch.eye(17, dtype=torch.float64).expand(B, H, 17, 17)
    used = chain(x["query"], x["key"], eye).context
    weights = chain.eval()(x["query"], x["key"], eye).context
    kept = used > 0
    assert_close("kept weights", used, weights / 0.7 * kept)
    assert 0.6 < kept.double().mean() < 0.8
    assert_close("evaluation", weights, Chain()(x["query"], x["key"], eye).context)


def test_a_learned_bias_runs_fused_where_nothing_is_learned():
    relation = BucketedRelation(DIMS, n_buckets=8, max_distance=16).double()
    relation.t.data.normal_()
    x, chain = inputs(71, 71), Chain(relation=relation)
    assert chain.explain(71, n_heads=H, d_query=D).path == "dense"
    want = chain(*x.values()).context
    with torch.no_grad():
        assert chain.explain(71, n_heads=H, d_query=D).path == "fused"
        got = chain(*x.values()).context
    assert_close("context", got, want)
