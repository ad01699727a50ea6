"""Pictures show the numbers they were given."""

import builtins

import pytest
import torch
from matplotlib.figure import Figure

from regard.errors import MissingExtra, SettingError, ShapeError
from regard.plots import heatmap, shade


def test_shade_is_darker_for_more():
    drawn = shade(torch.tensor([[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]]))
    assert drawn == "  ··░░▒▒▓▓██"


def test_shade_names_rows_and_aligns_chinese():
    drawn = shade(torch.eye(2), rows=["我", "am"]).splitlines()
    assert drawn[0].startswith("我 ██")
    assert drawn[1] == "am   ██"


def test_shade_of_nothing_is_blank():
    assert shade(torch.zeros(2, 2)).strip() == ""


def test_a_heat_map_holds_the_numbers_names_and_titles():
    weights = torch.tensor([[0.9, 0.1], [0.3, 0.7]])
    figure = heatmap(weights, queries=["a", "b"], keys=["c", "d"], meaning="weight")
    ax, bar = figure.axes
    assert ax.images[0].get_array().tolist() == weights.tolist()
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a", "b"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["c", "d"]
    assert (ax.get_ylabel(), ax.get_xlabel(), bar.get_ylabel()) == ("queries", "keys", "weight")


def test_a_heat_map_of_codes_has_a_scale_with_two_sides():
    image = heatmap(torch.tensor([[-0.5, 0.5]])).axes[0].images[0]
    assert image.get_clim() == (-1.0, 1.0)


def test_a_heat_map_draws_on_a_given_axis():
    figure = Figure()
    ax = figure.add_subplot()
    assert heatmap(torch.eye(2), ax=ax) is figure
    assert len(ax.images) == 1


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    honest = builtins.__import__

    def missing(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return honest(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[plots\]'"):
        heatmap(torch.eye(2))


def test_a_long_name_is_cut_and_leaves_room_for_the_map():
    figure = heatmap(torch.eye(2), queries=["a" * 60, "b"], keys=["c", "d"])
    named = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert named == ["a" * 23 + "…", "b"]


def test_names_of_a_heat_map_are_one_for_each_row_and_column():
    with pytest.raises(ShapeError, match=r"^heatmap: 1 name for 3 queries\. Give each its name"):
        heatmap(torch.eye(3), queries=["a"])
    with pytest.raises(SettingError, match=r"^heatmap: keys must be a list of names, got the text"):
        heatmap(torch.eye(3), keys="abc")
