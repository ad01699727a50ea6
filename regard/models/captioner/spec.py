"""Spec of a captioner: its sizes and choices, the [model] section of a recipe.

    soft          an LSTM with soft focus and the doubly stochastic penalty, as wide as the authors'
    hard          the same with hard focus, learned by REINFORCE
    transformer   a Transformer's decoder over the same grid

Paper: Xu et al. 2015, and its authors' code for MS COCO (widths, λ, dropout).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from regard.attention.pair_network import ACTIVATIONS
from regard.attention.selections.hard import AT_TEST
from regard.choices import Choice
from regard.dims import Dims
from regard.errors import SettingError
from regard.layers.vision import ENCODERS
from regard.models.spec import LARGEST_SIZES, ModelSpec

LARGEST_D_ATTENTION = 1 << 16
ONLY_HARD = (
    "at_test", "n_samples", "reinforce", "entropy", "expected_share", "learns_from_expected",
    "credit",
)  # fmt: skip
"""Keys without effect under soft focus."""
ONLY_LSTM = (
    "select", "penalty", "d_attention", "activation", "look", "readout", "state_dropout", *ONLY_HARD
)  # fmt: skip
"""Keys without effect on a Transformer's decoder."""
ONLY_TRANSFORMER = ("n_layers", "n_heads")
"""Keys without effect on the LSTM."""
NO_USE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "decoder": {"lstm": ONLY_TRANSFORMER, "transformer": ONLY_LSTM},
    "readout": {"deep": (), "seen": ("state_dropout",)},
    "select": {"soft": ONLY_HARD, "hard": ()},
}
"""The names that these keys may have, and the keys without effect under each."""


@dataclass(frozen=True, kw_only=True)
class CaptionerSpec(ModelSpec):
    """Sizes and choices; by default a small LSTM with soft focus."""

    kind: str = "captioner"
    task: str = "captioning"
    source_type: ClassVar[str] = "pictures"
    encoder: Choice = field(default_factory=lambda: Choice("residual"))
    """What makes annotations of pictures, with its settings."""
    picture_size: int = 224
    """Pixels of a picture's sides, as the model sees it: it is square."""
    decoder: str = "lstm"
    """"lstm" as in the paper, or "transformer"."""
    select: str = "soft"
    """"soft" (every cell has a weight) or "hard" (one is drawn)."""
    look: str = "before"
    """"before": the old state attends and the LSTM reads the context, as in the paper; "after": the
    new state attends and the context is not remembered."""
    readout: str = "deep"
    """What the output layer reads: "deep" (last word, context, state) or "seen" (without the
    state)."""
    state_dropout: float = 0.0
    """Probability of dropping the state before the output, in training; not in the paper."""
    d_embedding: int = 512
    """Width of the words' embeddings; in a Transformer's decoder the width of the model."""
    d_hidden: int = 512
    """Width of the LSTM; of a Transformer's decoder the inner width of its feed-forward."""
    d_attention: int = 0
    """Inner width of the additive score; 0 for the annotations' width, as in the authors' code."""
    activation: str = "tanh"
    """The activation in the additive score: "tanh" as in the authors' code, "relu" or "sigmoid"."""
    n_layers: int = 1
    """Layers of a Transformer's decoder; the LSTM has one."""
    n_heads: int = 1
    """Heads of a Transformer's decoder; the LSTM has one."""
    dropout: float = 0.5
    """On the LSTM's state and the tanh before the output layer, and inside the networks that make
    the first state; in a Transformer's decoder as in its layers."""
    tied: str = "none"
    """"none" or "output" (embedding = output layer)."""
    penalty: float = 0.0
    """λ of the doubly stochastic penalty; in the paper 1 with soft focus, and absent with
    hard."""
    n_samples: int = 1
    """N: how many times hard focus draws for a caption in an update."""
    reinforce: float = 0.1
    """λ_r: weight of the REINFORCE term; 1 gives the gradient of the bound."""
    entropy: float = 0.002
    """λ_e: weight of the draws' entropy."""
    expected_share: float = 0.5
    """Probability that a caption is read with expectations instead of draws."""
    learns_from_expected: bool = False
    """Whether such a caption trains the scores, as under soft focus; not in the authors' code, but
    without it hard focus learns very slowly."""
    credit: str = "caption"
    """Reward of the draws: the log-probability of the "caption", or its mean by "word"."""
    at_test: str = "expected"
    """What hard focus does outside training: "expected" (as soft) or "argmax"."""
    max_len: int = 512
    """Longest caption, for parts that have parameters for each position."""

    largest: ClassVar[Mapping[str, int]] = {
        **LARGEST_SIZES, "picture_size": 1 << 14, "d_embedding": 1 << 16, "n_samples": 1 << 10
    }  # fmt: skip
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "encoder": ENCODERS, "tied": dict.fromkeys(("none", "output")),
        "look": dict.fromkeys(("before", "after")), "at_test": AT_TEST,
        "credit": dict.fromkeys(("caption", "word")), "activation": ACTIVATIONS, **NO_USE,
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.d_attention <= LARGEST_D_ATTENTION:
            raise SettingError(
                f"model.d_attention must lie between 0 and {LARGEST_D_ATTENTION:,}, got "
                f"{self.d_attention}."
            )
        for name in ("penalty", "reinforce", "entropy"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise SettingError(f"model.{name} must be at least 0, got {getattr(self, name)}.")
        for name in ("expected_share", "state_dropout"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SettingError(f"model.{name} must lie in [0, 1], got {getattr(self, name)}.")
        for key, table in NO_USE.items():
            self._refuse(key, table[getattr(self, key)])
        if self.decoder == "transformer" and self.d_embedding % (2 * self.n_heads):
            wider = 2 * self.n_heads * -(-self.d_embedding // (2 * self.n_heads))
            raise SettingError(
                f"model.d_embedding ({self.d_embedding}) must be even, for sines and cosines, and "
                f"a multiple of n_heads ({self.n_heads}). Take {wider}."
            )

    @property
    def d_model(self) -> int:
        """The width that the noam schedule uses."""
        return self.d_embedding if self.decoder == "transformer" else self.d_hidden

    @property
    def dims(self) -> Dims:
        """The sizes for the encoder of pictures."""
        return Dims(d_model=self.d_embedding)

    def _refuse(self, chosen: str, unused: tuple[str, ...]) -> None:
        """Refuse a setting that would have no effect."""
        defaults = {each.name: each.default for each in fields(self)}
        for name in unused:
            if getattr(self, name) != defaults[name]:
                raise SettingError(
                    f"model.{name} = {getattr(self, name)!r} would do nothing: {chosen} = "
                    f"'{getattr(self, chosen)}' has no use for it. Leave it out, or choose another "
                    f"{chosen}."
                )


AUTHORS = {"d_embedding": 512, "d_hidden": 1800}

PAPERS: Mapping[str, Mapping[str, Any]] = {
    "soft": {**AUTHORS, "penalty": 1.0},
    "hard": {**AUTHORS, "select": "hard", "credit": "word"},
    "transformer": {"decoder": "transformer", "d_embedding": 512, "d_hidden": 2048, "n_layers": 6,
                    "n_heads": 8, "dropout": 0.1, "tied": "output"},
}  # fmt: skip
"""Named models: what `model.size` in a recipe stands for."""
