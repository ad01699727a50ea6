"""Forms: the weights of a Transformer in the terms that all runtimes share, without modules.

    model        an encoder, a decoder, or both, and the output layer
    stack        token vectors and positions, layers, a last norm
    layer        attention, attention to the source, feed-forward: each in a residual with a norm
    attention    softmax of scaled dot products, perhaps with vectors or numbers by distance

What is no such form is lowered to one where that is the same function: the matrix of `general` goes
into the queries' projection, a temperature into the scale.
"""

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor


class PortableLinear(NamedTuple):
    """A linear map."""

    weight: Float[Tensor, "out in"]
    bias: Float[Tensor, " out"] | None


class PortableNorm(NamedTuple):
    """A layer norm."""

    gain: Float[Tensor, " m"]
    bias: Float[Tensor, " m"]
    eps: float


class PortableAttention(NamedTuple):
    """Heads of equal width, each with queries, keys and values of its own."""

    query: PortableLinear
    key: PortableLinear
    value: PortableLinear
    output: PortableLinear
    n_heads: int
    scale: float
    """The factor of dot products."""
    is_rotary: bool = False
    """Whether neighbouring channels of queries and keys are turned by their position."""
    keys_by_distance: Float[Tensor, "h r d"] | None = None
    """What is added to the keys at each distance from -reach to reach, and beyond as at reach."""
    values_by_distance: Float[Tensor, "h r d"] | None = None
    """What is added to the values in the same way."""
    bias_by_distance: Float[Tensor, "h r"] | None = None
    """What is added to the scores in the same way."""
    slope: Float[Tensor, " h"] | None = None
    """What each step beyond `reach` adds to the bias."""

    @property
    def d_head(self) -> int:
        """The width of one head."""
        return len(self.query.weight) // self.n_heads


class PortableFeedForward(NamedTuple):
    """outer(activation(inner(x))), or outer(activation(inner(x)) ⊙ gate(x))."""

    inner: PortableLinear
    outer: PortableLinear
    activation: str
    """A name of `regard.layers.feed_forward.ACTIVATIONS`."""
    gate: PortableLinear | None = None


class PortableLayer(NamedTuple):
    """One layer; attention to a source only in a decoder that has one."""

    attention: PortableAttention
    attention_norm: PortableNorm
    feed_forward: PortableFeedForward
    feed_forward_norm: PortableNorm
    is_pre_norm: bool
    """Whether norms stand before the sublayers, or after the sums."""
    cross: PortableAttention | None = None
    cross_norm: PortableNorm | None = None


class PortableStack(NamedTuple):
    """Tokens → states."""

    table: Float[Tensor, "v m"]
    scale: float
    """What token vectors are multiplied by, before positions are added."""
    positions: Float[Tensor, "n m"] | None
    """The vector of each position, if any are added."""
    segments: Float[Tensor, "s m"] | None
    norm: PortableNorm | None
    """The norm of the sum of token, position and segment."""
    layers: tuple[PortableLayer, ...]
    last_norm: PortableNorm | None
    n_positions: int
    """The most positions that the stack reads."""


class PortableHead(NamedTuple):
    """output(norm(activation(dense(x)))), which guesses the word at each position."""

    dense: PortableLinear
    norm: PortableNorm
    activation: str
    output: PortableLinear


class PortableModel(NamedTuple):
    """A whole model; either stack may be missing, not both."""

    encoder: PortableStack | None
    decoder: PortableStack | None
    output: PortableLinear | None
    """From the last states of the decoder to logits."""
    head: PortableHead | None = None
    """What guesses words, of an encoder alone that does."""

    @property
    def stacks(self) -> tuple[PortableStack, ...]:
        """Those that are there."""
        return tuple(one for one in (self.encoder, self.decoder) if one is not None)
