"""A shared weight: every step's product, and a gradient that is one product for all of them."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from regard.layers.recurrent.shared_weight import SharedWeight, add_product
from tests.assertions import assert_close, assert_same_gradients, doubles


def chained(weight, base, x):
    """Three steps, each of which reads what the one before it said."""
    shared, said = SharedWeight(weight, base), []
    for each in shared.bases:
        shared.saw(x)
        x = add_product(each, x, shared.weight).tanh()
        said.append(x)
    return torch.stack(said)


def plainly(weight, base, x):
    said = []
    for each in base:
        x = (each + x @ weight.mT).tanh()
        said.append(x)
    return torch.stack(said)


def test_steps_and_gradients_are_those_of_a_plain_weight():
    weight, base = doubles(5, 5, requires_grad=True), doubles(3, 2, 5, requires_grad=True)
    x = doubles(2, 5, requires_grad=True)
    got, want = chained(weight, base, x), plainly(weight, base, x)
    assert_close("said", got, want)
    assert_same_gradients(got, want, {"weight": weight, "base": base, "x": x})


def test_a_weight_that_is_a_part_of_another_learns_in_its_place():
    whole, base = doubles(5, 9, requires_grad=True), doubles(3, 2, 5)
    x = doubles(2, 5)
    got, want = chained(whole[:, 2:7], base, x), plainly(whole[:, 2:7], base, x)
    assert_same_gradients(got, want, {"whole": whole})


def test_the_gradient_of_the_weight_is_one_product():
    weight, base = doubles(5, 5, requires_grad=True), doubles(3, 2, 5)
    said = chained(weight, base, doubles(2, 5)).sum()
    with FlopCounterMode(display=False) as counted:
        said.backward()
    # two steps hand a gradient to the one before them; the weight's own product is the third
    products = counted.get_flop_counts()["Global"][torch.ops.aten.mm]
    assert products == 2 * (2 * 2 * 5 * 5) + 2 * (3 * 2) * 5 * 5


def test_nothing_is_kept_from_one_pass_to_the_next():
    weight, base, x = doubles(5, 5, requires_grad=True), doubles(3, 2, 5), doubles(2, 5)
    first, second = (
        torch.autograd.grad(chained(weight, base, x).sum(), weight)[0] for _ in range(2)
    )
    assert_close("gradient", second, first)
