"""Thread trials: the same work on several numbers of threads in turns, and the time of each.

A turn begins with work that is not timed, since the threads of another number have to start first.
All numbers take their turn in every round, so that what else the machine does meets them all alike,
and the median over the rounds leaves out a moment of noise.
"""

import time
from collections.abc import Callable, Sequence
from statistics import median

import torch

from regard.hardware.threads import use_threads

TURN_S = 0.15
"""The longest turn, unless the work itself takes longer: longer than the period of a quota."""
MIN_ROUNDS, MAX_ROUNDS = 2, 9
HOPELESS = 1.5
"""A number whose quickest turn takes so many times as long as the best one's takes no more."""


def trial_seconds(
    work: Callable[[], object], counts: Sequence[int], seconds: float
) -> dict[int, float]:
    """The time of the work on each number of threads, found in about so many seconds.

    torch has its own number of threads again afterwards.
    """
    before, begun = torch.get_num_threads(), time.perf_counter()
    turn_s = min(TURN_S, seconds / (MIN_ROUNDS * len(counts)))
    turns: dict[int, list[float]] = {count: [] for count in counts}
    left = list(counts)
    try:
        for number in range(MAX_ROUNDS):
            for count in left:
                use_threads(count)
                turns[count].append(_turn(work, turn_s))
            best = min(min(turns[count]) for count in left)
            left = [count for count in left if min(turns[count]) <= HOPELESS * best]
            is_over = time.perf_counter() - begun >= seconds
            if number + 1 >= MIN_ROUNDS and (is_over or len(left) == 1):
                break
    finally:
        use_threads(before)
    return {count: median(times) for count, times in turns.items()}


def _turn(work: Callable[[], object], seconds: float) -> float:
    """The mean time of the work, repeated for so many seconds after a first time."""
    work()
    begun, times = time.perf_counter(), 0
    while (passed := time.perf_counter() - begun) < seconds or not times:
        work()
        times += 1
    return passed / times
