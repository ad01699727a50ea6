"""A heat map in characters for the terminal: two characters a cell, darker for larger numbers."""

from collections.abc import Sequence

from rich.cells import cell_len
from torch import Tensor

SHADES = " ·░▒▓█"


def shade(
    numbers: Tensor, *, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> str:
    """Draw a matrix as lines of text; shades go up to the largest number of the matrix.

    >>> import torch
    >>> print(shade(torch.tensor([[1.0, 0.0], [0.25, 0.75]])))
    ██
    ··▓▓
    """
    top = float(numbers.abs().max()) or 1.0
    names = [f"{name} " for name in rows] if rows else [""] * len(numbers)
    margin = max(cell_len(name) for name in names)
    lines = []
    if columns:
        lines.append(" " * margin + " ".join(columns))
    for name, row in zip(names, (numbers.abs() / top).tolist(), strict=True):
        cells = "".join(SHADES[_step(number)] * 2 for number in row)
        lines.append(" " * (margin - cell_len(name)) + name + cells)
    return "\n".join(line.rstrip() for line in lines)


def _step(share: float) -> int:
    return min(len(SHADES) - 1, int(share * (len(SHADES) - 1) + 0.5))
