"""bench attention: its peers compute what the chain computes, and its cases follow their scale."""

import pytest
import torch

from regard.attention import Chain
from regard.attention.memories.linformer import LinformerMemory
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.bucketed import BucketedRelation
from regard.attention.relations.linear_bias import LinearBiasRelation
from regard.attention.relations.shaw import ShawRelation
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.general import GeneralScore
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.bench import cases
from regard.bench.flex_peer import flex_peer
from regard.dims import Dims

DIMS = Dims(d_model=48, n_heads=3)


# compiling each case would take longer than all other tests of the file
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize(
    "links",
    [
        {},
        {"score": GeneralScore(DIMS.head())},
        {"pattern": CausalPattern()},
        {"pattern": SlidingWindowPattern(size=9)},
        {"pattern": BigBirdPattern(block=8)},
        {"relation": LinearBiasRelation(DIMS.head())},
        {"relation": BucketedRelation(DIMS.head()), "pattern": CausalPattern()},
    ],
    ids=lambda links: ", ".join(type(link).__name__ for link in links.values()) or "plain",
)
def test_flex_computes_the_chain(links):
    chain = Chain(**links)
    for parameter in chain.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    x = [torch.randn(2, 3, 130, 16) for _ in range(3)]
    with torch.no_grad():
        peer = flex_peer(chain, *x, is_compiled=False)
        torch.testing.assert_close(peer(), chain(*x).context, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize(
    "links",
    [
        {"score": AdditiveScore(DIMS.head())},
        {"select": SparsemaxSelection()},
        {"relation": ShawRelation(DIMS.head())},
        {"memory": LinformerMemory(DIMS.head(), slots=5)},
    ],
    ids=lambda links: type(next(iter(links.values()))).__name__,
)
def test_flex_has_no_part_in_what_it_cannot_express(links):
    x = [torch.randn(1, 3, 17, 16) for _ in range(3)]
    assert flex_peer(Chain(**links), *x) is None


@pytest.mark.parametrize(
    "name", [*cases.PEERS, "shaw", "hard", "linformer", "grouped_query", "rotary", "tree_depth"]
)
def test_a_case_follows_its_scale(name):
    scale = cases.Scale(torch.device("cpu"), torch.bfloat16, 4, 64, 5e-2)
    work = cases.build(name, 16, scale)
    assert work.learns[0].dtype == torch.bfloat16
    assert len(work.learns[0]) == 4
    assert work.check() <= scale.tolerance
    work.run().sum().backward()
    # of a drawn key alone the value has a gradient
    assert work.learns[0 if name != "hard" else 2].grad is not None
