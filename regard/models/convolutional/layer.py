"""Layer of the convolutional decoder: a convolution with its attention to the source.

    h = convolution(x),   d[i] = W h[i] + c + y[i],   a[i,j] = softmax_j(d[i] · z[j])
    out[i] = sqrt(1/2) (h[i] + n sqrt(1/n) Σ_j a[i,j] (z[j] + e[j]))

y are the embedded target words, e the embedded source words, z the encoder's last states, and n
counts the source's words. A mean of n vectors has an n-th of their variance, which n sqrt(1/n),
that is sqrt(n), brings back: exact if all weights are alike, and as the paper prints it. The sum
with h is brought back to the variance of one by sqrt(1/2), as every residual of the paper is.

Paper: Gehring et al. 2017, section 3.3 (multi-step attention) and 3.4 (scaling).
"""

from typing import NamedTuple, final

from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention import Chain, padding
from regard.dims import Dims
from regard.layers.convolution import GatedConvolution
from regard.models.shapes import NewStates, States
from regard.places import Places


class ReadSource(NamedTuple):
    """The encoded source that every decoder layer attends to, one row for each sentence."""

    key: Float[Tensor, "b 1 s m"]
    """z[j], which the layers do not project."""
    value: Float[Tensor, "b 1 s m"]
    """sqrt(n) (z[j] + e[j])."""
    valid: Bool[Tensor, "b s"]
    """True for words, False for padding."""


@final
class AttendingConvolution(nn.Module):
    """A causal convolution, then attention to the source with one head."""

    def __init__(self, dims: Dims, *, convolution: GatedConvolution, chain: Chain) -> None:
        super().__init__()
        self.convolution, self.chain = convolution, chain
        self.W = nn.Linear(dims.d_model, dims.d_model)
        nn.init.normal_(self.W.weight, std=dims.d_model**-0.5)
        nn.init.zeros_(self.W.bias)

    def forward(
        self, x: States, embedded: States, source: ReadSource, valid: Bool[Tensor, "b t"]
    ) -> States:
        """All target positions at once."""
        past = self.convolution.start(len(x))
        return self.step(x, embedded, source, valid, past=past, n_past=0)[0]

    def step(
        self,
        x: NewStates,
        embedded: NewStates,
        source: ReadSource,
        valid: Bool[Tensor, "r t"],
        *,
        past: Float[Tensor, "r p m"],
        n_past: int,
    ) -> tuple[NewStates, Float[Tensor, "r p m"]]:
        """The next positions, and the inputs that the convolution keeps for later.

        `x` is the output of the layer below, `embedded` the tokens with their positions.
        Several rows may share a sentence of the source; they are adjacent. `n_past` positions
        come before these.
        """
        h, past = self.convolution.step(x, past, valid)
        return (h + self._look(self.W(h) + embedded, source, n_past)) * 0.5**0.5, past

    def _look(self, query: Tensor, source: ReadSource, n_past: int) -> Tensor:
        (rows, n, width), (n_sentences, n_keys) = query.shape, source.valid.shape
        each = rows // max(1, n_sentences)
        places = Places.between(n, n_keys, past=n_past, device=query.device)
        places = places.repeated(each) if each > 1 else places
        query = query.reshape(n_sentences, 1, each * n, width)
        attended = self.chain(query, source.key, source.value, padding(source.valid), places)
        return attended.context.reshape(rows, n, width)
