"""Request queue: jobs wait here, bounded in number and tokens, until a worker takes a batch.

put     refuse what would pass a bound; the caller is told when to come again
take    the oldest job, and those with the same options whose lengths suit it
drop    take out what waits no longer: its client left, or its time is over
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import final

from regard.serving.prediction_schemas import SearchOptions

LOOK_AHEAD = 1024
"""How many waiting jobs a batch is chosen from."""
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 1, 60
SPEED_MEMORY = 0.8
"""The share that the estimate of a run's speed keeps of its past with each batch."""


class QueueFull(Exception):
    """The queue holds as much as it may."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which a client should try again."""


@final
@dataclass(eq=False)
class Job:
    """One text or picture to answer."""

    number: int
    text: str
    """The text, or the address of the picture."""
    name: str
    """Its name in errors."""
    options: SearchOptions
    n_tokens: int
    """What it costs of a batch: the tokens of its text, or 1 for a picture."""
    deadline: float
    """When its time is over, by `time.monotonic`."""
    told: Callable[["Job", dict[str, object]], None]
    """Called with each message about it, of which one with "answer" or "error" is the last."""
    prefix: str = ""
    must_contain: Sequence[str] = ()
    seed: int = 0
    wants_tokens: bool = False
    arrived: float = field(default_factory=time.monotonic)
    begun: float | None = None
    """When a worker took it."""
    model: str | None = None
    """By which model that worker answers: the run's name and the hash of its weights."""

    def as_message(self) -> dict[str, object]:
        """What its worker needs to know."""
        return {
            "number": self.number,
            "text": self.text,
            "name": self.name,
            "prefix": self.prefix,
            "must_contain": list(self.must_contain),
            "seed": self.seed,
            "deadline": self.deadline,
            "wants_tokens": self.wants_tokens,
        }


@final
class RequestQueue:
    """The waiting jobs of one run."""

    def __init__(self, most: int, most_tokens: int) -> None:
        self.most, self.most_tokens = most, most_tokens
        self.n_tokens = 0
        self._waiting: dict[int, Job] = {}
        self._tokens_a_second: float | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def oldest(self) -> Job | None:
        """The job that has waited longest."""
        return next(iter(self._waiting.values()), None)

    def numbers(self) -> list[int]:
        """The numbers of all jobs, the oldest first."""
        return list(self._waiting)

    def check_room(self, count: int = 1, n_tokens: int = 0) -> None:
        """Raise if so much more would pass a bound."""
        # a request that alone passes a bound waits for an empty queue
        is_full = self._waiting and (
            len(self) + count > self.most or self.n_tokens + n_tokens > self.most_tokens
        )
        if is_full:
            raise QueueFull(
                f"{len(self):,} texts of {self.n_tokens:,} tokens wait for this run; at most "
                f"{self.most:,} of {self.most_tokens:,} may. Try again later",
                self.retry_after(),
            )

    def put(self, jobs: Sequence[Job]) -> None:
        """Let jobs wait, all or none of them."""
        self.check_room(len(jobs), sum(job.n_tokens for job in jobs))
        for job in jobs:
            self._waiting[job.number] = job
            self.n_tokens += job.n_tokens

    def drop(self, numbers: Iterable[int]) -> list[Job]:
        """Take out those of these jobs that still wait."""
        dropped = [self._waiting.pop(number) for number in numbers if number in self._waiting]
        self.n_tokens -= sum(job.n_tokens for job in dropped)
        return dropped

    def take(self, batch_tokens: int) -> list[Job]:
        """A batch: the oldest job and others of its options, the most similar in length first.

        Together, with padding, they have at most so many tokens; a longer job goes alone.
        """
        oldest = self.oldest
        if oldest is None:
            return []
        near = [
            job
            for job in islice(self._waiting.values(), LOOK_AHEAD)
            if job.options == oldest.options
        ]
        if max(job.n_tokens for job in near) * len(near) > batch_tokens:
            # stable, so that of equal lengths the older goes first
            near.sort(key=lambda job: abs(job.n_tokens - oldest.n_tokens))
        batch: list[Job] = []
        longest = 0
        for job in near:
            longest = max(longest, job.n_tokens)
            if batch and longest * (len(batch) + 1) > batch_tokens:
                break
            batch.append(job)
        self.drop([job.number for job in batch])
        return batch

    def note_speed(self, n_tokens: int, seconds: float) -> None:
        """Learn from a batch how fast the run answers."""
        now = n_tokens / max(seconds, 1e-6)
        before = self._tokens_a_second
        self._tokens_a_second = (
            now if before is None else SPEED_MEMORY * before + (1 - SPEED_MEMORY) * now
        )

    def retry_after(self) -> int:
        """Seconds until about half of the queue is answered."""
        speed = self._tokens_a_second
        wait = MIN_RETRY_SECONDS if speed is None else self.n_tokens / speed / 2
        return int(min(MAX_RETRY_SECONDS, max(MIN_RETRY_SECONDS, round(wait))))
