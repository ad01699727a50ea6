"""The checker of types: beartype's word, made when first needed."""

import pytest
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor, zeros

from tests.type_checker import OFTEN, begin_test, checked


@jaxtyped(typechecker=checked)
def widened(x: Float[Tensor, "n d"], by: int, *, got: Tensor | None = None) -> Float[Tensor, "n d"]:
    return zeros(x.shape[0], x.shape[1] + by) if got is None else got


def test_what_goes_in_is_checked():
    with pytest.raises(TypeCheckError, match="parameter 'x'"):
        widened(zeros(2, 3, 1), 0)
    with pytest.raises(TypeCheckError, match="parameter 'by'"):
        widened(zeros(2, 3), 0.0)


def test_what_comes_out_is_checked_against_the_sizes_of_what_went_in():
    assert widened(zeros(2, 3), 0).shape == (2, 3)
    begin_test()
    with pytest.raises(TypeCheckError, match="the return value"):
        widened(zeros(2, 3), 1)
    with pytest.raises(TypeCheckError, match="the return value"):
        widened(zeros(2, 3), 0, got=zeros(2, 3, dtype=int))


def test_a_function_that_says_nothing_of_its_types_is_left_alone():
    def silent(x):
        return x

    assert checked(silent) is silent


def test_what_was_right_often_is_believed_until_the_next_test():
    for _ in range(OFTEN):
        widened(zeros(2, 3), 0)
    assert widened(zeros(2, 3), 1).shape == (2, 4)
    begin_test()
    with pytest.raises(TypeCheckError):
        widened(zeros(2, 3), 1)
