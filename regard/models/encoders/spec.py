"""Spec of an encoder-only model: its sizes and choices, the [model] section of a recipe.

    words     predicts hidden words           (BERT's masked language model)
    tags      predicts a label for each word
    label     predicts a label for the text
    vectors   gives a vector for the text     (published encoders without a head)

Paper: Devlin et al. 2019, section 3.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from regard.attention import RELATIONS
from regard.attention.link_tables import JoinedTables
from regard.attention.links import Pattern
from regard.attention.tables import PATTERNS
from regard.choices import Choice
from regard.dims import Dims
from regard.errors import SettingError
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.encoders.big_bird import PublishedBigBirdPattern
from regard.models.spec import POSITION_CHOICES, StackSpec
from regard.positions import POSITIONS

READING_PATTERNS: Mapping[str, Callable[..., Pattern]] = JoinedTables(
    PATTERNS, {"published_big_bird": PublishedBigBirdPattern}, without="causal"
)
"""Patterns of a model that reads in both directions."""


@dataclass(frozen=True, kw_only=True)
class EncoderSpec(StackSpec):
    """Sizes and choices; by default the switches are BERT's and the sizes small."""

    kind: str = "encoder"
    task: str = "words"
    """What it predicts: "words", "tags" or "label"; or "vectors", without a prediction."""
    d_model: int = 256
    n_heads: int = 4
    d_hidden: int = 1024
    n_layers: int = 4
    """Layers."""
    feed_forward: str = "gelu"
    """"gelu", "gelu_tanh" (its approximation), "relu" or "swish"."""
    norm: str = "post_norm"
    """Where the layer norm stands: "post_norm" or "pre_norm"."""
    norm_eps: float = 1e-12
    """The eps of layer norms, added to the variance."""
    has_bias: bool = True
    """Whether the projections of heads add a bias."""
    has_output_bias: bool = True
    """Whether the output layer has a bias for each word, where words are predicted."""
    is_scaled: bool = False
    """Whether token vectors are multiplied by the root of the width."""
    n_segments: int = 0
    """Parts of a row with a vector of their own; 2 in BERT."""
    positions: Choice = field(default_factory=lambda: Choice("learned"))
    """What is added to the embeddings, or turns queries and keys."""
    relation: Choice | None = None
    """The relation: what distance adds to the scores."""
    pattern: Choice | None = None
    """Which words each word sees; all unless given."""
    max_len: int = 511
    """Longest text in tokens, the end token counted and the begin token not."""

    norms_embeddings = True
    shares: ClassVar[tuple[str, ...]] = (*StackSpec.shares, "norm_eps")
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "task": dict.fromkeys(("words", "tags", "label", "vectors")),
        "norm": dict.fromkeys(("post_norm", "pre_norm")),
        "feed_forward": ACTIVATIONS,
        "positions": POSITION_CHOICES,
        "relation": RELATIONS,
        "pattern": READING_PATTERNS,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_segments < 0:
            raise SettingError(f"model.n_segments must be at least 0, got {self.n_segments}.")
        if self.needs_trees and self.task != "tags":
            raise SettingError(
                f"model.task = '{self.task}' reads no trees, but positions or relation know them. "
                "Take task = 'tags', or other positions and another relation."
            )

    @property
    def dims(self) -> Dims:
        """The sizes every attention of the model shares; the begin token has a position too."""
        return replace(super().dims, max_len=self.max_len + 1)

    @property
    def has_one_vocabulary(self) -> bool:
        """Whether source and target share a vocabulary: hidden words come from the source."""
        return self.task == "words"

    @property
    def gives_labels(self) -> bool:
        """Whether answers are labels, of words or of whole texts."""
        return self.task in ("tags", "label")

    @property
    def labels_words(self) -> bool:
        """Whether there is a label for each word of a text."""
        return self.task == "tags"

    @property
    def needs_trees(self) -> bool:
        """Whether sentences must come with their dependency trees."""
        return knows_trees(self.positions) or knows_trees(self.relation)


def knows_trees(choice: Choice | None) -> bool:
    """Whether positions or a relation read the dependency trees of sentences."""
    part = None if choice is None else {**POSITIONS, **RELATIONS}.get(choice.name)
    # only parts that read trees have the attribute
    return getattr(part, "needs_trees", False)


ENCODER_SIZES: Mapping[str, Mapping[str, int | float]] = {
    "tiny": {"d_model": 64, "n_heads": 4, "d_hidden": 128, "n_layers": 2},
    "small": {"d_model": 256, "n_heads": 4, "d_hidden": 1024, "n_layers": 4},
    "base": {"d_model": 768, "n_heads": 12, "d_hidden": 3072, "n_layers": 12},
    "large": {"d_model": 1024, "n_heads": 16, "d_hidden": 4096, "n_layers": 24},
}
"""Named sizes: what `model.size` stands for; base and large are BERT's."""
