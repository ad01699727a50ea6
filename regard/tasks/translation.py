"""Translation, and every other task that turns one text into another."""

from typing import final

from regard.tasks.task import Task


@final
class Translation(Task):
    """A model reads a text and writes another: what `Task` does by itself."""
