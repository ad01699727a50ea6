"""Runs one contestant in a worker process of its own, with one line per request.

Contestants do not share a process, since their libraries affect each other: a library that starts
threads of its own makes the threads of the others sleep where they would have spun.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any


class Runner:
    """A worker process that reads a line, works, and writes a line of JSON.

    Args:
        name: its name in messages.
        command: the command that starts it.
        threads: the number of threads that it may use.
    """

    def __init__(self, name: str, command: Sequence[str], threads: int) -> None:
        self.name = name
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
        # another interpreter must not find this one's packages
        own = {"PYTHONPATH": path} if command[0] == sys.executable else {}
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, **own, "OMP_NUM_THREADS": str(threads)},
        )

    def __enter__(self) -> "Runner":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()
        self.errors.close()

    def ask(self, question: object) -> Any:
        """Send a line, and wait for the answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            print(question, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            self.process.wait()
        said = self.process.stdout.readline()
        if not said:
            raise ChildProcessError(f"bench: {self.name} failed: {self._last_words()}")
        return json.loads(said)

    def _last_words(self) -> str:
        self.errors.seek(0)
        lines = [line for line in self.errors.read().splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it said nothing"
