"""A least-recently-used cache of answers, so that a page can request more about them."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock
from typing import Generic, TypeVar, final

from regard.errors import UnknownChoice
from regard.serving.request_limits import held

T = TypeVar("T")

MAX_VALUES = 64


def name_of_answer(*facts: object) -> str:
    """A short hash of the facts that determine an answer; equal facts have equal names."""
    return blake2b(repr(facts).encode(), digest_size=8).hexdigest()


@final
class Once(Generic[T]):
    """A value that the first caller computes, and that is kept for all others.

    If the computation fails, the next caller tries again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._lock = make, Lock()
        self._made: list[T] = []

    def __call__(self) -> T:
        """The value."""
        with held(self._lock):
            if not self._made:
                self._made.append(self._make())
            return self._made[0]


@final
@dataclass
class LruCache(Generic[T]):
    """Values by name; when full, the least recently used one is dropped."""

    most: int = MAX_VALUES
    _kept: OrderedDict[str, Once[T]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, name: str, make: Callable[[], T]) -> Once[T]:
        """Keep a value that is made when first needed, unless there is one of this name."""
        with self._lock:
            kept = self._kept.setdefault(name, Once(make))
            self._kept.move_to_end(name)
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
            return kept

    def get(self, name: str, what: str = "record") -> T:
        """A value that is still kept, else an error."""
        with self._lock:
            if name not in self._kept:
                raise UnknownChoice(
                    f"{what}: '{name}' is not kept any more; the last {self.most} are. Ask the "
                    "run again."
                )
            self._kept.move_to_end(name)
            kept = self._kept[name]
        return kept()

    def computed(self, name: str, make: Callable[[], T]) -> T:
        """A value that is kept, or that is computed now."""
        kept = self.put(name, make)
        try:
            return kept()
        except BaseException:
            # a failed computation must not take the place of a computed value
            with self._lock:
                if self._kept.get(name) is kept:
                    del self._kept[name]
            raise
