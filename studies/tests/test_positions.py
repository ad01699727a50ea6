"""The script that compares positions beyond the training length."""

from types import SimpleNamespace

import pytest
import torch
from torch.testing import assert_close

from regard.attention import RELATIONS
from regard.choices import Choice
from regard.data.subword_kinds import BOS
from regard.hardware.hardware import CPU
from regard.models import LanguageSpec, build_language_model
from regard.positions import POSITIONS
from regard.recipes.recipe import read_recipe
from studies.positions import study as positions
from studies.positions.study import CELLS, RECIPE, TIMES, nats, summary

NEED_TREES = {"tree_depth", "structural"}
SMALL = {"d_model": 16, "n_heads": 4, "d_hidden": 32, "n_layers": 2, "rows": "running"}


def _model(max_len=64, **choices):
    torch.manual_seed(1)
    return build_language_model(LanguageSpec(**SMALL, max_len=max_len, **choices), n_tokens=23)


def _trained(model):
    return SimpleNamespace(loaded=SimpleNamespace(model=model.eval()), hardware=CPU)


def test_every_position_and_relation_that_running_text_can_have_is_a_cell():
    assert set(CELLS) == ({*POSITIONS, *RELATIONS} - NEED_TREES) | {"none"}


@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_is_the_recipe_but_for_where_words_stand(cell):
    plain, own = read_recipe(RECIPE).as_table(), read_recipe(RECIPE, CELLS[cell]).as_table()
    for table in (plain, own):
        for key in ("positions", "relation"):
            table["model"].pop(key, None)
    assert own == plain
    chosen = read_recipe(RECIPE, CELLS[cell]).model
    assert cell in {chosen.positions.name, chosen.relation.name if chosen.relation else "none"}


def test_training_rows_end_where_the_page_says_and_learned_positions_reach_further():
    recipe = read_recipe(RECIPE, CELLS["learned"])
    length = recipe.data.train.settings["words"]
    assert length % positions.PLACES == 0
    assert recipe.model.dims.max_len >= TIMES[-1] * length


def test_the_loss_of_a_word_is_that_of_its_row_cut_before_it():
    model, rows = _model().eval(), torch.randint(4, 23, (2, 7))
    found = nats(model, rows, CPU)
    for place in range(7):
        before = torch.cat([torch.full((2, 1), BOS), rows[:, :place]], 1)
        shares = model(before)[:, -1].log_softmax(-1)
        assert_close(found[:, place], -shares.gather(1, rows[:, place : place + 1])[:, 0])


def test_rows_are_read_in_parts_and_averaged_by_place(monkeypatch):
    monkeypatch.setattr(positions, "TOKENS_AT_ONCE", 20)
    monkeypatch.setattr(positions, "PLACES", 4)
    model, rows = _model(), torch.randint(4, 23, (5, 8))
    found = positions.read(_trained(model), rows)
    whole = nats(model, rows, CPU).detach().double()
    assert found["loss"] == pytest.approx(float(whole.mean()), rel=1e-6)
    assert found["by_place"] == pytest.approx(
        [float(whole[:, :4].mean()), float(whole[:, 4:].mean())], rel=1e-6
    )


def test_a_table_that_ends_is_a_refusal_that_is_kept():
    model = _model(max_len=4, positions=Choice("learned"))
    found = positions.read(_trained(model), torch.randint(4, 23, (2, 12)))
    assert found["loss"] is None
    assert "the table has 9 (0 to 8)" in found["refused"]


def test_the_summary_keeps_cells_in_order_and_seeds_apart():
    same = {"length": 4, "words": 8, "updates": 1, "tokens_per_update": 2} | {
        "device": "cpu", "torch": "2", "losses": [], "parameters": 3,
    }  # fmt: skip
    rows = [
        {**same, "cell": cell, "seed": seed, "read": {"1": {"loss": float(seed)}}}
        for cell, seed in (("rotary", 2), ("none", 1), ("rotary", 1))
    ]
    found = summary(rows)
    assert list(found["cells"]) == ["none", "rotary"]
    assert [one["read"]["1"]["loss"] for one in found["cells"]["rotary"]["seeds"].values()] == [
        1.0, 2.0,
    ]  # fmt: skip
    with pytest.raises(ValueError, match="too many values to unpack"):
        summary([rows[0], {**rows[1], "updates": 2}])
