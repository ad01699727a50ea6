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
from regard.attention.shapes import Keys, Values
from regard.attention.widths import Widths
from regard.dims import Dims
from regard.errors import MeetingError, check_least
from regard.places import Places

BEFORE = -1
"""The position of the first token's own slot: before every complete slot."""


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
        """Blocks with a complete slot; the grid counts slots, which end `stride` times later."""
        return grid.k_first * self.stride - 1 <= grid.q_last

    def as_text(self) -> str:
        """The same pattern for places that count slots, as a compiler's operator has them."""
        return f"counted_slots:stride={self.stride}"


@final
class CountedSlots(Pattern):
    """`CompleteSlots` for places that count slots, from the first token's own."""

    def __init__(self, dims: Dims | None = None, *, stride: int = 3) -> None:
        self.complete = CompleteSlots(stride)

    def visible(self, places: Places) -> Bool[Tensor, "*b q k"]:
        """True for complete slots."""
        return self.complete.visible(places.at_keys(places.key * self.complete.stride - 1))

    def touches(self, grid: Grid) -> Bool[Tensor, "nq nk"]:
        """Blocks with a complete slot."""
        return self.complete.touches(grid)


@final
class HoldingSlots(Pattern):
    """Only slots that hold a real token are visible; the places are those of complete slots."""

    def __init__(self, stride: int, holds: Bool[Tensor, "b s"]) -> None:
        self.stride, self.holds = stride, holds

    def visible(self, places: Places) -> Bool[Tensor, "b h q k"]:
        """True for slots with a token."""
        return Padding(self.holds).visible(places.at_keys((places.key + 1) // self.stride))

    def as_kernel(self) -> KernelMask:
        """Kernels know which slots exist."""
        return KernelMask(is_causal=False, valid=self.holds)


@final
class MemoryCompressedMemory(nn.Module, Memory):
    """Convolutions over the projected keys and values of each head."""

    needs_length = False

    def __init__(self, dims: Dims, *, stride: int = 3) -> None:
        super().__init__()
        check_least("memory_compressed: stride", stride, 1)
        self.stride, self.complete = stride, CompleteSlots(stride)
        self.widths = Widths(dims.n_heads, key=dims.key, value=dims.value)
        self.C_K = nn.Parameter(torch.empty(dims.n_heads, stride, dims.key, dims.key))
        self.C_V = nn.Parameter(torch.empty(dims.n_heads, stride, dims.value, dims.value))
        for kernel in (self.C_K, self.C_V):
            bound = (stride * kernel.shape[-1]) ** -0.5
            nn.init.uniform_(kernel, -bound, bound)

    def extra_repr(self) -> str:
        """How many keys become a slot."""
        return f"stride={self.stride}"

    def shorten(self, key: Keys, value: Values, mask: Pattern, places: Places) -> Short:
        """Merge; an incomplete last slot is filled up with zeros, and hidden from causal rows.

        Under a mask of complete slots, keys and values are slots already.
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

    def remember(
        self, past: CompressedPast | None, new: KeyValues
    ) -> tuple[CompressedPast, Pattern, Places]:
        """The cache after more positions, the mask of slots that they see, and all places.

        The cache has every complete slot, the first token's own, and positions not merged yet.
        """
        device = new.key.device
        if past is None:
            first = torch.arange(1, device=device)
            past = CompressedPast(new.at(first), new.at(first[:0]), 0)
        waiting, slots, length = past.waiting.append(new), past.slots, past.length + new.length
        n_whole = waiting.length // self.stride * self.stride
        if n_whole:
            key, value = waiting.key[..., :n_whole, :], waiting.value[..., :n_whole, :]
            merged = KeyValues(self._merge(key, self.C_K), self._merge(value, self.C_V))
            slots = slots.append(merged)
        rest = torch.arange(n_whole, waiting.length, device=device)
        query = torch.arange(past.length, length, device=device)[:, None]
        ends = torch.arange(slots.length, device=device) * self.stride - 1
        at = Places(query, ends[None], len(ends), past.length)
        return CompressedPast(slots, waiting.at(rest), length), self.complete, at

    def _merge(self, tokens: Keys, kernel: Float[Tensor, "h r d d"]) -> Float[Tensor, "b h s d"]:
        whole = pad(tokens, (0, 0, 0, -tokens.shape[-2] % self.stride))
        return torch.einsum("bhsrd,hrde->bhse", whole.unflatten(-2, (-1, self.stride)), kernel)
