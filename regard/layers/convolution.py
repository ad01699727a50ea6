"""Convolution: a window slides over the words, and a gate decides how much of it passes.

    [u; g] = W [x[i - p d]; …; x[i]; …; x[i + f d]] + c,   out[i] = sqrt(1/2) (x[i] + u ⊙ σ(g))

A window has k words, d apart: p = f = (k - 1) / 2 (symmetric), or p = k - 1 and f = 0 (causal).

Paper: Gehring et al. 2017 (ConvS2S), sections 3.2 and 3.4; Dauphin et al. 2017 (the gate).
Cost: time O(k · n · m²), 2 k m² + 2 m parameters; L layers see 1 + L (k - 1) words.
"""

from typing import final

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.functional import glu, pad

from regard.attention.dropout import Dropout
from regard.attention.shapes import Vectors
from regard.dims import Dims
from regard.errors import SettingError


@final
class GatedConvolution(nn.Module):
    """A gated linear unit over a window, inside a residual that keeps the variance.

    Args:
        dims: the model width.
        kernel: words in a window; odd, unless it is causal.
        dilation: how far apart the words of a window stand; 1 if they are neighbours.
        is_causal: whether the window ends at its own word, as a decoder's must.
        dropout: on what the window reads.
    """

    def __init__(
        self,
        dims: Dims,
        *,
        kernel: int = 3,
        dilation: int = 1,
        is_causal: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if kernel < 1 or dilation < 1:
            raise SettingError(
                f"convolution: kernel and dilation must be at least 1, got {kernel} and {dilation}."
            )
        if kernel % 2 == 0 and not is_causal:
            raise SettingError(
                f"convolution: a symmetric window needs a word in its middle, got kernel {kernel}. "
                f"Take {kernel - 1} or {kernel + 1}, or is_causal=True."
            )
        reach = (kernel - 1) * dilation
        self.kernel, self.dilation, self.width = kernel, dilation, dims.d_model
        self.n_before = reach if is_causal else reach // 2
        """How many words back the window reaches."""
        self.n_after = reach - self.n_before
        """How many words ahead the window reaches."""
        self.dropout = Dropout(dropout)
        # one product over shifted views: for one word at a time it is three times as fast as conv1d
        self.W = nn.Linear(kernel * dims.d_model, 2 * dims.d_model)
        # dropout scales the input's variance by 1 / (1 - dropout), and the gate keeps a quarter
        nn.init.normal_(self.W.weight, std=(4 * (1 - dropout) / self.W.in_features) ** 0.5)
        nn.init.zeros_(self.W.bias)

    def forward(self, x: Vectors, valid: Bool[Tensor, "b n"] | None = None) -> Vectors:
        """All positions at once; padding is read as zeros, whatever it holds."""
        read = pad(self._read(x, valid), (0, 0, self.n_before, self.n_after))
        return self._add(x, read)

    def start(self, n_rows: int) -> Float[Tensor, "r p m"]:
        """The past before the first word: zero positions."""
        return self.W.weight.new_zeros(n_rows, self.n_before, self.width)

    def step(
        self,
        x: Float[Tensor, "r t m"],
        past: Float[Tensor, "r p m"],
        valid: Bool[Tensor, "r t"] | None = None,
    ) -> tuple[Float[Tensor, "r t m"], Float[Tensor, "r p m"]]:
        """The next positions, after the `n_before` read last, and the inputs to keep for later."""
        if self.n_after:
            raise SettingError(
                "convolution: only a causal one can go on from what it has read, but this one "
                f"looks {self.n_after} ahead. Build it with is_causal=True."
            )
        read = torch.cat([past, self._read(x, valid)], 1)
        return self._add(x, read), read[:, x.shape[1] :]

    def _read(self, x: Tensor, valid: Tensor | None) -> Tensor:
        x = self.dropout(x)
        return x if valid is None else x.masked_fill(~valid[..., None], 0.0)

    def _add(self, x: Tensor, read: Tensor) -> Tensor:
        n, d = x.shape[1], self.dilation
        window = torch.cat([read[:, i * d : i * d + n] for i in range(self.kernel)], -1)
        return (x + glu(self.W(window), -1)) * 0.5**0.5
