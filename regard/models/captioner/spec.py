"""What a captioner is made of, as plain data: the [model] section of a recipe.

    soft          an LSTM with soft focus and the doubly stochastic penalty, as wide as the authors'
    hard          the same with hard focus, learned by REINFORCE
    transformer   a Transformer's decoder over the same grid

Paper: Xu et al. 2015, and its authors' code for MS COCO (widths, λ, dropout).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from regard.attention.selections.hard import AT_TEST
from regard.choices import Choice, find
from regard.errors import SettingError
from regard.layers.vision import ENCODERS
from regard.models.captioner.focus import CREDITS
from regard.models.captioner.looking_cell import LOOKS

KIND = "captioner"
LARGEST: Mapping[str, int] = {
    "picture_size": 1 << 14,
    "d_embedding": 1 << 16,
    "d_hidden": 1 << 18,
    "n_layers": 1000,
    "n_heads": 1 << 10,
    "n_samples": 1 << 10,
    "max_len": 1 << 24,
}
"""Beyond these a size is a mistake, or a file that means harm."""
TIES = ("none", "output")
ONLY_HARD = (
    "at_test",
    "n_samples",
    "reinforce",
    "entropy",
    "expected_share",
    "learns_from_expected",
    "credit",
)
"""Keys that soft focus has no use for."""
ONLY_LSTM = (
    "select", "penalty", "d_attention", "look", "readout", "state_dropout", *ONLY_HARD
)  # fmt: skip
"""Keys that a Transformer's decoder has no use for."""
ONLY_TRANSFORMER = ("n_layers", "n_heads")
"""Keys that the LSTM has no use for."""
DECODERS: Mapping[str, tuple[str, ...]] = {"lstm": ONLY_TRANSFORMER, "transformer": ONLY_LSTM}
"""What `model.decoder` may name, and the keys that it has no use for."""
SELECTS: Mapping[str, tuple[str, ...]] = {"soft": ONLY_HARD, "hard": ()}
"""What `model.select` may name, and the keys that it has no use for."""
SPEAKERS: Mapping[str, tuple[str, ...]] = {"deep": (), "seen": ("state_dropout",)}
"""What `model.readout` may name, and the keys that it has no use for."""


@dataclass(frozen=True, kw_only=True)
class CaptionerSpec:
    """Sizes and choices; a small LSTM with soft focus unless something else is said."""

    kind: str = KIND
    """What kind of model this is."""
    task: str = "captioning"
    """What the run is for: a name of `regard.tasks.TASKS`."""
    source_type: ClassVar[str] = "pictures"
    """What is read."""
    encoder: Choice = field(default_factory=lambda: Choice("residual"))
    """What makes annotations of pictures, with its settings."""
    picture_size: int = 224
    """Pixels of a picture's sides, as the model sees it: it is square."""
    decoder: str = "lstm"
    """"lstm" as in the paper, or "transformer"."""
    select: str = "soft"
    """"soft" (every cell has its share) or "hard" (one is drawn)."""
    look: str = "before"
    """"before" the LSTM reads a word and what is seen, as in the paper, or "after" it has read the
    word: what is seen then is not remembered."""
    readout: str = "deep"
    """What words are said of: "deep" (last word, what is seen, state) or "seen" (without the
    state)."""
    state_dropout: float = 0.0
    """How likely a word is said without the state, in training; the paper has none of it."""
    d_embedding: int = 512
    """Width of the words' embeddings; of a Transformer's decoder all through."""
    d_hidden: int = 512
    """Width of the LSTM; of a Transformer's decoder the inner width of its feed-forward."""
    d_attention: int = 0
    """Inner width of the additive score; 0 for that of an annotation, as the authors have it."""
    n_layers: int = 1
    """Layers of a Transformer's decoder; the LSTM has one."""
    n_heads: int = 1
    """Heads of a Transformer's decoder; the LSTM has one."""
    dropout: float = 0.5
    """On the LSTM's state where it speaks, on what the output layer reads, and inside the networks
    that make the first state; in a Transformer's decoder where it has dropout."""
    tied: str = "none"
    """"none" or "output" (embedding = output layer)."""
    penalty: float = 0.0
    """λ of the doubly stochastic penalty; 1 in the paper with soft focus, and not there with
    hard."""
    n_samples: int = 1
    """N: hard focus draws so often for a caption in an update."""
    reinforce: float = 0.1
    """λ_r: how much the credit of draws counts; 1 is the gradient of the bound."""
    entropy: float = 0.002
    """λ_e: how much it counts that draws are open."""
    expected_share: float = 0.5
    """How likely a caption is read with expectations instead of draws."""
    learns_from_expected: bool = False
    """Whether such a caption teaches where to look, as soft focus does; not in the authors' code,
    but without it hard focus takes very long to learn."""
    credit: str = "caption"
    """What draws are credited with: the log-probability of the "caption", or by the "word"."""
    at_test: str = "expected"
    """What hard focus does outside training: "expected" (as soft) or "argmax"."""
    max_len: int = 512
    """Longest caption for parts that are tied to positions."""

    def __post_init__(self) -> None:
        if self.kind != KIND:
            raise SettingError(f"model.kind must be '{KIND}' here, got '{self.kind}'.")
        for name, largest in {**LARGEST, "d_attention": 1 << 16}.items():
            least = int(name != "d_attention")
            if not least <= getattr(self, name) <= largest:
                raise SettingError(
                    f"model.{name} must lie between {least} and {largest:,}, got "
                    f"{getattr(self, name)}."
                )
        for name in ("penalty", "reinforce", "entropy"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise SettingError(f"model.{name} must be at least 0, got {getattr(self, name)}.")
        if not 0.0 <= self.dropout < 1.0:
            raise SettingError(f"model.dropout must lie in [0, 1), got {self.dropout}.")
        for name in ("expected_share", "state_dropout"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise SettingError(f"model.{name} must lie in [0, 1], got {getattr(self, name)}.")
        find(self.encoder.name, ENCODERS, key="model.encoder")
        find(self.tied, dict.fromkeys(TIES), key="model.tied")
        find(self.look, LOOKS, key="model.look")
        find(self.credit, CREDITS, key="model.credit")
        find(self.at_test, AT_TEST, key="model.at_test")
        self._refuse("decoder", find(self.decoder, DECODERS, key="model.decoder"))
        self._refuse("readout", find(self.readout, SPEAKERS, key="model.readout"))
        self._refuse("select", find(self.select, SELECTS, key="model.select"))
        if self.decoder == "transformer" and self.d_embedding % (2 * self.n_heads):
            wider = 2 * self.n_heads * -(-self.d_embedding // (2 * self.n_heads))
            raise SettingError(
                f"model.d_embedding ({self.d_embedding}) must be even, for sines and cosines, and "
                f"a multiple of n_heads ({self.n_heads}). Take {wider}."
            )

    @property
    def d_model(self) -> int:
        """What a learning rate that depends on the model's width takes for it."""
        return self.d_embedding if self.decoder == "transformer" else self.d_hidden

    def _refuse(self, chosen: str, unused: tuple[str, ...]) -> None:
        """Nothing that is said may be without effect."""
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
