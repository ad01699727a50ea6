"""Spec of a recurrent encoder-decoder: its sizes and choices, the [model] section of a recipe.

    luong      4 + 4 LSTM layers that read backwards, general score, input feeding
    bahdanau   a GRU both ways, additive score of the previous state, maxout
    cs224n     an LSTM both ways, general score, input feeding
    sutskever  4 + 4 LSTM layers and no attention: one vector holds the source

Paper: Luong, Pham & Manning 2015, section 4.1; Bahdanau, Cho & Bengio 2015, appendix A.2;
Sutskever, Vinyals & Le 2014, section 3.4.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from regard.attention import SCORES, SELECTIONS
from regard.attention.links import CoverageScore
from regard.choices import Choice
from regard.dims import Dims
from regard.errors import SettingError
from regard.layers.recurrent import BRIDGES, READOUTS, RECURRENCES
from regard.models.hard_spec import HardSpec, draws_of
from regard.models.recurrent.initialisation import INITIALISATIONS
from regard.models.spec import LARGEST_SIZES, TIES, ModelSpec

NO_LOOK = "none"
ATTENDS = ("current", "previous", NO_LOOK)
"""The names that `model.attends` may have."""
LUONG_SCORE, GLOBAL_SELECTION = Choice("general"), Choice("soft")


@dataclass(frozen=True, kw_only=True)
class RecurrentSpec(ModelSpec):
    """Sizes and choices; by default those of Luong's paper with global attention."""

    kind: str = "recurrent"
    task: str = "translation"
    d_embedding: int = 1000
    """Width of the embeddings."""
    d_hidden: int = 1000
    """Width of a layer's state, in each direction."""
    n_layers: int = 4
    """Layers that read the source, and as many that write the target."""
    cell: str = "lstm"
    """"lstm" or "gru"."""
    is_bidirectional: bool = False
    """Whether the source is read both ways."""
    reverses_source: bool = True
    """Whether the source is read backwards; its states keep the order of the sentence."""
    bridge: str = "copy"
    """How the decoder's first state is made: "copy", "projected" or "backward"."""
    attends: str = "current"
    """Which state of the decoder attends to the source: the "current" one (Luong), the "previous"
    one (Bahdanau), or "none"."""
    attends_to_end: bool = False
    """Whether the source's end token may be attended to."""
    score: Choice = field(default_factory=lambda: LUONG_SCORE)
    """The score of a state with a source word."""
    select: Choice = field(default_factory=lambda: GLOBAL_SELECTION)
    """The selection, which turns scores into weights; "soft" is Luong's global attention."""
    hard: HardSpec | None = None
    """How attention with select = "hard" learns; its defaults unless given."""
    feeds_input: bool = True
    """Whether a step reads the readout of the step before."""
    has_coverage: bool = False
    """Whether scores read the weight that each source word has received (coverage)."""
    readout: str = "attentional"
    """What the output layer reads: "attentional", "maxout" or "state"."""
    dropout: float = 0.2
    """On the input of every layer, the fed readout included."""
    readout_dropout: float = 0.0
    """On the readout."""
    tied: str = "none"
    """"none", "output" (target embedding = output layer) or "all" (the source's too)."""
    initialisation: str = "uniform"
    """"uniform" (Luong's), "orthogonal" (Bahdanau's), or "scaled" for narrow models."""
    max_len: int = 512
    """Longest source, for parts that have parameters for each position."""

    largest: ClassVar[Mapping[str, int]] = {
        **LARGEST_SIZES, "d_embedding": 1 << 16, "d_hidden": 1 << 16
    }  # fmt: skip
    shares: ClassVar[tuple[str, ...]] = ("dropout", "readout_dropout")
    tables: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "cell": RECURRENCES, "bridge": BRIDGES, "attends": dict.fromkeys(ATTENDS),
        "score": SCORES, "select": SELECTIONS, "readout": READOUTS, "tied": TIES,
        "initialisation": INITIALISATIONS,
    }  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.draws  # refuses settings without effect
        for is_wrong, refusal in self._refusals():
            if is_wrong:
                raise SettingError(refusal)

    @property
    def d_model(self) -> int:
        """The width that the noam schedule uses."""
        return self.d_hidden

    @property
    def reads(self) -> tuple[str, ...]:
        """The directions in which the source is read."""
        if self.is_bidirectional:
            return ("forwards", "backwards")
        return ("backwards",) if self.reverses_source else ("forwards",)

    @property
    def d_states(self) -> int:
        """Width of the source's states, all directions side by side."""
        return len(self.reads) * self.d_hidden

    @property
    def d_context(self) -> int:
        """Width of the context."""
        return 0 if self.attends == NO_LOOK else self.d_states

    @property
    def d_readout(self) -> int:
        """Width of the output layer's input."""
        return READOUTS[self.readout].width_of(self.d_hidden)

    @property
    def waits(self) -> bool:
        """Whether a step of the decoder needs results of the step before it."""
        return self.attends == "previous" or self.feeds_input or self.has_coverage

    @property
    def draws(self) -> HardSpec | None:
        """How its draws learn; None if its attention draws nothing."""
        return draws_of(self.hard, (self.select,))

    @property
    def dims(self) -> Dims:
        """The sizes for score and selection."""
        return Dims(
            d_model=self.d_hidden,
            d_query=self.d_hidden,
            d_key=self.d_states + self.has_coverage,
            d_value=self.d_states,
            max_len=self.max_len,
        )

    def _refusals(self) -> list[tuple[bool, str]]:
        """Every combination that cannot work, with its remedy."""
        looks, both = self.attends != NO_LOOK, self.is_bidirectional
        reading = [name for name, score in SCORES.items() if issubclass(score, CoverageScore)]
        is_default = (
            self.score.name == LUONG_SCORE.name and self.select.name == GLOBAL_SELECTION.name
        )
        return [
            (
                both and (self.reverses_source or self.bridge == "copy"),
                "model.is_bidirectional = true needs reverses_source = false, since both ways are "
                "read already, and bridge = 'projected' or 'backward', since a copy of two "
                "directions is no one state; got reverses_source = "
                f"{str(self.reverses_source).lower()} and bridge = '{self.bridge}'. Set all three.",
            ),
            (
                self.bridge == "backward" and "backwards" not in self.reads,
                "model.bridge = 'backward' needs an encoder that reads backwards. Set "
                "is_bidirectional or reverses_source, or take bridge = 'copy' or 'projected'.",
            ),
            (
                looks and both and SCORES[self.score.name].needs_one_width,
                f"model.score = '{self.score.name}' needs queries and keys of one width, but a "
                f"bidirectional encoder's states are {self.d_states} wide and the decoder's "
                f"{self.d_hidden}. Take {', '.join(reading)}.",
            ),
            (
                self.has_coverage and looks and self.score.name not in reading,
                f"model.has_coverage: '{self.score.name}' cannot read what a source word has "
                f"received. Take {', '.join(reading)}, or has_coverage = false.",
            ),
            (
                not looks and self.feeds_input,
                "model.feeds_input: with attends = 'none' there is nothing seen to be fed. Set "
                "feeds_input = false.",
            ),
            (
                not looks and self.has_coverage,
                "model.has_coverage: with attends = 'none' nothing is covered. Set has_coverage = "
                "false.",
            ),
            (
                not looks and not is_default,
                f"model.score = '{self.score.name}', model.select = '{self.select.name}': with "
                "attends = 'none' no state looks. Leave score and select out, or take attends = "
                "'current'.",
            ),
            (
                self.attends == "current" and self.readout == "state",
                "model.readout = 'state' would never read what attends = 'current' sees. Take "
                "readout = 'attentional' or 'maxout'.",
            ),
            (
                self.tied != "none" and self.d_readout != self.d_embedding,
                f"model.tied = '{self.tied}': the output layer reads {self.d_readout} numbers, but "
                f"an embedding has {self.d_embedding}. Set d_embedding = {self.d_readout}, or tied "
                "= 'none'.",
            ),
            (
                self.attends_to_end and not looks,
                "model.attends_to_end: with attends = 'none' no state looks. Leave it out.",
            ),
        ]


PAPERS: Mapping[str, Mapping[str, Any]] = {
    "luong": {},
    "bahdanau": {
        "d_embedding": 620, "d_hidden": 1000, "n_layers": 1, "cell": "gru",
        "is_bidirectional": True, "reverses_source": False, "bridge": "backward",
        "attends": "previous", "attends_to_end": True, "score": Choice("additive"),
        "feeds_input": False, "readout": "maxout", "dropout": 0.0, "initialisation": "orthogonal",
    },
    "cs224n": {
        "d_embedding": 256, "d_hidden": 256, "n_layers": 1, "is_bidirectional": True,
        "reverses_source": False, "bridge": "projected", "attends_to_end": True, "dropout": 0.0,
        "readout_dropout": 0.3,
    },
    "sutskever": {"attends": "none", "feeds_input": False, "readout": "state", "dropout": 0.0},
}  # fmt: skip
"""Named models: what `model.size` in a recipe stands for."""
