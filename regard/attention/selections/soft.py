"""Soft selection: every visible key gets a share, the better ones more.

    a[i,j] = exp(e[i,j] / T - lse[i]),   lse[i] = log sum_j exp(e[i,j] / T)

Paper: Bahdanau, Cho & Bengio 2015, equation 6; over everything it is Luong's global attention.
Cost: time O(q · k); one number per row is kept.
"""

from typing import final

from torch import nn

from regard.attention.links import Selection, SoftRows, log_normaliser, normalised
from regard.attention.shapes import Mask, Queries, Scores, Weights
from regard.dims import Dims
from regard.errors import SettingError
from regard.places import Places


@final
class SoftSelection(nn.Module, Selection):
    """The softmax, with a temperature: towards 0 it picks one key, towards infinity all alike."""

    is_movable = True

    def __init__(self, dims: Dims | None = None, *, temperature: float = 1.0) -> None:
        super().__init__()
        if temperature <= 0:
            raise SettingError(f"soft: temperature must be above 0, got {temperature}.")
        self._temperature = float(temperature).as_integer_ratio()

    @property
    def temperature(self) -> float:
        """What scores are divided by; kept as two whole numbers, a compiler's constants."""
        over, under = self._temperature
        return over / under

    def extra_repr(self) -> str:
        """The temperature, where it changes the softmax."""
        return "" if self.temperature == 1 else f"temperature={self.temperature}"

    def summarise(self, scores: Scores, mask: Mask, query: Queries, places: Places) -> SoftRows:
        """The logarithm of each row's normaliser."""
        return SoftRows(log_normaliser(self._tempered(scores), mask))

    def weigh(self, scores: Scores, mask: Mask, rows: SoftRows, places: Places) -> Weights:
        """Each key's share."""
        return normalised(self._tempered(scores), mask, rows.lse)

    def _tempered(self, scores: Scores) -> Scores:
        return scores if self.temperature == 1 else scores / self.temperature

    def as_softmax(self) -> float:
        """A softmax, of scores divided by the temperature."""
        return 1 / self.temperature
