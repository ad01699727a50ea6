"""Every mechanism compiles into one graph and exports, with equal outputs and gradients."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts import compiled

COUNT = 62
"""All trials."""


def n_same(first: list[int], of: int) -> int:
    """How many trials of some shares are the same in one graph, each share in a process."""
    # checks of types would break the graph, so the trials run in processes without them
    asked = [sys.executable, "-W", "ignore", "-m", compiled.__name__]
    running = [
        subprocess.Popen(
            [*asked, str(share), str(of)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for share in first
    ]
    said = [process.communicate() for process in running]
    assert all(out for out, _ in said), "".join(errors for _, errors in said)
    return sum(int(out.split()[0]) for out, _ in said)


@pytest.mark.processes
def test_every_eighth_chain_is_the_same_in_one_graph():
    assert n_same([5], of=8) == len(range(5, COUNT, 8))


@pytest.mark.slow
def test_every_mechanism_is_the_same_in_one_graph():
    n_chains = n_same([0, 1], of=2)
    print(f"{n_chains} chains are the same in one graph")
    assert n_chains == COUNT
