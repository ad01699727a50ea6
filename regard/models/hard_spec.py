"""Hard spec: the table [model.hard], how attention that draws learns (hard_attention.py)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from regard.choices import Choice, find
from regard.errors import SettingError, check_least


@final
@dataclass(frozen=True, kw_only=True)
class HardSpec:
    """How attention that selects "hard" learns, by REINFORCE: the table [model.hard]."""

    n_samples: int = 1
    """How many times each example is read in an update, with draws of its own."""
    reinforce: float = 0.1
    """λ_r: weight of the REINFORCE term; 1 gives the gradient of the bound."""
    entropy: float = 0.002
    """λ_e: weight of the draws' entropy."""
    expected_share: float = 0.5
    """Probability that an example is read with expectations instead of draws."""
    learns_from_expected: bool = False
    """Whether such a reading trains the scores, as soft attention; without it they learn slowly."""
    credit: str = "text"
    """Reward of the draws: the log-probability of the "text", or its mean by "word"."""

    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {"credit": dict.fromkeys(("text", "word"))}

    def __post_init__(self) -> None:
        check_least("model.hard.n_samples", self.n_samples, 1)
        for name in ("reinforce", "entropy"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise SettingError(
                    f"model.hard.{name} must be at least 0, got {getattr(self, name)}."
                )
        if not 0.0 <= self.expected_share <= 1.0:
            raise SettingError(
                f"model.hard.expected_share must lie in [0, 1], got {self.expected_share}."
            )
        find(self.credit, self.tables["credit"], key="model.hard.credit")


def draws_of(hard: HardSpec | None, selections: Iterable[Choice]) -> HardSpec | None:
    """How the draws of some selections learn; None if none draws, where settings are refused."""
    draws = any(select.name == "hard" for select in selections)
    if hard is not None and not draws:
        raise SettingError(
            'model.hard: no attention draws, so that it changes nothing. Take select = "hard", or '
            "leave it out."
        )
    return (hard or HardSpec()) if draws else None
