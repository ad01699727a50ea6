"""Links by name or as objects: what a chain takes, and what it says to everything else."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from regard import Chain, Dims, attend, multi_head
from regard.attention.given_links import given_link
from regard.attention.links import Score, Selection
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.shaw import ShawRelation
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.general import GeneralScore
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.attention.selections.top_k import TopKSelection
from regard.errors import DimsError, SettingError, ShapeError, UnknownChoice
from tests.assertions import assert_close

DIMS = Dims(d_model=12, n_heads=3)


def test_a_name_is_the_link_of_that_name():
    x = torch.randn(2, 3, 5, 7)
    named, made = Chain(select="sparsemax"), Chain(select=SparsemaxSelection())
    assert_close("context", named(x, x, x).context, made(x, x, x).context)
    assert Chain(pattern="sliding_window:size=2").pattern.size == 2


def test_the_law_takes_names_too():
    x = torch.randn(2, 3, 5, 7)
    named = attend(x, x, x, select="top_k:count=2").context
    assert_close("context", named, attend(x, x, x, select=TopKSelection(count=2)).context)
    with pytest.raises(SettingError, match=r"attend: score must be a score, got 'soft', which is"):
        attend(x, x, x, score="soft")


def test_heads_make_named_links_for_their_own_sizes():
    heads = multi_head(
        DIMS, score="additive:d_hidden=5", pattern="sliding_window:size=2", select="soft"
    )
    assert heads.chain.score.W.shape == (3, 4, 5)
    assert multi_head(DIMS, relation="shaw:clip=3").chain.relation.wK.shape == (3, 7, 4)
    assert heads(torch.randn(2, 5, 12)).context.shape == (2, 5, 12)


WRONG = {
    "a name that there is not": (
        lambda: Chain(select="sparsmax"),
        UnknownChoice,
        r"chain: select: There is no 'sparsmax' here\. Did you mean 'sparsemax'\?",
    ),
    "the name of another kind": (
        lambda: Chain(score="sliding_window:size=3"),
        SettingError,
        r"chain: score must be a score, got 'sliding_window', which is a pattern\. "
        r'Write pattern="sliding_window:size=3"\.',
    ),
    "a name that needs sizes": (
        lambda: Chain("additive"),
        SettingError,
        r'chain: score="additive" needs sizes, which a chain does not know\. Write '
        r'multi_head\(dims, score="additive"\), or give the link itself: '
        r"score=AdditiveScore\(dims\)\.",
    ),
    "a setting that there is not": (
        lambda: multi_head(DIMS, relation="shaw:clp=3"),
        SettingError,
        r"'shaw' has no setting 'clp'; it takes clip: int = 16",
    ),
    "a pattern where a score belongs": (
        lambda: given_link("chain", "score", SlidingWindowPattern()),
        SettingError,
        r"chain: score must be a score, got an object of SlidingWindowPattern, which is a "
        r"pattern\. Write pattern=\.",
    ),
    "a class": (
        lambda: given_link("chain", "score", AdditiveScore),
        SettingError,
        r"got the class AdditiveScore\. Make one: score=AdditiveScore\(dims\)\.",
    ),
    "a function": (
        lambda: given_link("chain", "select", torch.softmax),
        SettingError,
        r"chain: select must be a selection, got an object of builtin_function_or_method, which "
        r"lacks .*widths and more\. Inherit regard\.parts\.Selection, which has defaults",
    ),
    "a number": (
        lambda: given_link("chain", "select", 3),
        SettingError,
        r"chain: select must be a selection, got an object of int\. Give one, or its name: soft,",
    ),
    "links beside a chain": (
        lambda: multi_head(DIMS, chain=Chain(), select="soft", score="dot"),
        SettingError,
        r"multi_head: chain holds all links, so score and select would change nothing\.",
    ),
    "a link for the model's width inside heads": (
        lambda: multi_head(DIMS, chain=Chain(relation=ShawRelation(DIMS))),
        ShapeError,
        r"heads: shaw is made for queries 12 wide, got queries 4 wide\. Make it for what it "
        r"meets: inside the heads of a model that is dims\.head\(\)",
    ),
    "a link for other heads": (
        lambda: Chain(GeneralScore(DIMS.head()))(*[torch.zeros(2, 5, 7, 4)] * 3),
        ShapeError,
        r"chain: general is made for 3 heads, got 5 heads\.",
    ),
    "keys of another width": (
        lambda: Chain()(*(torch.zeros(2, 5, 7, width) for width in (4, 3, 3))),
        ShapeError,
        r"chain: scaled_dot compares queries and keys of one width, got 4 and 3\. Give them one "
        r"width, or take general or additive\.",
    ),
    "heads that do not divide the width": (
        lambda: multi_head(Dims(d_model=12, n_heads=5), select="soft"),
        DimsError,
        r"dims: n_heads \(5\) must divide d_model \(12\)",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_told_with_its_remedy(mistake):
    make, kind, said = WRONG[mistake]
    with pytest.raises(kind, match=said):
        make()


SCRIPT = """
import torch
from regard import Chain, Dims, attend, multi_head
x = torch.zeros(5, 4)
for mistake in (
    lambda: Chain()(x, x, x),
    lambda: attend([[1.0]], x, x),
    lambda: attend(x[0], x[0], x[0]),
    lambda: multi_head(Dims(d_model=4))(x),
    lambda: multi_head(Dims(d_model=4))(torch.zeros(2, 5, 3)),
    lambda: Chain(None),
    lambda: multi_head(64),
):
    try:
        mistake()
    except ValueError as error:
        print(error)
"""


def test_shapes_of_a_caller_s_own_are_told_in_the_words_of_the_legend():
    # types are checked in tests before our own checks are reached, and not in a process of its own
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    said = ran.stdout.splitlines()
    assert said[0].startswith(
        "chain: expected query, key and value of four dimensions (b, h, q, d)"
    )
    assert "got a query of (5, 4). Write x[None, None] for a single sentence" in said[0]
    assert said[1:] == [
        "attend: query must be a tensor, got an object of list. Write torch.tensor(query) or "
        "torch.from_numpy(query).",
        "attend: expected query (b, h, q, d), key (b, h, k, d) and value (b, h, k, d) with the "
        "same b, h and k; got (4,), (4,) and (4,). Reshape them, with a mask for sentences of "
        "other lengths.",
        "heads: expected query of shape (b, n, 4): sentences, positions and the width of dims; "
        "got (5, 4). A single sentence is x[None].",
        "heads: expected query of shape (b, n, 4): sentences, positions and the width of dims; "
        "got (2, 5, 3).",
        "chain: score must be a score, got None. Give one, or its name: dot, scaled_dot, general, "
        "concat, additive, location.",
        "multi_head: expected sizes, got 64 (int). Write Dims(d_model=64, n_heads=4), with your "
        "numbers.",
    ]


X = torch.randn(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (
            X.double(),
            r"of one dtype, got torch\.float32, torch\.float64, torch\.float64\. Write",
        ),
        (X.to("meta"), r"on one device, got cpu, meta, meta\. Write key.to\(query.device\)\.$"),
    ],
)
def test_numbers_of_other_kinds_or_places_are_refused(key, said):
    for who, call in (("attend", attend), ("chain", Chain())):
        with pytest.raises(ShapeError, match=f"^{who}: expected query, key and value {said}"):
            call(X, key, key)


def test_autocast_may_mix_what_it_brings_together_itself():
    with torch.autocast("cpu", torch.bfloat16):
        assert attend(X, X.bfloat16(), X.bfloat16()).context.shape == X.shape


def test_the_law_names_widths_that_its_score_cannot_compare():
    with pytest.raises(ShapeError, match=r"^attend: scaled_dot compares .* one width, got 4 and 3"):
        attend(X, X[..., :3], X)


def test_heads_say_of_what_kind_their_weights_are():
    said = "^heads: expected query of torch.float32, as the weights are, got torch.float64. Write q"
    with pytest.raises(ShapeError, match=said):
        multi_head(DIMS)(torch.randn(2, 5, 12).double())


class _WithoutForward(nn.Module, Score):
    def __init__(self, dims):
        super().__init__()


class _NoModule(Score):
    def forward(self, query, key, places=None):
        return query @ key.mT


class _OnlyARow(_WithoutForward):
    def forward(self, query, key, places=None):
        return query.sum(-1)


class _Forgetful(_WithoutForward):
    def forward(self, query, key, places=None):
        query @ key.mT


class _WeighsNothing(Selection):
    pass


@pytest.mark.parametrize("score", [_WithoutForward(DIMS.head()), _NoModule()])
def test_an_own_score_without_what_a_call_needs_is_refused(score):
    said = (
        rf"^chain: score: {type(score).__name__} has no forward, so it is no score yet\. Write def "
        r"forward\(self, …\) as regard\.parts\.Score says, in a class that inherits nn\.Module b"
    )
    with pytest.raises(SettingError, match=said):
        Chain(score=score)


def test_an_own_selection_without_weights_is_refused():
    with pytest.raises(SettingError, match=r"^chain: select: _WeighsNothing has no weigh, so it"):
        Chain(select=_WeighsNothing())


@pytest.mark.parametrize(("score", "got"), [(_OnlyARow, r"\(1, 2, 3\)"), (_Forgetful, "NoneType")])
def test_an_own_score_of_another_shape_is_named(score, got):
    said = rf": expected scores of shape \(b, h, 3, 3\), a number for each .* got {got}\. Mend"
    with pytest.raises(ShapeError, match=said):
        Chain(score=score(DIMS.head()))(X, X, X)


@pytest.mark.parametrize("n", [0, -3])
def test_only_a_count_of_words_is_explained(n):
    with pytest.raises(SettingError, match=f"^explain: n_queries must be a whole .* got {n}"):
        Chain().explain(n)
