"""A convolution of the decoder with its attention to the source.

    h = convolution(x),   d[i] = W h[i] + c + y[i],   a[i,j] = softmax_j(d[i] · z[j])
    out[i] = sqrt(1/2) (h[i] + n sqrt(1/n) Σ_j a[i,j] (z[j] + e[j]))

y are the embedded target words, e the embedded source words, z the encoder's last states, and n
counts the source's words. A mean of n vectors has an n-th of their variance, which n sqrt(1/n),
that is sqrt(n), brings back: exact if all weights are alike, and as the paper prints it. The sum
with h is brought back to the variance of one by sqrt(1/2), as every residual of the paper is.

Paper: Gehring et al. 2017, section 3.3 (multi-step attention) and 3.4 (scaling).
"""

from typing import NamedTuple, final

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import Chain, KeyValues, padding
from regard.dims import Dims
from regard.layers.convolution import GatedConvolution
from regard.places import Places


class ReadSource(NamedTuple):
    """What every layer of the decoder looks at, one row for each sentence."""

    memory: KeyValues
    """Keys z[j] and values sqrt(n) (z[j] + e[j]), `b 1 s m`; the layers project nothing."""
    valid: Bool[Tensor, "b s"]
    """The words that exist."""

    @classmethod
    def of(
        cls,
        states: Float[Tensor, "b s m"],
        embedded: Float[Tensor, "b s m"],
        valid: Bool[Tensor, "b s"],
    ) -> "ReadSource":
        """Keep the encoder's last states and what it read."""
        root = valid.sum(1).to(states.dtype).sqrt()[:, None, None]
        values = (states + embedded) * root
        return cls(KeyValues(states[:, None], values[:, None]), valid)

    @property
    def n_sentences(self) -> int:
        """How many sentences it holds."""
        return len(self.valid)

    def select(self, sentences: Int[Tensor, " b"]) -> "ReadSource":
        """Some of its sentences."""
        return ReadSource(self.memory.select(sentences), self.valid[sentences])


@final
class AttendingConvolution(nn.Module):
    """A causal convolution, then one look at the source.

    Args:
        dims: the model width.
        convolution: a causal one.
        chain: the attention, of one head.
    """

    def __init__(self, dims: Dims, *, convolution: GatedConvolution, chain: Chain) -> None:
        super().__init__()
        self.convolution, self.chain = convolution, chain
        self.W = nn.Linear(dims.d_model, dims.d_model)
        nn.init.normal_(self.W.weight, std=dims.d_model**-0.5)
        nn.init.zeros_(self.W.bias)

    def forward(
        self,
        x: Float[Tensor, "b t m"],
        embedded: Float[Tensor, "b t m"],
        source: ReadSource,
        valid: Bool[Tensor, "b t"],
    ) -> Float[Tensor, "b t m"]:
        """All target positions at once."""
        past = self.convolution.start(len(x))
        return self.step(x, embedded, source, valid, past=past, n_past=0)[0]

    def step(
        self,
        x: Float[Tensor, "r t m"],
        embedded: Float[Tensor, "r t m"],
        source: ReadSource,
        valid: Bool[Tensor, "r t"],
        *,
        past: Float[Tensor, "r p m"],
        n_past: int,
    ) -> tuple[Float[Tensor, "r t m"], Float[Tensor, "r p m"]]:
        """The next positions, and what the convolution has to remember.

        Args:
            x: what the layer below says of them.
            embedded: the tokens themselves, with their positions.
            source: what to look at; several rows may share a sentence, and stand side by side.
            valid: the tokens that exist.
            past: what the convolution remembers.
            n_past: how many positions stand before these.
        """
        h, past = self.convolution.step(x, past, valid)
        return (h + self._look(self.W(h) + embedded, source, n_past)) * 0.5**0.5, past

    def _look(self, query: Tensor, source: ReadSource, n_past: int) -> Tensor:
        rows, n, width = query.shape
        each = rows // max(1, source.n_sentences)
        places = Places.between(n, source.memory.length, past=n_past, device=query.device)
        places = places.repeated(each) if each > 1 else places
        query = query.reshape(source.n_sentences, 1, each * n, width)
        key, value = source.memory.key, source.memory.value
        attended = self.chain(query, key, value, padding(source.valid), places)
        return attended.context.reshape(rows, n, width)
