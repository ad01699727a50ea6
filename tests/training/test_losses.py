"""The loss: what it is, what it leaves out, and that it never holds all logits."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from regard.training import losses
from regard.training.losses import token_loss
from tests.assertions import assert_close, doubles


def _case(smoothing):
    hidden, output = doubles(2, 7, 5, requires_grad=True), doubles(11, 5, requires_grad=True)
    gold = torch.randint(1, 11, (2, 7))
    gold[1, 4:] = 0
    return hidden, output, gold, smoothing


def _by_hand(hidden, output, gold, smoothing):
    logs = (hidden @ output.mT).log_softmax(-1)[gold != 0]
    right = -logs.gather(-1, gold[gold != 0][:, None]).sum()
    return (1 - smoothing) * right + smoothing * -logs[:, 1:].mean(-1).sum()


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.7])
@pytest.mark.parametrize("at_once", [1 << 24, 33, 1])
def test_it_is_the_equation_with_gradients_however_many_rows_are_taken_at_once(
    smoothing, at_once, monkeypatch
):
    monkeypatch.setattr(losses, "LOGITS_AT_ONCE", at_once)
    hidden, output, gold, _ = _case(smoothing)
    loss = token_loss(hidden, output, gold, smoothing=smoothing, scale=0.25)
    want = 0.25 * _by_hand(hidden, output, gold, smoothing)
    assert_close("loss", loss.total.detach(), want.detach())
    ours = torch.autograd.grad(loss.total, (hidden, output))
    theirs = torch.autograd.grad(want, (hidden, output))
    for name, got, right in zip(("hidden", "output"), ours, theirs, strict=True):
        assert_close(f"gradient of {name}", got, right)


def test_without_smoothing_it_is_torch_s_cross_entropy():
    hidden, output, gold, _ = _case(0.0)
    want = cross_entropy((hidden @ output.mT).flatten(0, 1), gold.flatten(), ignore_index=0,
                         reduction="sum")  # fmt: skip
    assert_close("nll", token_loss(hidden, output, gold).nll, want.detach())


def test_smoothing_is_in_the_loss_and_not_in_what_is_reported():
    hidden, output, gold, _ = _case(0.0)
    plain, smooth = (token_loss(hidden, output, gold, smoothing=s) for s in (0.0, 0.3))
    assert_close("nll", smooth.nll, plain.nll)
    assert not torch.isclose(smooth.total, plain.total)


def test_more_padding_changes_nothing():
    hidden, output, gold, _ = _case(0.1)
    wider = torch.cat([hidden, doubles(2, 3, 5)], 1)
    longer = torch.nn.functional.pad(gold, (0, 3))
    got = token_loss(wider, output, longer, smoothing=0.1).total
    assert_close(
        "loss", got.detach(), token_loss(hidden, output, gold, smoothing=0.1).total.detach()
    )


def test_nothing_is_kept_for_gradients_when_none_are_wanted():
    hidden, output, gold, _ = _case(0.1)
    with torch.no_grad():
        assert token_loss(hidden, output, gold).total.grad_fn is None
