"""Thread trials: every number has its turns, the median tells, and torch is left as it was."""

from types import SimpleNamespace

import pytest
import torch

from regard.hardware import thread_trials
from regard.hardware.thread_trials import MAX_ROUNDS, trial_seconds
from regard.hardware.threads import candidates


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=0.0, counts=[])
    monkeypatch.setattr(thread_trials.time, "perf_counter", lambda: clock.now)
    return clock


def _work(clock, seconds):
    """Work that takes this time on each number of threads, or on the times of its turns."""

    def work():
        count = torch.get_num_threads()
        clock.counts.append(count)
        clock.now += seconds(count)

    return work


def test_the_time_is_that_of_the_work_on_each_number_and_torch_has_its_own_again(clock):
    found = trial_seconds(_work(clock, {1: 0.05, 2: 0.03}.get), (1, 2), 1.0)
    assert found == pytest.approx({1: 0.05, 2: 0.03})
    assert torch.get_num_threads() == 1


def test_the_numbers_take_turns(clock):
    trial_seconds(_work(clock, {1: 0.05, 2: 0.04}.get), (1, 2), 1.0)
    turns = [count for i, count in enumerate(clock.counts) if clock.counts[i - 1 : i] != [count]]
    assert turns == [1, 2] * (len(turns) // 2) and len(turns) >= 4


def test_the_first_work_of_a_turn_is_thrown_away(clock):
    def seconds(count):
        return 5.0 if clock.counts[-2:-1] != [count] else 0.1

    assert trial_seconds(_work(clock, seconds), (1, 2), 1.0) == pytest.approx({1: 0.1, 2: 0.1})


def test_a_moment_of_noise_changes_nothing(clock):
    def seconds(count):
        return 40.0 if count == 2 and 0.55 < clock.now < 0.6 else {1: 0.012, 2: 0.01}[count]

    work = _work(clock, seconds)
    found = trial_seconds(work, (1, 2), 50.0)
    assert clock.now > 40 and found == pytest.approx({1: 0.012, 2: 0.01})


def test_a_number_that_is_far_behind_takes_no_more_turns(clock):
    found = trial_seconds(_work(clock, {1: 0.3, 2: 0.01, 4: 0.011}.get), (1, 2, 4), 2.0)
    assert clock.counts.count(1) == 2
    assert found[1] == pytest.approx(0.3)
    clock.counts.clear()
    trial_seconds(_work(clock, {1: 0.3, 2: 0.01}.get), (1, 2), 1e9)
    # once one is left there is nothing to compare; two rounds are the least
    assert clock.counts.count(1) == 2


def test_work_of_any_length_ends_after_the_rounds_or_the_time(clock):
    trial_seconds(_work(clock, {1: 30.0, 2: 31.0}.get), (1, 2), 1.0)
    assert clock.counts == [1, 1, 2, 2] * 2
    begun = clock.now
    trial_seconds(_work(clock, {1: 0.01, 2: 0.0101}.get), (1, 2), 1.0)
    assert clock.now - begun < 1.6
    clock.counts.clear()
    trial_seconds(_work(clock, {1: 0.01, 2: 0.0101}.get), (1, 2), 1e9)
    changes = sum(one != other for one, other in zip(clock.counts, clock.counts[1:], strict=False))
    assert changes == 2 * MAX_ROUNDS - 1


@pytest.mark.parametrize(
    ("most", "expected"),
    [(1, ()), (2, (1, 2)), (3, (1, 2, 3)), (4, (1, 2, 4)), (12, (1, 2, 4, 8, 12))],
)
def test_numbers_are_doubled_up_to_the_most(most, expected):
    assert candidates(most) == expected
