"""Spec of a convolutional model: its sizes and choices, and its receptive field.

    receptive field      1 + (k - 1) Σ d[l],   d[l] = 1 (constant) or 2^l (doubling)
    layers until two words at distance D meet:   the fewest L with reach · (d[0] + … + d[L-1]) >= D
    reach of a window    (k - 1) / 2 on each side in the encoder, k - 1 back in the decoder

Paper: Gehring et al. 2017, section 3; van den Oord et al. 2016 (doubling dilations).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, final

from regard.attention import SCORES, SELECTIONS
from regard.choices import Choice
from regard.dims import Dims
from regard.errors import SettingError
from regard.models.hard_spec import HardSpec, draws_of
from regard.models.spec import POSITION_CHOICES, TIES, ModelSpec

LARGEST_KERNEL = 1 << 10
"""The largest window; more is a mistake or a malicious file."""

NOT_ADDED: Mapping[str, str] = {
    "rotary": "it turns queries and keys, and a convolution has none",
    "tree_depth": "it needs a tree of the target too, which does not exist before it is written",
}
"""Positions that cannot be added to both embeddings, and why."""


@final
@dataclass(frozen=True)
class Dilations:
    """How the distances inside the windows grow from layer to layer."""

    at: Callable[[int], int]
    """The dilation of a layer; the first is layer 0."""
    total: Callable[[int], int]
    """The sum of the dilations of this many layers."""
    layers: Callable[[int], int]
    """The fewest layers whose dilations reach a total."""

    def layers_to_meet(self, distance: int, reach: int) -> int:
        """Layers until a word depends on another, if a layer sees `reach` words on that side."""
        return self.layers(-(-distance // reach))


DILATIONS: Mapping[str, Dilations] = {
    "constant": Dilations(at=lambda _: 1, total=lambda n: n, layers=lambda total: total),
    "doubling": Dilations(
        at=lambda layer: 2**layer,
        total=lambda n: 2**n - 1,
        layers=lambda total: total.bit_length(),
    ),
}
"""What `model.dilations` may name."""


class Sides(NamedTuple):
    """A count for each of the two stacks."""

    encoder: int
    decoder: int


@dataclass(frozen=True, kw_only=True)
class ConvolutionalSpec(ModelSpec):
    """Sizes and choices; the paper's large models have 15 or 20 layers on each side."""

    kind: str = "convolutional"
    task: str = "translation"
    d_model: int = 512
    """Width of the model, embeddings included."""
    n_encoder_layers: int = 4
    """Convolutions that read the source."""
    n_decoder_layers: int = 4
    """Convolutions that write the target, each with an attention to the source."""
    kernel: int = 3
    """Words in a window; odd, since the encoder's windows have a middle."""
    dilations: str = "constant"
    """"constant" (neighbours), or "doubling": words 1, 2, 4, … apart from layer to layer."""
    dropout: float = 0.1
    """On embeddings, on every convolution's input, and on the decoder's output."""
    tied: str = "all"
    """"none", "output" (target embedding = output layer) or "all" (the source's too)."""
    positions: Choice = field(default_factory=lambda: Choice("learned"))
    """What is added to the embeddings."""
    score: Choice = field(default_factory=lambda: Choice("dot"))
    """The score of every attention."""
    select: Choice = field(default_factory=lambda: Choice("soft"))
    """The selection of every attention."""
    hard: HardSpec | None = None
    """How attention with select = "hard" learns; its defaults unless given."""
    max_len: int = 512
    """Longest sequence, for parts that have parameters for each position."""

    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "tied": TIES,
        "score": SCORES,
        "select": SELECTIONS,
        "positions": POSITION_CHOICES,
        "dilations": DILATIONS,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.draws  # refuses settings without effect
        if self.kernel % 2 == 0 or not 3 <= self.kernel <= LARGEST_KERNEL:
            raise SettingError(
                f"model.kernel must be odd and lie between 3 and {LARGEST_KERNEL:,}, "
                f"got {self.kernel}."
            )
        if reason := NOT_ADDED.get(self.positions.name):
            raise SettingError(
                f"model.positions = '{self.positions.name}' cannot be added to the embeddings: "
                f"{reason}. Take learned, sinusoidal or none."
            )
        self._check_dilations()

    @property
    def draws(self) -> HardSpec | None:
        """How its draws learn; None if its attentions draw nothing."""
        return draws_of(self.hard, (self.select,))

    @property
    def dims(self) -> Dims:
        """The sizes every part of the model shares; its attentions have one head."""
        return Dims(d_model=self.d_model, max_len=self.max_len)

    @property
    def receptive_field(self) -> Sides:
        """How many words of its own side an output of each stack depends on."""
        grows, step = DILATIONS[self.dilations], self.kernel - 1
        counts = (self.n_encoder_layers, self.n_decoder_layers)
        return Sides(*(1 + step * grows.total(n) for n in counts))

    def layers_to_meet(self, distance: int) -> Sides:
        """How many layers it takes until the output at a word depends on another word.

        In the decoder the other word stands before it; no layer sees a later one.
        """
        if distance < 0:
            raise SettingError(f"layers_to_meet: distance must be at least 0, got {distance}.")
        grows, step = DILATIONS[self.dilations], self.kernel - 1
        return Sides(*(grows.layers_to_meet(distance, reach) for reach in (step // 2, step)))

    def _check_dilations(self) -> None:
        grows, n = DILATIONS[self.dilations], max(self.n_encoder_layers, self.n_decoder_layers)
        fitting = sum(grows.at(layer) <= self.max_len for layer in range(n))
        if fitting < n:
            raise SettingError(
                f"model.dilations = '{self.dilations}' puts the words of a window more than "
                f"max_len ({self.max_len}) apart from layer {fitting + 1} on, got {n} layers. "
                f"Take at most {fitting}, or dilations = 'constant'."
            )
