"""How far apart two words can be and still meet: recurrence, windows and attention side by side.

    two words D apart meet after ceil(D / r) layers,   r = (k - 1) / 2 (symmetric), k - 1 (causal)
    L layers see 1 + L (k - 1) words;   dilated 1, 2, 4, …: r (2^L - 1) >= D, 1 + (k - 1)(2^L - 1)

Two words meet where the output at one of them depends on the other. Counts are exact for the
farthest pair, `length - 1` positions apart; costs are multiply-adds of one layer without its output
projections.
"""

from dataclasses import asdict, dataclass

from regard.errors import SettingError
from regard.models.convolutional.spec import DILATIONS


@dataclass(frozen=True, kw_only=True)
class Meeting:
    """What it takes for the first word to meet the last."""

    name: str
    layers: int
    """Layers until the output at one of the two depends on the other."""
    receptive_field: int | None
    """Words that an output of that many layers depends on, in a text without end; None for all."""
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
    restricted = -(-far // k)
    return [
        Meeting(
            name="recurrence",
            layers=1,
            receptive_field=None,
            steps=n,
            path=far,
            multiply_adds=n * d * d,
            formula="n d²",
        ),
        _convolution("convolution", "constant", k // 2, n, k, d),
        _convolution("causal convolution", "constant", k - 1, n, k, d),
        _convolution("dilated convolution", "doubling", k // 2, n, k, d),
        _convolution("causal dilated convolution", "doubling", k - 1, n, k, d),
        Meeting(
            name=f"attention within ±{k}",
            layers=restricted,
            receptive_field=1 + 2 * k * restricted,
            steps=restricted,
            path=restricted,
            multiply_adds=2 * n * (2 * k + 1) * d,
            formula="2 n (2k+1) d",
        ),
        Meeting(
            name="attention",
            layers=1,
            receptive_field=None,
            steps=1,
            path=1,
            multiply_adds=2 * n * n * d,
            formula="2 n² d",
        ),
    ]


def _convolution(name: str, dilations: str, reach: int, n: int, k: int, d: int) -> Meeting:
    """Layers of windows; one sees `reach` neighbours on its longer side, if an even one has two."""
    grows = DILATIONS[dilations]
    layers = grows.layers_to_meet(n - 1, reach)
    return Meeting(
        name=f"{name}, window {k}",
        layers=layers,
        receptive_field=1 + (k - 1) * grows.total(layers),
        steps=layers,
        path=layers,
        multiply_adds=k * n * d * d,
        formula="k n d²",
    )
