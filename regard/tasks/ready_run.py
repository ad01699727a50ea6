"""A run that is loaded and ready to compute: what a task answers requests with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from regard.decoding import Beam, Search
from regard.hardware.hardware import Hardware
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.record import Record
from regard.models import Stepper
from regard.tasks.loaded import Loaded
from regard.tasks.predictions import Request


@runtime_checkable
class ReadyRun(Protocol):
    """A model with its vocabularies, where it computes, and the runs that answer with it."""

    @property
    def path(self) -> Path:
        """The run's directory."""

    @property
    def loaded(self) -> Loaded:
        """Recipe, vocabularies and model."""

    @property
    def hardware(self) -> Hardware:
        """Where the model computes."""

    @property
    def others(self) -> tuple[Loaded, ...]:
        """Runs that answer together with this one."""

    @property
    def stepper(self) -> Stepper:
        """The model, or the ensemble, that searches step through."""

    @property
    def longest(self) -> int:
        """The most tokens that the model reads or writes, the end token counted."""

    def default_search(self) -> Beam:
        """The search that is used where the caller gives none."""

    def read(self, text: str) -> str:
        """A text normalised as those that the run learned from."""

    def length(self, text: str) -> int:
        """How many tokens the model would read, the end token counted."""

    def check_length(self, request: Request, remedy: str = ...) -> None:
        """Refuse a text that is too long to be read as a whole."""

    def answer_tokens(self, target: str) -> list[int]:
        """The tokens of an answer that the caller gave."""

    def read_over(self, read: str, answer: Sequence[int]) -> Record:
        """Every weight with which the model reads a normalised text and writes an answer."""

    def look(self, text: str, target: str | None = None, *, search: Search | None = None) -> Record:
        """Every weight with which a text was answered."""

    def look_at_picture(
        self, address: str, target: str | None = None, *, search: Search | None = None
    ) -> CaptionRecord:
        """Where each word of a picture's caption looked."""
