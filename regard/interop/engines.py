"""Engines: the programs that can search for a run's answers, by the name --engine gives them.

--engine torch                               the usual way
--engine ctranslate2:quantization=int8       Choice.parse reads name and settings
"""

from collections.abc import Callable, Mapping

from regard.choices import Choice, find
from regard.interop.ctranslate2 import CTranslate2
from regard.runs.trained import Engine
from regard.tasks.loaded_run import TORCH

ENGINES: Mapping[str, Callable[..., Engine | None]] = {
    TORCH: lambda: None,
    "ctranslate2": CTranslate2,
}
"""What `--engine` may name; None is the usual way."""


def engine_named(text: str) -> Engine | None:
    """The engine of a name with settings."""
    choice = Choice.parse(text)
    make = find(choice.name, ENGINES, key="--engine")
    choice.check_settings(make)
    return make(**choice.fitted(make))
