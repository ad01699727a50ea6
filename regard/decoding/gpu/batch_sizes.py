"""Batch sizes: the few shapes to which batches are filled up, so that they share recordings."""

FEW_SENTENCES = 32
"""Batches are filled to powers of 2 up to so many sentences, and to multiples of it beyond."""
ROUND_TOKENS = 8
"""Sources are padded to multiples of so many tokens."""


def filled_sentences(n: int) -> int:
    """How many sentences a batch of n is filled up to.

    >>> [filled_sentences(n) for n in (1, 3, 17, 32, 33)]
    [1, 4, 32, 32, 64]
    """
    return 1 << (n - 1).bit_length() if n < FEW_SENTENCES else _round_up(n, FEW_SENTENCES)


def padded_length(length: int, longest: int) -> int:
    """How many tokens sources of a length are padded to, of which a model reads the longest.

    >>> [padded_length(length, 60) for length in (1, 9, 16, 58)]
    [1, 16, 16, 60]
    """
    # a lone number may stand for a picture
    return length if length <= 1 else max(length, min(_round_up(length, ROUND_TOKENS), longest))


def _round_up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
