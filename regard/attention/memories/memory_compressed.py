"""Memory-compressed attention: every few keys, and values, are merged by a strided convolution.

    K'[m] = sum_r C_K[r] K[stride · m + r],   V'[m] likewise;   causal: i sees complete slots

Paper: Liu et al. 2018 (Generating Wikipedia, T-DMCA), section 4.2.3; kernel = stride = 3.
Cost: time O(n² · d / stride), memory O(n² / stride) dense, O(n) by row chunks.
"""

from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention.caches import CompressedPast, KeyValues
from regard.attention.links import Grid, KernelMask, Memory, Pattern, Short, keys_that_exist
from regard.attention.masks import Padding, all_of
from regard.dims import Dims
from regard.errors import MeetingError, SettingError
from regard.places import Places

BEFORE = -1
"""Where the first token's own slot stands: before every complete slot."""


@final
class CompleteSlots(Pattern):
    """A query sees the slots that ended; before there is one, it sees the first token alone.

    A slot stands where its last token stood, so slot m (counted from 1) is at `stride · m - 1`.
    """

    def __init__(self, stride: int) -> None:
        self.stride = stride

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """True for complete slots."""
        complete = (places.key > BEFORE) & (places.key <= places.query)
        return complete | ((places.key == BEFORE) & (places.query < self.stride - 1))

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """The grid counts slots; they are complete `stride` times later."""
        return grid.k_first * self.stride - 1 <= grid.q_last


@final
class HoldingSlots(Pattern):
    """Only slots that hold a real token are visible; the places are those of complete slots."""

    def __init__(self, stride: int, holds: Bool[Tensor, "b s"]) -> None:
        self.stride, self.holds = stride, holds

    def visible(self, places: Places) -> Bool[Tensor, "b h q k"]:
        """True for slots with a token."""
        slot = (places.key + 1) // self.stride
        batch = torch.arange(len(self.holds), device=self.holds.device).view(-1, 1, 1, 1)
        return self.holds[batch, slot.view(*(1,) * (4 - slot.dim()), *slot.shape)]

    def as_kernel(self) -> KernelMask:
        """Kernels know which slots exist."""
        return KernelMask(is_causal=False, valid=self.holds)


@final
class MemoryCompressedMemory(nn.Module, Memory):
    """Convolutions over the projected keys and values of each head."""

    needs_length = False

    def __init__(self, dims: Dims, *, stride: int = 3) -> None:
        super().__init__()
        if stride < 1:
            raise SettingError(f"memory_compressed: stride must be at least 1, got {stride}.")
        self.stride, self.complete = stride, CompleteSlots(stride)
        self.C_K = nn.Parameter(torch.empty(dims.n_heads, stride, dims.key, dims.key))
        self.C_V = nn.Parameter(torch.empty(dims.n_heads, stride, dims.value, dims.value))
        for kernel in (self.C_K, self.C_V):
            bound = (stride * kernel.shape[-1]) ** -0.5
            nn.init.uniform_(kernel, -bound, bound)

    def shorten(
        self,
        key: Float[Tensor, "b h k d"],
        value: Float[Tensor, "b h k dv"],
        mask: Pattern,
        places: Places,
    ) -> Short:
        """Merge; an incomplete last slot is filled up with zeros, and hidden from causal rows.

        Under a mask that speaks of complete slots, keys and values are slots already.
        """
        if isinstance(mask, CompleteSlots):
            return Short(key, value, mask, places)
        lowered = mask.as_kernel()
        if lowered is None:
            raise MeetingError(
                "memory_compressed: only causal and padding masks can be honoured, because a slot "
                "holds several keys. Leave the pattern out, or take sliding_window or big_bird."
            )
        n = key.shape[-2]
        exists = key.new_ones(len(key), n, dtype=torch.bool)
        exists = exists if lowered.valid is None else keys_that_exist(lowered.valid, n)
        real = exists[:, None, :, None]
        slots, merged = self._merge(key * real, self.C_K), self._merge(value * real, self.C_V)
        holds = pad(exists, (0, -n % self.stride)).unflatten(-1, (-1, self.stride)).any(-1)
        if not lowered.is_causal:
            at = Places.between(places.query.shape[-2], holds.shape[-1], device=key.device)
            return Short(slots, merged, Padding(holds), at)
        ends = torch.arange(holds.shape[-1] + 1, device=key.device) * self.stride - 1
        return Short(
            torch.cat([key[..., :1, :], slots], -2),
            torch.cat([value[..., :1, :], merged], -2),
            all_of(self.complete, HoldingSlots(self.stride, torch.cat([exists[:, :1], holds], -1))),
            Places(places.query, ends[None], len(ends), places.past),
        )

    def start(self, new: KeyValues) -> CompressedPast:
        """Nothing is merged yet; the first token has a slot of its own."""
        first, none = new.key.new_tensor([0]).long(), new.key.new_tensor([]).long()
        return CompressedPast(new.at(first), new.at(none), 0)

    def merged(self, past: CompressedPast, new: KeyValues) -> CompressedPast:
        """What is remembered after more positions: every complete slot, and what waits."""
        waiting = past.waiting.append(new)
        n_whole = waiting.length // self.stride * self.stride
        slots = past.slots
        if n_whole:
            slots = slots.append(
                KeyValues(
                    self._merge(waiting.key[..., :n_whole, :], self.C_K),
                    self._merge(waiting.value[..., :n_whole, :], self.C_V),
                )
            )
        rest = KeyValues(
            waiting.key[..., n_whole:, :].contiguous(), waiting.value[..., n_whole:, :].contiguous()
        )
        return CompressedPast(slots, rest, past.length + new.length)

    def seen(self, past: CompressedPast, n_queries: int) -> tuple[Pattern, Places]:
        """Who of the last queries sees which slot, and where queries and slots stand."""
        key = past.slots.key
        ends = torch.arange(past.slots.length, device=key.device) * self.stride - 1
        before = past.length - n_queries
        query = torch.arange(before, past.length, device=key.device)[:, None]
        return self.complete, Places(query, ends[None], len(ends), before)

    def _merge(
        self, tokens: Float[Tensor, "b h k d"], kernel: Float[Tensor, "h r d d"]
    ) -> Float[Tensor, "b h s d"]:
        whole = pad(tokens, (0, 0, 0, -tokens.shape[-2] % self.stride))
        return torch.einsum("bhsrd,hrde->bhse", whole.unflatten(-2, (-1, self.stride)), kernel)
