"""Special tokens can be left out of a panel, and how much goes with them is said."""

import pytest
import torch

from regard.inspecting.panels import View
from regard.inspecting.token_labels import Tokens
from tests.inspecting.hand_made import of_a_model, written_down

KEYS = Tokens(("▁a", "▁dog", "<eos>"), (0, 1, 2), ("a", "dog", "<eos>"), frozenset({2}))
QUERIES = Tokens(("▁chien", "<eos>"), (0, 1), ("chien", "<eos>"), frozenset({1}))


def test_the_rest_stays_as_it_was_and_the_hidden_share_is_told():
    record = written_down([[[0.1, 0.3, 0.6], [0.0, 0.0, 1.0]]], queries=QUERIES, keys=KEYS)
    panel = record.panel(View()).without_specials()
    assert (panel.queries, panel.keys) == (("chien",), ("a", "dog"))
    torch.testing.assert_close(panel.weights, torch.tensor([[0.1, 0.3]]))
    assert panel.hidden.share == pytest.approx(0.6)
    assert str(panel.hidden) == "60 % of the weight, on <eos>, is hidden"


def test_the_rest_can_be_made_to_sum_to_what_the_row_did():
    record = written_down([[[0.1, 0.3, 0.6], [0.0, 0.0, 1.0]]], queries=QUERIES, keys=KEYS)
    panel = record.panel(View()).without_specials(is_renormalised=True)
    torch.testing.assert_close(panel.weights, torch.tensor([[0.25, 0.75]]))
    assert panel.hidden.share == pytest.approx(0.6)


@pytest.mark.parametrize("unit", ["words", "pieces"])
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_what_is_shown_and_what_is_hidden_make_up_the_whole(kind, unit):
    record, _ = of_a_model()
    view = View(kind, 0, 1, unit)
    shown = record.panel(view).without_specials()
    share = float(shown.weights.sum()) / len(shown.queries)
    assert share + shown.hidden.share == pytest.approx(1.0, abs=1e-5)
    assert not {"<bos>", "<eos>"} & {*shown.keys, *shown.queries}
