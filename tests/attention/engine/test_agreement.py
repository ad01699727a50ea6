"""Agreement: a kernel that fails or differs from the dense chain is told by name, and once."""

from dataclasses import replace

import pytest
import torch

from regard.attention import Chain, engine
from regard.attention.engine.agreement import compare
from regard.attention.links import NO_RELATION
from regard.attention.relations.shaw import ShawRelation
from tests.assertions import doubles
from tests.attention.engine.test_paths import DIMS, DV, D, H

SHAW = Chain(relation=ShawRelation(DIMS, clip=3).double())
PATHS = engine.PATHS


def case_of(chain):
    x = (doubles(2, H, 7, width) for width in (D, D, DV))
    return chain._case(*x, chain.pattern, None)


def joined(case):
    return PATHS["joined"].run(case)


def without_the_relation(case):
    return PATHS["dense"].run(replace(case, relation=NO_RELATION))


def failing(case):
    raise RuntimeError("out of resources: shared memory\nand more")


def test_a_right_kernel_agrees():
    assert compare(case_of(SHAW), joined, 40) is None


def test_a_gradient_that_is_zero_but_for_rounding_agrees():
    # without a clip all keys get the same number, which changes no weight
    chain = Chain(relation=ShawRelation(DIMS, clip=0).double())
    assert compare(case_of(chain), joined, 40) is None


def test_a_wrong_kernel_is_told_by_what_differs():
    said = compare(case_of(SHAW), without_the_relation, 40)
    assert said == "its kernel differs from the dense chain on this device (context)"


def test_a_kernel_that_fails_is_told_by_its_first_line():
    said = compare(case_of(SHAW), failing, 40)
    assert said == "its kernel fails on this device (RuntimeError: out of resources: shared memory)"


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_kernel_is_tried_with_gradients_whatever_the_caller_does(mode):
    with mode():
        assert compare(case_of(SHAW), joined, 40) is None


def test_trying_leaves_the_random_numbers_alone():
    case, before = case_of(SHAW), torch.get_rng_state()
    compare(case, joined, 40)
    assert torch.equal(before, torch.get_rng_state())
