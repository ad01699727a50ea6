"""Processes: answers in order, and a death that takes nothing else with it."""

import multiprocessing
import subprocess
import sys
import time

import pytest

from regard.data.processes import AHEAD, Died, in_processes
from regard.errors import SettingError

pytestmark = pytest.mark.processes


def test_without_processes_the_work_is_done_here_and_only_when_asked_for():
    done = []
    answers = in_processes(done.append, [1, 2, 3], 0)
    assert done == []
    next(answers)
    assert done == [1]


def test_answers_come_in_order_and_only_the_thing_that_kills_is_lost():
    # texts that each process works out; one ends it as a crashing decoder would
    things = ["1 + 1", "__import__('time').sleep(0.2)", "__import__('os')._exit(3)", "2 + 2"]
    assert list(in_processes(eval, [*things, "3 + 3"], 2)) == [2, None, Died(3), 4, 6]


def test_few_things_are_begun_ahead_and_an_error_of_the_work_is_one_here(tmp_path):
    things = [f"open({str(tmp_path / str(i))!r}, 'x').close()" for i in range(30)]
    answers = in_processes(eval, [things[0], "1 / 0", *things[1:]], 1)
    next(answers)
    assert len(list(tmp_path.iterdir())) <= 1 + AHEAD
    with pytest.raises(ZeroDivisionError):
        next(answers)
    assert not multiprocessing.active_children()


def test_processes_that_cannot_start_are_an_error_that_says_why():
    program = "from regard.data.processes import in_processes\nlist(in_processes(eval, ['1'], 1))"
    done = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert "DataError: processes: none could be started" in said
    assert 'under if __name__ == "__main__", or ask for 0 processes' in said


def test_a_negative_number_of_processes_is_refused():
    with pytest.raises(SettingError, match="processes: their number must be at least 0, got -1"):
        next(in_processes(time.sleep, [0], -1))
