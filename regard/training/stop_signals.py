"""Ctrl-C and SIGTERM: a training that is asked to stop finishes its update and saves first."""

import signal
from types import FrameType
from typing import final


@final
class StopSignals:
    """True as soon as a stop was asked for; signals have their old handlers after the block."""

    def __init__(self) -> None:
        self.asked = False

    def __bool__(self) -> bool:
        return self.asked

    def __enter__(self) -> "StopSignals":
        self.before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
        for each in self.before:
            signal.signal(each, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self.before.items():
            signal.signal(each, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
