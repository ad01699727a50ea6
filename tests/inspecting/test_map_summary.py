"""One pass over a map finds what a look at the whole matrix would."""

from importlib import import_module

import numpy as np
import pytest
import torch

from regard.attention import Chain
from regard.attention.patterns.causal import CausalPattern
from regard.errors import SettingError
from regard.inspecting import summarise_map
from regard.inspecting.map_summary import ANYWHERE
from tests.inspecting.hand_made import Dense

MODULE = import_module("regard.inspecting.map_summary")


def random_map(n, **links):
    x = torch.randn(1, 2, n, 4) * 1.5
    return Chain(**links)(x, x.flip(2), x).map


@pytest.mark.parametrize("links", [{}, {"pattern": CausalPattern()}], ids=["full", "causal"])
def test_masses_entropies_and_far_links_are_those_of_the_matrix(links, monkeypatch):
    monkeypatch.setattr(MODULE, "BLOCK", 2000)
    monkeypatch.setattr(MODULE, "WIDTH", 70)
    layer = random_map(200, **links)
    dense = layer.dense()[0, 1].numpy()
    found = summarise_map(layer, 1, far=20, count=9)
    np.testing.assert_allclose(found.received, dense.sum(0), rtol=1e-4, atol=1e-6)
    logs = np.log(np.where(dense > 0, dense, 1.0))
    np.testing.assert_allclose(found.entropy, -(dense * logs).sum(1), rtol=1e-4, atol=1e-5)
    far = np.where(np.abs(np.subtract.outer(range(200), range(200))) > 20, dense, 0)
    best = np.sort(far.ravel())[::-1][:9]
    np.testing.assert_allclose([link.weight for link in found.links], best, rtol=1e-5)
    for link in found.links:
        assert link.weight == pytest.approx(dense[link.query, link.key], rel=1e-5)
        assert abs(link.query - link.key) > 20
    assert found.is_exact


def test_keys_that_are_left_out_are_linked_to_by_nobody():
    matrix = torch.rand(1, 1, 90, 90)
    matrix[..., 3] = 5.0
    links = summarise_map(Dense(matrix), 0, far=10, count=5, left_out=frozenset({3})).links
    assert all(link.key != 3 and link.weight < 1 for link in links)
    assert summarise_map(Dense(matrix), 0, far=10, count=5).links[0].key == 3


def test_a_pass_over_some_rows_says_so_and_estimates_the_whole():
    layer = random_map(400)
    some = summarise_map(layer, 0, every=4, far=5, count=3)
    assert not some.is_exact
    assert some.rows == range(1, 400, 4)
    assert some.received.sum() == pytest.approx(400, rel=1e-3)
    dense = layer.dense()[0, 0]
    assert some.received == pytest.approx(4 * dense[1::4].sum(0).numpy(), rel=1e-3)
    assert all(link.query % 4 == 1 for link in some.links)


def test_a_pause_is_made_after_every_block_and_can_stop_the_pass(monkeypatch):
    monkeypatch.setattr(MODULE, "BLOCK", 4000)
    blocks = []
    summarise_map(random_map(100), 0, pause=lambda: blocks.append(1))
    assert len(blocks) == 3

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        summarise_map(random_map(100), 0, pause=stop)


def test_a_step_of_nothing_is_refused():
    with pytest.raises(SettingError, match="expected every of at least 1"):
        summarise_map(random_map(5), 0, every=0)


def test_links_anywhere_are_the_heaviest_of_all():
    matrix = torch.rand(1, 1, 5, 80)
    found = summarise_map(Dense(matrix), 0, far=ANYWHERE, count=4).links
    best = matrix.flatten().topk(4).values.tolist()
    assert [link.weight for link in found] == pytest.approx(best)
