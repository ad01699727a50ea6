"""Reprs: chains, links, maps and results say on one line what they are."""

import pytest
import torch

from regard import Chain, Dims, multi_head
from regard.attention import MEMORIES, PATTERNS, RELATIONS, SCORES, SELECTIONS
from regard.attention.masks import all_of, any_of, given, padding
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.tables import text_of
from regard.choices import Choice

DIMS = Dims(d_model=12, n_heads=3, max_len=32)
OTHER_SETTINGS = {
    "additive": {"d_hidden": 5, "activation": "relu", "has_bias": True},
    "bucketed": {"n_buckets": 8, "is_causal": True},
    "hard": {"at_test": "expected"},
    "linformer": {"slots": 4, "sharing": "headwise"},
    "local_predictive": {"half_width": 3, "sigma": 0.5},
    "shaw": {"clip": 3, "is_shared": True},
    "soft": {"temperature": 0.5},
}
TABLE = {
    name: table for table in (SCORES, RELATIONS, PATTERNS, SELECTIONS, MEMORIES) for name in table
}


@pytest.mark.parametrize("settings", [{}, OTHER_SETTINGS], ids=["usual", "other"])
@pytest.mark.parametrize("name", TABLE)
def test_a_link_s_text_makes_the_same_link(name, settings):
    link = Choice(name, settings.get(name, {})).build(TABLE[name], DIMS)
    text = text_of(link)
    assert text.partition(":")[0] == name
    again = Choice.parse(text)
    assert dict(settings.get(name, {})).items() <= dict(again.settings).items()
    assert text_of(again.build(TABLE[name], DIMS)) == text


def test_a_chain_says_its_links_on_one_line():
    assert repr(Chain()) == "Chain(score=scaled_dot, select=soft)"
    heads = multi_head(
        DIMS, relation="shaw:clip=16", pattern="sliding_window:size=64", select="sparsemax"
    )
    assert repr(heads.chain) == (
        "Chain(score=scaled_dot, relation=shaw:clip=16, pattern=sliding_window:size=64, "
        "select=sparsemax)"
    )
    assert repr(Chain(dropout=0.1, path="dense")) == (
        "Chain(score=scaled_dot, select=soft, dropout=0.1, path=dense)"
    )


def test_torch_prints_heads_and_their_links():
    said = str(multi_head(DIMS, score="additive:d_hidden=5"))
    assert said.startswith("GroupedQueryHeads(\n  d_model=12, n_heads=3\n  (chain): Chain(score=")
    assert "(W_Q): Linear(in_features=12" in said
    assert repr(multi_head(DIMS, relation="shaw").chain.relation) == "ShawRelation(clip=16)"


def test_joined_patterns_and_masks_say_their_parts():
    window = SlidingWindowPattern(size=3)
    assert repr(all_of(CausalPattern(), window)) == (
        "AllOf(CausalPattern(), SlidingWindowPattern(size=3))"
    )
    assert repr(any_of(window, padding(torch.tensor([2, 5])))) == (
        "AnyOf(SlidingWindowPattern(size=3), Padding(2 × 5))"
    )
    assert repr(Chain(pattern=all_of(CausalPattern(), window))) == (
        "Chain(score=scaled_dot, pattern=AllOf(CausalPattern(), SlidingWindowPattern(size=3)), "
        "select=soft)"
    )
    assert repr(given(torch.ones(4, 5, dtype=torch.bool))) == "Given(4 × 5)"


def test_a_result_and_its_map_are_short_however_long_the_text():
    x = torch.zeros(2, 3, 700, 4)
    attended = Chain(pattern="causal")(x, x, x)
    assert repr(attended) == (
        "Attended(context=(2, 3, 700, 4), map=AttentionMap(2 × 3 × 700 × 700 keys, "
        "score=scaled_dot, pattern=causal, select=soft))"
    )
