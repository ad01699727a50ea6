"""The door of the command line: what torch reads while it is loaded is set before."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# stands for the command line and says what it finds
SCRIPT = """
import os, sys, types
sys.modules["regard.cli"] = cli = types.ModuleType("regard.cli")
cli.main = lambda: print(os.environ.get("GOMP_SPINCOUNT"), "torch" in sys.modules) or 7
from regard.__main__ import main
print(main())
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "1000 False\n7\n"),
        ({"GOMP_SPINCOUNT": "5"}, "5 False\n7\n"),
        ({"OMP_WAIT_POLICY": "active"}, "None False\n7\n"),
    ],
)
def test_waiting_threads_spin_briefly_unless_the_user_chose_otherwise(given, expected):
    chosen = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    kept = {name: value for name, value in os.environ.items() if name not in chosen}
    environment = {**kept, **given, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=True
    )
    assert ran.stdout == expected
