"""Every mechanism compiles into one graph and exports, with equal outputs and gradients."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.contracts import compiled

SHARES, COUNT = 2, 62


@pytest.mark.processes
def test_every_mechanism_is_the_same_in_one_graph(record_property):
    # checks of types would break the graph, so the trials run in processes without them
    asked = [sys.executable, "-W", "ignore", "-m", compiled.__name__]
    running = [
        subprocess.Popen(
            [*asked, str(share), str(SHARES)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for share in range(SHARES)
    ]
    said = [process.communicate() for process in running]
    counts = [int(out.split()[0]) if out else 0 for out, _ in said]
    record_property("chains in one graph", sum(counts))
    print(f"{sum(counts)} chains are the same in one graph")
    assert sum(counts) == COUNT, "".join(errors for _, errors in said)
