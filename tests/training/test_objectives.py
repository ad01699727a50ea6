"""Objectives of loss inputs with a term of their own; without one nothing is added or computed."""

import pytest
import torch
from torch.nn.functional import log_softmax

from regard.errors import SettingError
from regard.models import LossInputs
from regard.training.losses import Objective, token_loss
from tests.assertions import assert_close, doubles

GOLD = torch.tensor([[4, 5, 2], [6, 2, 0]])
SOURCE = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)


def layer():
    return torch.nn.Linear(4, 7, bias=False).double()


def test_a_lesson_with_a_term_is_taken_apart_like_any_other():
    plain = LossInputs(doubles(2, 3, 4), GOLD)
    taught = LossInputs(*plain, extra=lambda log_p: log_p.sum())
    hidden, gold = taught
    assert hidden is plain.hidden and gold is GOLD
    assert plain.extra is None
    assert float(taught.extra(torch.ones(2, 3))) == 6.0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_tokens_and_the_term_scaled_alike(smoothing):
    output, hidden, weight = layer(), doubles(2, 3, 4, requires_grad=True), doubles(2, 3)
    weight.requires_grad_()
    told = []

    def extra(log_p):
        told.append(log_p)
        return (weight * log_p).sum()

    found = Objective(smoothing)(
        lambda s, t: LossInputs(hidden, t, extra), output, SOURCE, GOLD, scale=0.3
    )
    logs = log_softmax(output(hidden), -1).gather(-1, GOLD[..., None])[..., 0]
    logs = logs.masked_fill(GOLD == 0, 0.0).detach()
    plain = token_loss(hidden, output.weight, GOLD, smoothing=smoothing, scale=0.3)
    assert_close("log-probabilities", told[0], logs)
    assert not told[0].requires_grad
    assert_close("loss", found.total, plain.total + 0.3 * (weight * logs).sum())
    assert_close("nll", found.nll, plain.nll)
    assert not found.nll.requires_grad
    leaves = [hidden, output.weight]
    ours, theirs = (torch.autograd.grad(each.total, leaves) for each in (found, plain))
    for name, one, other in zip(("hidden", "output"), ours, theirs, strict=True):
        assert_close(name, one, other)


def test_rows_that_were_read_several_times_count_once():
    output, hidden = layer(), doubles(6, 3, 4)
    gold = GOLD.repeat_interleave(3, 0)
    found = Objective(0.1)(
        lambda s, t: LossInputs(hidden, gold, lambda log_p: log_p.square().sum()),
        output, SOURCE, GOLD, scale=0.5,
    )  # fmt: skip
    each = [
        Objective(0.1)(
            lambda s, t, i=i: LossInputs(hidden[i::3], t, lambda log_p: log_p.square().sum()),
            output, SOURCE, GOLD, scale=0.5,
        )
        for i in range(3)
    ]  # fmt: skip
    assert_close("loss", found.total, sum(one.total for one in each) / 3)
    assert_close("nll", found.nll, sum(one.nll for one in each) / 3)


def test_single_losses_add_up_to_the_whole():
    hidden, output = doubles(2, 3, 4), doubles(7, 4)
    loss = token_loss(hidden, output, GOLD, smoothing=0.2, scale=0.5)
    assert_close("sum", loss.each.sum(), loss.nll)
    assert float(loss.each[1, 2]) == 0.0


def test_two_passes_are_not_compared_where_the_loss_has_a_term_of_its_own():
    both = doubles(4, 3, 4)
    with pytest.raises(SettingError, match=r"training.r_drop: .* Set r_drop = 0"):
        Objective(0.1, 1.0)(
            lambda s, t: LossInputs(both, t, lambda log_p: log_p.sum()),
            layer(), SOURCE, GOLD, scale=1.0,
        )  # fmt: skip


def test_two_passes_read_a_batch_of_pictures_twice():
    both, shapes = doubles(4, 3, 4), []

    def loss_inputs(source, target):
        shapes.append(source.shape)
        return LossInputs(both, target)

    Objective(0.1, 1.0)(loss_inputs, layer(), SOURCE, GOLD, scale=1.0)
    assert shapes == [(4, 3, 4, 4)]
