"""What an encoder-only model is made of, as plain data: the [model] section of a recipe.

    words     guesses words that are hidden                 (BERT's masked language model)
    tags      says one label about each word
    label     says one label about a text
    vectors   says nothing, but gives a vector for a text   (published encoders without a head)

Paper: Devlin et al. 2019, section 3.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from regard.attention import RELATIONS
from regard.attention.links import Pattern
from regard.attention.tables import PATTERNS
from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import SettingError
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.encoders.big_bird import PublishedBigBirdPattern
from regard.models.published.sizes import check_shares, check_sizes
from regard.positions import POSITIONS

TASKS = ("words", "tags", "label", "vectors")
NORMS = ("post_norm", "pre_norm")
READING_PATTERNS: Mapping[str, Callable[..., Pattern]] = {
    **{name: part for name, part in PATTERNS.items() if name != "causal"},
    "published_big_bird": PublishedBigBirdPattern,
}
"""Patterns of a model that reads in both directions."""


@dataclass(frozen=True, kw_only=True)
class EncoderSpec:
    """Sizes and choices; the switches have BERT's values, the sizes those of a small one."""

    kind: str = "encoder"
    """What is built."""
    task: str = "words"
    """What it says: "words", "tags", "label", or nothing: "vectors"."""
    source_type: ClassVar[str] = "texts"
    """What is read."""
    d_model: int = 256
    """Width of the model."""
    n_heads: int = 4
    """Heads of every attention."""
    d_hidden: int = 1024
    """Inner width of the feed-forward."""
    n_layers: int = 4
    """Layers."""
    dropout: float = 0.1
    """On embeddings and on every sublayer's output, before it is added."""
    attention_dropout: float = 0.0
    """On the attention weights, in training; it forces the dense path there."""
    feed_forward: str = "gelu"
    """"gelu", "gelu_tanh" (its approximation), "relu" or "swish"."""
    norm: str = "post_norm"
    """Where the layer norm stands: "post_norm" or "pre_norm"."""
    norm_eps: float = 1e-12
    """What is added to a variance before its root is taken."""
    has_bias: bool = True
    """Whether the projections of heads add a bias."""
    has_output_bias: bool = True
    """Whether each word has a bias of its own where words are guessed."""
    is_scaled: bool = False
    """Whether token vectors are multiplied by the root of the width."""
    n_segments: int = 0
    """Parts of a row with a vector of their own; 2 in BERT."""
    positions: Choice = field(default_factory=lambda: Choice("learned"))
    """What is added to the embeddings, or turns queries and keys."""
    relation: Choice | None = None
    """What distance adds to the scores."""
    pattern: Choice | None = None
    """Which words each word sees; all unless given."""
    max_len: int = 511
    """Longest text in tokens, the end token counted and the begin token not."""

    def __post_init__(self) -> None:
        check_sizes(self, ("d_model", "n_heads", "d_hidden", "n_layers", "max_len"))
        check_shares(self, ("dropout", "attention_dropout", "norm_eps"))
        find(self.kind, {"encoder": None}, key="model.kind")
        find(self.task, dict.fromkeys(TASKS), key="model.task")
        find(self.norm, dict.fromkeys(NORMS), key="model.norm")
        find(self.feed_forward, ACTIVATIONS, key="model.feed_forward")
        find(self.positions.name, {**POSITIONS, "none": None}, key="model.positions")
        if self.n_segments < 0:
            raise SettingError(f"model.n_segments must be at least 0, got {self.n_segments}.")
        if self.relation is not None:
            find(self.relation.name, RELATIONS, key="model.relation")
        if self.pattern is not None:
            find(self.pattern.name, READING_PATTERNS, key="model.pattern")
        if self.needs_trees and self.task != "tags":
            raise SettingError(
                f"model.task = '{self.task}' reads no trees, but positions or relation know them. "
                "Take task = 'tags', or other positions and another relation."
            )
        _ = self.dims.d_head

    @property
    def dims(self) -> Dims:
        """The sizes every attention of the model shares; the begin token has a position too."""
        return Dims(d_model=self.d_model, n_heads=self.n_heads, max_len=self.max_len + 1)

    @property
    def has_one_vocabulary(self) -> bool:
        """Whether source and target must be of one: words that are guessed are words read."""
        return self.task == "words"

    @property
    def needs_trees(self) -> bool:
        """Whether sentences must come with their dependency trees."""
        return knows_trees(self.positions) or knows_trees(self.relation)


def knows_trees(choice: Choice | None) -> bool:
    """Whether positions or a relation ask for the dependency trees of sentences."""
    part = None if choice is None else {**POSITIONS, **RELATIONS}.get(choice.name)
    # most parts do not say; those that read trees do
    return getattr(part, "needs_trees", False)


ENCODER_SIZES: Mapping[str, Mapping[str, int | float]] = {
    "tiny": {"d_model": 64, "n_heads": 4, "d_hidden": 128, "n_layers": 2},
    "small": {"d_model": 256, "n_heads": 4, "d_hidden": 1024, "n_layers": 4},
    "base": {"d_model": 768, "n_heads": 12, "d_hidden": 3072, "n_layers": 12},
    "large": {"d_model": 1024, "n_heads": 16, "d_hidden": 4096, "n_layers": 24},
}
"""Named sizes: what `model.size` stands for; base and large are BERT's."""
