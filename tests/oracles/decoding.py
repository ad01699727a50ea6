"""Exhaustive search: every answer there is, with its probability. Imports nothing of ours."""

from collections.abc import Callable, Iterator, Sequence

PAD, BOS, EOS = 0, 1, 2


def answers(
    log_probs: Callable[[Sequence[int]], Sequence[float]],
    n_tokens: int,
    max_tokens: int,
    min_tokens: int = 0,
) -> Iterator[tuple[tuple[int, ...], bool, float]]:
    """Every answer, whether it has ended, and its log-probability."""

    def after(
        written: tuple[int, ...], total: float
    ) -> Iterator[tuple[tuple[int, ...], bool, float]]:
        if len(written) == max_tokens:
            yield written, False, total
            return
        here = log_probs(written)
        if len(written) >= min_tokens:
            yield written, True, total + here[EOS]
        for token in range(EOS + 1, n_tokens):
            yield from after((*written, token), total + here[token])

    return after((), 0.0)


def paper_divisor(length: int, alpha: float) -> float:
    """What the Transformer paper divides by."""
    return ((5 + length) / 6) ** alpha
