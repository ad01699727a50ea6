"""R-Drop: the divergence and its gradients by a naive oracle; without dropout it is plain."""

import pytest
import torch
from torch.nn.functional import kl_div, log_softmax

from regard.models import LossInputs, TransformerSpec, build_transformer
from regard.recipes.training_recipe import TrainingRecipe
from regard.training import losses
from regard.training.losses import Objective, divergence
from tests.assertions import assert_close

GOLD = torch.tensor([[4, 5, 2], [6, 2, 0]])


def _leaves():
    shapes = {"first": (2, 3, 4), "second": (2, 3, 4), "output": (7, 4)}
    return {n: torch.randn(s, dtype=torch.float64, requires_grad=True) for n, s in shapes.items()}


def _oracle(first, second, output):
    p, q = (log_softmax(side @ output.T, -1) for side in (first, second))
    both = kl_div(q, p, log_target=True, reduction="none") + kl_div(
        p, q, log_target=True, reduction="none"
    )
    return both.sum(-1)[GOLD != 0].sum()


@pytest.mark.parametrize("at_once", [1, 28, 1 << 20])
def test_the_divergence_and_its_gradients_are_the_oracle_s(at_once, monkeypatch):
    monkeypatch.setattr(losses, "LOGITS_AT_ONCE", at_once)
    leaves = _leaves()
    ours = divergence(*leaves.values(), GOLD, scale=0.3)
    expected = 0.3 * _oracle(*leaves.values())
    assert_close("divergence", ours, expected)
    found = torch.autograd.grad(2 * ours, list(leaves.values()))
    wanted = torch.autograd.grad(2 * expected, list(leaves.values()))
    for name, one, other in zip(leaves, found, wanted, strict=True):
        assert_close(name, one, other)
    assert not found[0][1, 2].any(), "padding is not compared"


def test_equal_passes_do_not_differ():
    leaves = _leaves()
    same = divergence(leaves["first"], leaves["first"], leaves["output"], GOLD)
    assert same.item() == 0.0
    assert not torch.autograd.grad(same, leaves["output"])[0].any()


def test_the_objective_is_the_equation_over_two_passes():
    leaves = _leaves()
    output = torch.nn.Linear(4, 7, bias=False).double()
    both = torch.cat([leaves["first"], leaves["second"]])

    def loss_inputs(source, target):
        assert target.tolist() == [*GOLD.tolist(), *GOLD.tolist()]
        return LossInputs(both, target)

    found = Objective(0.1, 5.0)(loss_inputs, output, GOLD, GOLD, scale=0.25)
    plain = [
        Objective(0.1)(
            lambda s, t, side=side: LossInputs(leaves[side], t), output, GOLD, GOLD, scale=1
        )
        for side in ("first", "second")
    ]
    apart = _oracle(leaves["first"], leaves["second"], output.weight)
    expected = 0.25 * (plain[0].total + plain[1].total + 5.0 * apart / 2) / 2
    assert_close("loss", found.total, expected)
    assert_close("nll", found.nll, (plain[0].nll + plain[1].nll) / 2)
    assert_close("gradient", *(torch.autograd.grad(each, output.weight)[0]
                               for each in (found.total, expected)))  # fmt: skip


def test_without_dropout_it_is_the_plain_loss():
    spec = TransformerSpec(d_model=8, n_heads=2, d_hidden=8, n_encoder_layers=1,
                           n_decoder_layers=1, dropout=0.0)  # fmt: skip
    model = build_transformer(spec, n_source_tokens=9, n_target_tokens=9).double()
    source = torch.tensor([[4, 7, 5, 2], [5, 2, 0, 0]])
    gradients = []
    for each in (Objective(0.1), Objective(0.1, 5.0)):
        loss = each(model.loss_inputs, model.output, source, GOLD, scale=0.2)
        gradients.append(torch.autograd.grad(loss.total, list(model.parameters())))
    for (name, _), plain, twice in zip(model.named_parameters(), *gradients, strict=True):
        assert_close(name, twice, plain)


def test_the_recipe_chooses():
    assert Objective.of(TrainingRecipe(steps=1)) == Objective(0.1)
    assert Objective.of(TrainingRecipe(steps=1, r_drop=5.0)) == Objective(0.1, 5.0)
