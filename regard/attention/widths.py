"""Widths: for how many heads a link is made, and how wide its queries, keys and values are."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from regard.dims import Dims
from regard.errors import ShapeError


class Widths(NamedTuple):
    """What a link with parameters is made for; None where anything fits, and so does one head."""

    heads: int | None = None
    query: int | None = None
    key: int | None = None
    value: int | None = None

    def first_misfit(self, given: "Widths") -> str | None:
        """The first number in which tensors differ from what the link is made for."""
        for unit, wanted, got in zip(self._fields, self, given, strict=True):
            if wanted is not None and wanted != got and (unit, wanted) != ("heads", 1):
                what = "{} heads" if unit == "heads" else _plural(unit) + " {} wide"
                return f"{what.format(wanted)}, got {what.format(got)}"
        return None


def _plural(unit: str) -> str:
    return "queries" if unit == "query" else f"{unit}s"


def check_widths(who: str, made_for: Iterable[tuple[str, Widths]], given: Widths) -> None:
    """Refuse tensors that one of the named links is not made for."""
    for name, widths in made_for:
        if misfit := widths.first_misfit(given):
            raise ShapeError(
                f"{who}: {name} is made for {misfit}. Make it for what it meets: inside the heads "
                "of a model that is dims.head(), and else Dims with these widths."
            )


def check_inputs(
    dims: Dims,
    query: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    *,
    dtype: torch.dtype,
) -> None:
    """Refuse inputs of heads that are not (b, n, width), with the widths of `dims`, of `dtype`."""
    widths = {"query": dims.query, "key": dims.key, "value": dims.value}
    for given, (name, width) in zip((query, key, value), widths.items(), strict=True):
        if given is None:
            continue
        if not isinstance(given, Tensor) or not given.is_floating_point():
            got = (
                given.dtype if isinstance(given, Tensor) else f"an object of {type(given).__name__}"
            )
            raise ShapeError(
                f"heads: expected {name} as a tensor of floats, got {got}. Lists become tensors by "
                "torch.tensor, and ids of words vectors by nn.Embedding."
            )
        if given.dtype != dtype and not torch.is_autocast_enabled(given.device.type):
            raise ShapeError(
                f"heads: expected {name} of {dtype}, as the weights are, got {given.dtype}. Write "
                f"{name}.to({dtype}), or heads.to({given.dtype})."
            )
        if given.dim() != 3 or given.shape[-1] != width:
            single = " A single sentence is x[None]." if given.dim() == 2 else ""
            raise ShapeError(
                f"heads: expected {name} of shape (b, n, {width}): sentences, positions and the "
                f"width of dims; got {tuple(given.shape)}.{single}"
            )
