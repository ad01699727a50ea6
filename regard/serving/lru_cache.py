"""Answers that were looked at lately, so that a page may ask for more of them."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from threading import Lock
from typing import Generic, TypeVar, final

from regard.errors import UnknownChoice
from regard.serving.turns import held

T = TypeVar("T")

MOST = 64
"""How many are kept."""


def name_of_answer(*facts: object) -> str:
    """A short name that is the same whenever the same is asked of the same run."""
    return blake2b(repr(facts).encode(), digest_size=8).hexdigest()


@final
@dataclass
class Kept(Generic[T]):
    """Things by name; the one that was asked for longest ago goes first."""

    most: int = MOST
    _things: OrderedDict[str, T] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._things)

    def put(self, name: str, thing: T) -> T:
        """Keep a thing; where one of this name is kept already, that one stays."""
        with self._lock:
            kept = self._things.setdefault(name, thing)
            self._things.move_to_end(name)
            while len(self._things) > self.most:
                self._things.popitem(last=False)
            return kept

    def get(self, name: str, what: str = "record") -> T:
        """A thing that is still kept."""
        with self._lock:
            if name not in self._things:
                raise UnknownChoice(
                    f"{what}: '{name}' is not kept any more; the last {self.most} are. Ask the "
                    "run again."
                )
            self._things.move_to_end(name)
            return self._things[name]

    def drop(self, name: str, thing: T) -> None:
        """Forget a thing, unless another has taken its name."""
        with self._lock:
            if self._things.get(name) is thing:
                del self._things[name]


@final
class Once(Generic[T]):
    """A value that is computed when it is first needed, by one caller, and kept.

    Where its computing fails, the next caller tries again.

    Args:
        make: computes it.
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
