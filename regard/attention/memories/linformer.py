"""Linformer: learned mixtures of all keys, and of all values, take the place of the sequence.

    context = softmax(q (E K)ᵀ / sqrt(d)) (F V),   E, F: slots × n

Paper: Wang et al. 2020, equation 7.
Cost: time O(n · slots · d), memory O(n · slots); parameters tie the longest sequence.
"""

from collections.abc import Mapping
from typing import final

import torch
from torch import nn

from regard.attention.links import Memory, Pattern, Short, keys_that_exist
from regard.attention.masks import Padding
from regard.attention.shapes import Keys, Values
from regard.attention.widths import Widths
from regard.choices import find
from regard.dims import Dims
from regard.errors import LengthError, MeetingError, check_least
from regard.places import Places

SHARING: Mapping[str, tuple[bool, bool]] = {
    "none": (False, False),
    "headwise": (True, False),
    "key_value": (True, True),
    "layerwise": (True, True),
}
"""What is shared: (one matrix for all heads, one matrix for keys and values)."""


@final
class LinformerMemory(nn.Module, Memory):
    """Keys and values mixed into `slots` slots; a short sequence uses the first columns.

    `sharing` is "none" (E and F for each head), "headwise" (E and F for all heads), "key_value"
    (one matrix for all heads, keys and values), or "layerwise" (the same, and a model gives this
    one memory to all its layers).
    """

    needs_length = False
    cannot_write = "every slot mixes all positions, the future included; take memory_compressed"

    def __init__(self, dims: Dims, *, slots: int = 128, sharing: str = "key_value") -> None:
        super().__init__()
        self.E: nn.Parameter
        self.F: nn.Parameter
        check_least("linformer: slots", slots, 1)
        for_all_heads, for_values = find(sharing, SHARING)
        self.sharing, self.is_for_all_layers = sharing, sharing == "layerwise"
        n_matrices = 1 if for_all_heads else dims.n_heads
        self.widths = Widths(n_matrices)
        self.E = nn.Parameter(torch.empty(n_matrices, slots, dims.max_len))
        self.F = self.E if for_values else nn.Parameter(torch.empty_like(self.E))
        # a slot that mixes all positions varies as much as one of them
        nn.init.normal_(self.E, std=dims.max_len**-0.5)
        nn.init.normal_(self.F, std=dims.max_len**-0.5)

    def extra_repr(self) -> str:
        """How many slots there are, and who shares them."""
        return f"slots={self.E.shape[-2]}, sharing={self.sharing}"

    def shorten(self, key: Keys, value: Values, mask: Pattern, places: Places) -> Short:
        """Mix what exists; every query sees every slot."""
        n, max_len, slots = key.shape[-2], self.E.shape[-1], self.E.shape[-2]
        if n > max_len:
            raise LengthError(
                f"linformer: {n} keys, but max_len is {max_len}. Raise max_len and train again, "
                "or take a pattern without a length limit (sliding_window, big_bird)."
            )
        lowered = mask.as_kernel()
        if lowered is None or lowered.is_causal:
            raise MeetingError(
                "linformer: a causal mask or a pattern cannot be honoured: every slot mixes all "
                "positions, the future included. Use it in an encoder or over a source; for "
                "causal attention take memory_compressed, sliding_window or a causal big_bird."
            )
        exists = key.new_ones(key.shape[0], n, dtype=torch.bool)
        exists = exists if lowered.valid is None else keys_that_exist(lowered.valid, n)
        exists = exists.to(key.dtype)[:, None, :, None]
        some = exists.bool().flatten(1).any(-1, keepdim=True).expand(-1, slots)
        n_queries, past = places.query.shape[-2], places.past or 0
        return Short(
            key=self.E[..., :n] @ (key * exists),
            value=self.F[..., :n] @ (value * exists),
            mask=Padding(some),
            places=Places.between(n_queries, slots, past=past, device=key.device),
        )

    def cannot_meet(self, other: object) -> str | None:
        """Refuse a causal pattern too."""
        kernel = other.as_kernel() if isinstance(other, Pattern) else None
        if kernel is not None and kernel.is_causal:
            return self.cannot_write
        return super().cannot_meet(other)
