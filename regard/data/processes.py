"""Processes: map a function over many inputs in several processes, with results in order.

Each process is given one input at a time. If a process dies (a decoder crashes, or takes all
memory), the result for that input alone is `Died`, and a new process takes over. Only a few inputs
are under way at a time, so that results never pile up in memory.
"""

import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import wait
from typing import Any, Generic, TypeVar

from regard.errors import DataError, SettingError

T = TypeVar("T")
R = TypeVar("R")
AHEAD = 4
"""How many inputs, for each process, may be begun after the first unfinished one."""


@dataclass(frozen=True)
class Died:
    """The result for an input whose process died."""

    exit_code: int | None
    """The exit code; below 0 the signal that ended the process: -9 if memory ran out."""


def in_processes(
    job: Callable[[T], R], things: Sequence[T], n_processes: int
) -> Generator[R | Died, None, None]:
    """The job's results, in the order of the inputs; with 0 processes this process does all.

    Processes are started afresh, never forked, so the job must be a function that can be imported,
    or `functools.partial` of one. An error of the job is raised here.
    """
    if n_processes < 0:
        raise SettingError(f"processes: their number must be at least 0, got {n_processes}.")
    if not n_processes:
        yield from map(job, things)
        return
    workers: list[_Worker[T, R]] = []
    answers: dict[int, R | Died] = {}
    begun = 0
    try:
        workers += [_Worker(job) for _ in range(min(n_processes, len(things)))]
        for number in range(len(things)):
            while number not in answers:
                for worker in workers:
                    if worker.is_idle and begun < min(number + AHEAD * n_processes, len(things)):
                        worker.begin(begun, things[begun])
                        begun += 1
                for worker in _with_news(workers):
                    worker.hear(answers)
                    if worker.is_dead:
                        workers.remove(worker)
                        if begun < len(things):
                            workers.append(_Worker(job))
            yield answers.pop(number)
    finally:
        for worker in workers:
            worker.stop()


class _Worker(Generic[T, R]):
    """A process, the pipe to it, and the number of the input that it works on."""

    def __init__(self, job: Callable[[T], R]) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, job), daemon=True)
        self.process.start()
        # with no other end open, the death of the process closes the pipe
        theirs.close()
        self.has_started = self.is_dead = False
        self.thing: int | None = None

    @property
    def is_idle(self) -> bool:
        return self.has_started and self.thing is None

    def begin(self, number: int, thing: T) -> None:
        self.thing = number
        # if the process has died, the next `hear` finds out
        with suppress(OSError):
            self.pipe.send(thing)

    def hear(self, answers: dict[int, R | Died]) -> None:
        """Receive one message: the process has started, a result, an error, or its death."""
        try:
            said = self.pipe.recv()
        except (EOFError, OSError) as death:
            self.stop()
            if not self.has_started:
                raise DataError(
                    "processes: none could be started. In a program of your own, start the work "
                    'under if __name__ == "__main__", or ask for 0 processes.'
                ) from death
            said = (Died(self.process.exitcode), None)
            self.is_dead = True
        if not self.has_started:
            self.has_started = True
            return
        answer, error = said
        if error is not None:
            raise error
        assert self.thing is not None
        answers[self.thing] = answer
        self.thing = None

    def stop(self) -> None:
        self.pipe.close()
        self.process.join(timeout=0.1)
        self.process.terminate()
        self.process.join()


def _with_news(workers: Sequence[_Worker[T, R]]) -> list[_Worker[T, R]]:
    """Wait until at least one worker has sent a message, and return those that have."""
    waiting = [worker for worker in workers if not worker.is_idle]
    ready = wait([worker.pipe for worker in waiting])
    return [worker for worker in waiting if worker.pipe in ready]


def _work(pipe: Any, job: Callable[[Any], Any]) -> None:
    """The loop of a process: apply the job to each input until the pipe is closed."""
    # the parent process handles an interrupt from the keyboard
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe.send(None)
    while True:
        try:
            thing = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((job(thing), None))
        except Exception as error:
            pipe.send((None, error))
