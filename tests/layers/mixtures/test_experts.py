"""Experts: the equation, nothing dropped, and what imbalance costs."""

import pytest
import torch
from torch.nn.functional import softmax

from regard.dims import Dims
from regard.errors import SettingError
from regard.layers.feed_forward import FeedForward
from regard.layers.mixtures.experts import Experts, imbalance, listening
from tests.assertions import assert_close, doubles

DIMS = Dims(d_model=6)


def experts(**changes):
    return Experts(DIMS, **{"d_hidden": 8, "count": 4, "used": 2, **changes}).double()


def said(mixture, number, x):
    inner = torch.relu(x @ mixture.W1[number] + mixture.b1[number])
    return inner @ mixture.W2[number] + mixture.b2[number]


@pytest.mark.parametrize("used", [1, 2, 3])
def test_the_output_is_the_equation_token_by_token(used):
    mixture, x = experts(used=used), doubles(2, 5, 6)
    with torch.no_grad():
        mixture.b1.normal_()
        mixture.b2.normal_()
        mixture.gate.weight.normal_()
    got = mixture(x)
    for place in torch.cartesian_prod(torch.arange(2), torch.arange(5)).tolist():
        token = x[tuple(place)]
        shares = softmax(mixture.gate.weight @ token, 0)
        best = sorted(range(4), key=lambda e: -shares[e])[:used]
        want = sum(shares[e] * said(mixture, e, token) for e in best)
        total = sum(shares[e] for e in best) if used > 1 else 1
        assert_close("token", got[tuple(place)], want / total, atol=1e-6)


def test_one_expert_is_the_feed_forward():
    mixture, plain = experts(count=1, used=1), FeedForward(DIMS, d_hidden=8).double()
    with torch.no_grad():
        mixture.W1[0], mixture.W2[0] = plain.inner.weight.T, plain.outer.weight.T
    x = doubles(3, 4, 6)
    assert_close("output", mixture(x), plain(x))


def test_all_experts_used_are_their_weighted_mean():
    mixture, x = experts(used=4), doubles(7, 6)
    shares = softmax(mixture.gate(x), -1)
    want = sum(shares[:, e, None] * said(mixture, e, x) for e in range(4))
    assert_close("output", mixture(x), want, atol=1e-6)


def test_a_token_gets_the_same_answer_in_any_company():
    mixture, x = experts().eval(), doubles(9, 6)
    alone = torch.cat([mixture(x[i : i + 1]) for i in range(9)])
    assert_close("output", mixture(x), alone)


@pytest.mark.parametrize("used", [1, 2])
def test_every_expert_and_the_gate_learn(used):
    torch.manual_seed(0)
    mixture = experts(used=used)
    mixture(doubles(64, 6)).square().sum().backward()
    assert all(p.grad.flatten(1).any(1).all() for p in (mixture.W1, mixture.W2, mixture.b2))
    assert mixture.gate.weight.grad.abs().max() > 1e-3


def test_imbalance_is_one_where_all_are_asked_alike_and_their_number_where_one_is():
    even = torch.full((8, 4), 0.25)
    assert float(imbalance(even, torch.arange(8)[:, None] % 4)) == pytest.approx(1.0)
    only = torch.tensor([[1.0, 0, 0, 0]]).expand(8, 4)
    assert float(imbalance(only, torch.zeros(8, 1, dtype=torch.long))) == pytest.approx(4.0)


def imbalance_of(mixture, x):
    with listening(mixture) as heard:
        mixture(x)
    return imbalance(*heard[0])


def test_going_down_the_imbalance_evens_out_who_is_asked():
    torch.manual_seed(1)
    mixture, x = experts(used=1), doubles(256, 6)
    x[:, 0] = 2.0
    with torch.no_grad():
        mixture.gate.weight[0, 0] = 1.0
    before = float(imbalance_of(mixture, x).detach())
    optimiser = torch.optim.SGD(mixture.gate.parameters(), lr=0.5)
    for _ in range(60):
        optimiser.zero_grad()
        imbalance_of(mixture, x).backward()
        optimiser.step()
    assert before > 2
    assert float(imbalance_of(mixture, x).detach()) < 1.2


def test_nothing_is_heard_where_nobody_listens():
    mixture, x = experts(), doubles(3, 6)
    mixture(x)
    with listening(mixture) as heard:
        mixture(x)
    mixture(x)
    assert [tuple(one.shares.shape) for one in heard] == [(3, 4)]


def test_a_cuda_graph_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr("regard.layers.mixtures.experts._is_capturing", lambda x: True)
    with pytest.raises(SettingError, match=r"a CUDA graph of the work cannot know.*--no-compile"):
        experts()(doubles(3, 6))


@pytest.mark.parametrize("used", [0, 5])
def test_more_experts_than_there_are_cannot_be_used(used):
    with pytest.raises(SettingError, match=rf"between 1 and count \(4\), got {used}"):
        experts(used=used)
