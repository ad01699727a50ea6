"""How far apart two words can be and still meet: recurrence, windows and attention side by side.

Counts are exact for the farthest pair, `length - 1` positions apart; costs are multiply-adds of
one layer without its output projections.
"""

from dataclasses import asdict, dataclass

from regard.errors import SettingError


@dataclass(frozen=True)
class Meeting:
    """What it takes for the first word to meet the last."""

    name: str
    layers: int
    """Layers until an output can depend on both."""
    steps: int
    """Operations that must wait for each other, over those layers."""
    path: int
    """Operations a signal passes through on its way."""
    multiply_adds: int
    """Of one layer."""
    formula: str

    def as_dict(self) -> dict[str, object]:
        """The same as plain data."""
        return asdict(self)


def meetings(length: int = 50, window: int = 5, width: int = 512) -> list[Meeting]:
    """Compare the ways for a sentence of `length` words of `width` numbers."""
    if length < 2 or window < 2 or width < 1:
        raise SettingError(
            "paths: expected length and window of at least 2 and width of at least 1, "
            f"got {length}, {window} and {width}."
        )
    n, k, d, far = length, window, width, length - 1
    reach = max(1, (k - 1) // 2)
    stacked, causal = _up(far, reach), _up(far, k - 1)
    dilated = next(deep for deep in range(1, far + 2) if reach * (2**deep - 1) >= far)
    restricted = _up(far, k)
    return [
        Meeting("recurrence", 1, n, far, n * d * d, "n d²"),
        Meeting(f"convolution, window {k}", stacked, stacked, stacked, k * n * d * d, "k n d²"),
        Meeting(f"causal convolution, window {k}", causal, causal, causal, k * n * d * d, "k n d²"),
        Meeting(
            f"dilated convolution, window {k}", dilated, dilated, dilated, k * n * d * d, "k n d²"
        ),
        Meeting(
            f"attention within ±{k}",
            restricted,
            restricted,
            restricted,
            2 * n * (2 * k + 1) * d,
            "2 n (2k+1) d",
        ),
        Meeting("attention", 1, 1, 1, 2 * n * n * d, "2 n² d"),
    ]


def _up(total: int, step: int) -> int:
    return -(-total // step)
