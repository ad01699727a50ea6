"""Errors: every kind of them is met somewhere, says who speaks, and is a RegardError."""

import inspect
import sys
from pathlib import Path

import pytest
import torch

from regard import RegardError, errors
from regard.attention import Chain, GroupedQueryHeads, multi_head
from regard.attention.memories.linformer import LinformerMemory
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.selections.hard import HardSelection
from regard.attention.tables import SCORES
from regard.choices import Choice
from regard.data import TabSeparated
from regard.dims import Dims
from regard.errors import (
    CheckpointError,
    DataError,
    DimsError,
    LengthError,
    MeetingError,
    MissingExtra,
    NotPortable,
    PathError,
    RecipeError,
    RunError,
    SettingError,
    ShapeError,
    UnknownChoice,
)
from regard.models.portable.attentions import attention_form
from regard.places import Tree
from regard.plots import heatmap
from regard.positions.learned import LearnedPositions
from regard.recipes import read_recipe
from regard.recipes.recipe import parse_recipe
from regard.training import run
from regard.training.checkpoints import read_tensors

DIMS = Dims(d_model=12, n_heads=3, max_len=17)


def _recipe():
    table = {"data": {"train": "copy:count=2", "valid": "copy:count=2"}, "training": {"steps": 1}}
    return parse_recipe(table, "test", {})


MET = {
    UnknownChoice: (
        lambda: Choice("scaled_dott").build(SCORES, DIMS),
        r"There is no 'scaled_dott' here\. Did you mean 'scaled_dot'\?",
    ),
    SettingError: (
        lambda: SlidingWindowPattern(size=-1),
        r"sliding_window: size must be at least 0, got -1\.",
    ),
    DimsError: (
        lambda: GroupedQueryHeads(DIMS, n_groups=2),
        r"grouped_query: n_groups \(2\) must divide n_heads \(3\)",
    ),
    ShapeError: (
        lambda: Tree.from_heads(torch.tensor([[0, 5]])),
        r"tree: heads must lie in -1\.\.1, got 0\.\.5\.",
    ),
    LengthError: (
        lambda: LearnedPositions(DIMS)(torch.tensor([17])),
        r"learned: position 17 was asked for, but the table has 17 \(0 to 16\)",
    ),
    MeetingError: (
        lambda: Chain(memory=LinformerMemory(DIMS), pattern=CausalPattern()),
        "chain: causal and linformer cannot meet",
    ),
    PathError: (
        lambda: Chain(select=HardSelection(), path="sparse")(*[torch.zeros(1, 1, 2, 3)] * 3),
        "engine: the sparse path cannot compute this chain: HardSelection is not a plain softmax",
    ),
    DataError: (
        lambda: next(TabSeparated(Path("nowhere.tsv")).examples()),
        r"files: there is no file 'nowhere\.tsv'",
    ),
    RecipeError: (
        lambda: read_recipe(Path("nowhere.toml")),
        r"recipe: there is no file 'nowhere\.toml'\.",
    ),
    CheckpointError: (
        lambda: read_tensors(Path(__file__)),
        "cannot be read as safetensors",
    ),
    RunError: (
        lambda: next(run(_recipe(), Path(__file__).parent)),
        "is not empty, and a run is never overwritten. Add --resume",
    ),
    NotPortable: (
        lambda: attention_form(multi_head(DIMS, select="sparsemax"), is_causal=False),
        r"the selection sparsemax is no softmax, and other runtimes have no other; take model\.sel",
    ),
    MissingExtra: (
        lambda: heatmap(torch.eye(3)),
        r"plots: matplotlib is not installed\. Run pip install 'regard\[plots\]'",
    ),
}


@pytest.mark.parametrize("kind", MET, ids=lambda kind: kind.__name__)
def test_every_error_is_met_and_says_what_to_do(kind, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    meet, said = MET[kind]
    with pytest.raises(kind, match=said) as met:
        meet()
    assert type(met.value) is kind


def test_no_error_is_forgotten():
    public = {error for _, error in inspect.getmembers(errors, inspect.isclass)}
    assert public - {RegardError} == set(MET)


def test_catching_the_root_catches_everything():
    assert issubclass(RegardError, ValueError)
    assert all(kind.__base__ is RegardError for kind in MET)


def test_a_dropout_of_everything_is_refused():
    with pytest.raises(SettingError, match=r"chain: dropout must lie in \[0, 1\), got 1\.0\."):
        Chain(dropout=1.0)
