"""A score and a selection that are defined here, outside the package, take part like any other."""

import math
from typing import NamedTuple

import pytest
import torch
from torch import nn

from regard.attention import SCORES, Chain, GroupedQueryHeads, padding
from regard.attention.links import NO_RELATION, Score, Selection
from regard.attention.memories.linformer import LinformerMemory
from regard.attention.patterns.causal import CausalPattern
from regard.attention.relations.bucketed import BucketedRelation
from regard.attention.relations.linear_bias import LinearBiasRelation
from regard.attention.relations.shaw import ShawRelation
from regard.attention.scores.scaled_dot import ScaledDotScore
from regard.attention.selections.soft import SoftSelection
from regard.choices import Choice
from regard.dims import Dims
from regard.errors import MeetingError, RecipeError, SettingError
from regard.models import LanguageSpec, RecurrentSpec, build_language_model, build_model
from regard.models.stepper import PAD
from regard.positions import RotaryPositions
from regard.recipes import read_recipe
from tests.assertions import assert_close, assert_same_gradients, doubles
from tests.factories import RECIPE, TRANSFORMER

DIMS = Dims(d_model=5, n_heads=3, max_len=17)
LENGTHS = torch.tensor([11, 7])


class DistanceScore(nn.Module, Score):
    """e[i,j] = -g |q[i] - k[j]|², with a learned g for each head."""

    is_movable = needs_one_width = True

    def __init__(self, dims: Dims, *, start: float = 0.5) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.full((dims.n_heads, 1, 1), start))

    def forward(self, query, key, places=None):
        """Every query with every key."""
        return -self.g * (query[..., :, None, :] - key[..., None, :, :]).square().sum(-1)


class SilentScore(nn.Module, Score):
    """A score that says nothing of itself: the defaults must refuse what might be wrong."""

    def __init__(self, dims: Dims | None = None) -> None:
        super().__init__()

    def forward(self, query, key, places=None):
        """Every query with every key."""
        return query @ key.mT


class SigmoidRows(NamedTuple):
    """What a row keeps: the logarithm of how many keys it sees."""

    log_count: torch.Tensor


class SigmoidSelection(nn.Module, Selection):
    """a[i,j] = sigmoid(e[i,j] - log n[i]), n[i] the number of keys that i sees."""

    is_movable = True

    def summarise(self, scores, mask, query, places):
        """How many keys each row sees."""
        count = mask.expand(scores.shape).sum(-1, keepdim=True).clamp(min=1)
        return SigmoidRows(count.to(scores.dtype).log())

    def weigh(self, scores, mask, rows, places):
        """Each key for itself."""
        return (scores - rows.log_count).sigmoid() * mask


SELECTIONS = {
    "softmax": (SoftSelection(), lambda scores: scores.softmax(-1)),
    "sigmoid": (SigmoidSelection(), lambda scores: (scores - math.log(len(scores))).sigmoid()),
}
BIAS = LinearBiasRelation(DIMS)


def oracle(query, key, value, score, weigh, relation):
    """The equations, one row after another, over the keys that each row sees."""
    rows = []
    for b, h, i in torch.cartesian_prod(*(torch.arange(n) for n in query.shape[:3])).tolist():
        n = min(i + 1, int(LENGTHS[b]))
        e = torch.stack(
            [
                -score.g[h, 0, 0] * ((query[b, h, i] - key[b, h, j]) ** 2).sum()
                - (BIAS.m[h] * abs(i - j) if relation is BIAS else 0)
                for j in range(n)
            ]
        )
        rows.append(weigh(e) @ value[b, h, :n])
    return torch.stack(rows).view(*query.shape[:3], -1)


@pytest.mark.parametrize("relation", [NO_RELATION, BIAS], ids=["no relation", "linear bias"])
@pytest.mark.parametrize("name", SELECTIONS)
def test_a_chain_with_them_is_its_equations_with_the_same_gradients(name, relation):
    select, weigh = SELECTIONS[name]
    score = DistanceScore(DIMS).double()
    query, key, value = (doubles(2, 3, 11, 5, requires_grad=True) for _ in range(3))
    chain = Chain(score, select=select, relation=relation, pattern=CausalPattern())
    done = chain(query, key, value, padding(LENGTHS))
    expected = oracle(query, key, value, score, weigh, relation)
    assert_close("context", done.context, expected)
    assert_close("rebuilt", done.map.dense() @ value, expected)
    assert_close("a tile", done.map.tile(slice(3, 7), slice(2, 9)), done.map.dense()[..., 3:7, 2:9])
    named = {"query": query, "key": key, "value": value, "g": score.g}
    assert_same_gradients(done.context, expected, named)


def test_every_path_that_can_run_it_gives_what_the_law_gives():
    chain = Chain(DistanceScore(DIMS).double(), pattern=CausalPattern())
    query, key, value = (doubles(2, 3, 11, 5) for _ in range(3))
    law = Chain(chain.score, pattern=CausalPattern(), path="dense")(query, key, value)
    assert_close("context", chain(query, key, value).context, law.context)
    refused = chain.explain(11, n_heads=3, d_query=5).refused
    assert "fused" in refused


def test_a_relation_that_needs_a_scaled_dot_product_refuses_it():
    with pytest.raises(MeetingError, match="DistanceScore and shaw cannot meet: its vectors are"):
        Chain(DistanceScore(DIMS), relation=ShawRelation(DIMS, clip=2))


def test_rotary_positions_refuse_it_until_it_says_that_it_bears_them(monkeypatch):
    dims = Dims(d_model=12, n_heads=3)
    chain = Chain(DistanceScore(dims.head()))
    with pytest.raises(MeetingError, match="rotary and DistanceScore cannot meet: only a dot prod"):
        GroupedQueryHeads(dims, chain=chain, n_groups=3, rotary=RotaryPositions(dims))
    # |R q - R k| does depend on the distance of their positions alone
    monkeypatch.setattr(DistanceScore, "bears_rotation", True)
    GroupedQueryHeads(dims, chain=chain, n_groups=3, rotary=RotaryPositions(dims))


def test_a_memory_refuses_a_score_that_does_not_say_it_reads_no_positions():
    memory = LinformerMemory(DIMS, slots=4)
    Chain(DistanceScore(DIMS), memory=memory)
    with pytest.raises(MeetingError, match="SilentScore and linformer cannot meet: the score"):
        Chain(SilentScore(), memory=memory)


def test_it_may_refuse_others_itself(monkeypatch):
    def cannot_meet(self, other):
        measures = isinstance(other, BucketedRelation)
        return "they measure distance twice; leave the relation out" if measures else None

    monkeypatch.setattr(DistanceScore, "cannot_meet", cannot_meet)
    with pytest.raises(MeetingError, match="and bucketed cannot meet: they measure distance twice"):
        Chain(DistanceScore(DIMS), relation=BucketedRelation(DIMS))
    Chain(DistanceScore(DIMS), relation=LinearBiasRelation(DIMS))
    Chain(ScaledDotScore(), relation=BucketedRelation(DIMS))


@pytest.fixture
def one_line(monkeypatch):
    """The one line of a table by which a recipe can name it."""
    monkeypatch.setitem(SCORES, "distance", DistanceScore)
    monkeypatch.setitem(SCORES, "silent", SilentScore)


def recipe_with(folder, lines, model=TRANSFORMER):
    """A recipe whose [model] section has these lines too."""
    path = folder / "recipe.toml"
    path.write_text(RECIPE.format(kind="characters", max_len=32, model=f"{model}\n{lines}"))
    return path


@pytest.mark.usefixtures("one_line")
def test_a_recipe_chooses_it_by_one_line_of_the_table(tmp_path):
    recipe = read_recipe(recipe_with(tmp_path, 'score = { name = "distance", start = 0.25 }'))
    model = build_model(recipe.model, n_source_tokens=20, n_target_tokens=20)
    scores = [part for part in model.modules() if isinstance(part, DistanceScore)]
    assert len(scores) == 5
    assert {float(score.g.detach().unique()) for score in scores} == {0.25}
    tokens = torch.randint(PAD + 4, 20, (2, 6))
    model(tokens, tokens).sum().backward()
    assert all(score.g.grad.abs().sum() > 0 for score in scores)


@pytest.mark.usefixtures("one_line")
def test_a_recipe_with_what_cannot_meet_it_is_refused(tmp_path):
    lines = 'score = "distance"\npositions = "rotary"'
    with pytest.raises(RecipeError, match="rotary and distance cannot meet: only a dot product"):
        read_recipe(recipe_with(tmp_path, lines))
    lines = 'score = "distance"\nrelation = "shaw"'
    with pytest.raises(RecipeError, match="distance and shaw cannot meet"):
        read_recipe(recipe_with(tmp_path, lines))


@pytest.mark.usefixtures("one_line")
def test_models_ask_it_what_it_can_do():
    choice = Choice("distance")
    with pytest.raises(SettingError, match=r"'distance' needs queries and keys of one width"):
        RecurrentSpec(
            score=choice, is_bidirectional=True, reverses_source=False, bridge="projected"
        )
    with pytest.raises(SettingError, match="'distance' cannot read what a source word"):
        RecurrentSpec(score=choice, has_coverage=True)
    sizes = {"d_model": 8, "n_heads": 2, "d_hidden": 8, "n_layers": 1}
    movable = {
        name: build_language_model(LanguageSpec(**sizes, score=Choice(name)), n_tokens=9).is_movable
        for name in ("distance", "silent")
    }
    assert movable == {"distance": True, "silent": False}
