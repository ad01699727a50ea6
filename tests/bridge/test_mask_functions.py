"""Masks of transformers as patterns: the same pairs, and no numbers until they are read."""

import pytest
import torch
from transformers import masking_utils as theirs

from regard.bridge.interface import mask
from regard.bridge.mask_functions import SymbolicMask, pattern_of

IDS = torch.tensor([[0, 0, 1, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1, 1]])
LEFT = torch.zeros(2, dtype=torch.int64)

FUNCTIONS = {
    "causal": theirs.causal_mask_function,
    "full": theirs.bidirectional_mask_function,
    "window": theirs.sliding_window_causal_mask_function(3),
    "no window": theirs.sliding_window_causal_mask_function(0),
    "window alone": theirs.sliding_window_overlay(3),
    "both ways": theirs.sliding_window_bidirectional_mask_function(2),
    "chunks": theirs.chunked_causal_mask_function(3, LEFT),
    "packed": theirs.and_masks(
        theirs.causal_mask_function, theirs.packed_sequence_mask_function(IDS)
    ),
    "pictures in a text": theirs.or_masks(
        theirs.sliding_window_causal_mask_function(2), theirs.blockwise_overlay(IDS)
    ),
    "nested": theirs.and_masks(
        theirs.or_masks(theirs.causal_mask_function, theirs.blockwise_overlay(IDS)),
        theirs.sliding_window_bidirectional_overlay(4),
    ),
    "a caller's own": lambda b, h, q, k: (q + k) % 3 > 0,
}
PADDED = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0]])
SIZES = {
    "whole": {"q_length": 7, "kv_length": 7},
    "behind a cache": {"q_length": 2, "kv_length": 7, "q_offset": 5},
    "behind a cache that dropped keys": {
        "q_length": 2, "kv_length": 4, "q_offset": 5, "kv_offset": 3,
    },
}  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("padding", [None, PADDED, torch.ones_like(PADDED)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_mask_shows_the_pairs_that_the_matrix_of_transformers_shows(name, padding, size):
    given = {"batch_size": 2, **SIZES[size], "mask_function": FUNCTIONS[name]}
    padding = None if padding is None else padding.bool()
    ours = mask(**given, attention_mask=padding)
    want = theirs.sdpa_mask(**given, attention_mask=padding, allow_is_causal_skip=False)
    assert isinstance(ours, SymbolicMask)
    assert ours.shape == want.shape
    assert torch.equal(ours.numbers(), want)


def test_functions_that_index_no_tensors_of_places_become_a_matrix():
    given = {"batch_size": 2, "q_length": 7, "kv_length": 7}
    function = theirs.and_masks(theirs.causal_mask_function, lambda b, h, q, k: IDS[b, q] >= 0)
    got = mask(**given, mask_function=function, use_vmap=True)
    assert not isinstance(got, SymbolicMask)
    assert torch.equal(got, torch.ones(7, 7).tril().bool().expand(2, 1, 7, 7))


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        ("causal", {"CausalPattern"}),
        ("full", {"FullPattern"}),
        ("window", {"CausalPattern", "SlidingWindowPattern"}),
        ("both ways", {"SlidingWindowPattern"}),
    ],
)
def test_masks_that_fast_paths_know_become_patterns_that_they_know(name, classes):
    found = pattern_of(FUNCTIONS[name], 2)
    assert {type(part).__name__ for part in getattr(found, "parts", [found])} == classes


def test_an_operation_on_a_symbolic_mask_works_on_its_numbers():
    symbolic = mask(2, 7, 7, attention_mask=PADDED)
    want = theirs.sdpa_mask(2, 7, 7, attention_mask=PADDED.bool(), allow_is_causal_skip=False)
    assert torch.equal(symbolic[:, :, 2:, :3], want[:, :, 2:, :3])
    assert torch.equal(~symbolic, ~want)
    assert "SymbolicMask" in repr(symbolic)
