"""A heat map in plain text: two characters a cell, darker for more."""

from collections.abc import Sequence

from torch import Tensor

SHADES = " ·░▒▓█"


def shade(
    numbers: Tensor, *, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> str:
    """Draw a matrix with characters; each row is compared with the largest number of all.

    >>> import torch
    >>> print(shade(torch.tensor([[1.0, 0.0], [0.25, 0.75]])))
    ██
    ··▓▓
    """
    top = float(numbers.abs().max()) or 1.0
    names = [f"{name} " for name in rows] if rows else [""] * len(numbers)
    margin = max(_width(name) for name in names)
    lines = []
    if columns:
        lines.append(" " * margin + " ".join(columns))
    for name, row in zip(names, (numbers.abs() / top).tolist(), strict=True):
        cells = "".join(SHADES[_step(number)] * 2 for number in row)
        lines.append(" " * (margin - _width(name)) + name + cells)
    return "\n".join(line.rstrip() for line in lines)


def _step(share: float) -> int:
    return min(len(SHADES) - 1, int(share * (len(SHADES) - 1) + 0.5))


def _width(text: str) -> int:
    """Columns on a terminal: Chinese characters take two."""
    return sum(2 if ord(char) > 0x2E7F else 1 for char in text)
