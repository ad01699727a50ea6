"""What a recurrent encoder-decoder is made of, as plain data: the [model] section of a recipe.

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
from regard.choices import Choice, find
from regard.dims import Dims
from regard.errors import SettingError
from regard.layers.recurrent import BRIDGES, READOUTS, RECURRENCES
from regard.models.recurrent.decoders import FEEDING_CELLS
from regard.models.recurrent.initialisation import INITIALISATIONS
from regard.models.ties import check_is_tie, table_apart

KIND = "recurrent"
LARGEST: Mapping[str, int] = {
    "d_embedding": 1 << 16,
    "d_hidden": 1 << 16,
    "n_layers": 1000,
    "max_len": 1 << 24,
}
"""Beyond these a size is a mistake, or a file that means harm."""
NO_LOOK = "none"
LUONG_SCORE, GLOBAL_SELECTION = Choice("general"), Choice("soft")


@dataclass(frozen=True, kw_only=True)
class RecurrentSpec:
    """Sizes and choices; everything has the value of Luong's paper, with a global attention."""

    kind: str = KIND
    """What kind of model this is."""
    task: str = "translation"
    """What the run is for: a name of `regard.tasks.TASKS`."""
    source_type: ClassVar[str] = "texts"
    """What is read."""
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
    """Whether the source is read backwards; its states stand in their order all the same."""
    bridge: str = "copy"
    """How the decoder begins: "copy", "projected" or "backward"."""
    attends: str = "current"
    """Which state looks at the source: "current", "previous", or "none"."""
    attends_to_end: bool = False
    """Whether the source's end token may be looked at."""
    score: Choice = field(default_factory=lambda: LUONG_SCORE)
    """How well a state suits a source word."""
    select: Choice = field(default_factory=lambda: GLOBAL_SELECTION)
    """How scores become weights; "soft" is Luong's global attention."""
    feeds_input: bool = True
    """Whether a step reads the readout of the step before."""
    has_coverage: bool = False
    """Whether scores know the weight that each source word has received."""
    readout: str = "attentional"
    """What the output layer reads: "attentional", "maxout" or "state"."""
    dropout: float = 0.2
    """On what goes into every layer, the fed readout included."""
    readout_dropout: float = 0.0
    """On the readout."""
    tied: str = "none"
    """"none", "output" (target embedding = output layer) or "all" (the source's too)."""
    initialisation: str = "uniform"
    """"uniform" as Luong has it, "orthogonal" as Bahdanau, or "scaled" for narrow models."""
    max_len: int = 512
    """Longest source for parts that are tied to positions."""

    def __post_init__(self) -> None:
        if self.kind != KIND:
            raise SettingError(f"model.kind must be '{KIND}' here, got '{self.kind}'.")
        for name, largest in LARGEST.items():
            if not 1 <= getattr(self, name) <= largest:
                raise SettingError(
                    f"model.{name} must lie between 1 and {largest:,}, got {getattr(self, name)}."
                )
        for name in ("dropout", "readout_dropout"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise SettingError(f"model.{name} must lie in [0, 1), got {getattr(self, name)}.")
        find(self.cell, RECURRENCES, key="model.cell")
        find(self.bridge, BRIDGES, key="model.bridge")
        find(self.attends, {**FEEDING_CELLS, NO_LOOK: None}, key="model.attends")
        find(self.score.name, SCORES, key="model.score")
        find(self.select.name, SELECTIONS, key="model.select")
        find(self.readout, READOUTS, key="model.readout")
        check_is_tie(self.tied)
        find(self.initialisation, INITIALISATIONS, key="model.initialisation")
        for is_wrong, said in self._refusals():
            if is_wrong:
                raise SettingError(said)

    @property
    def d_model(self) -> int:
        """What a learning rate that depends on the model's width takes for it."""
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
        """Width of what a look brings back."""
        return 0 if self.attends == NO_LOOK else self.d_states

    @property
    def d_readout(self) -> int:
        """Width of what the output layer reads."""
        return READOUTS[self.readout].width_of(self.d_hidden)

    @property
    def waits(self) -> bool:
        """Whether a step of the decoder needs what the step before it saw."""
        return self.attends == "previous" or self.feeds_input or self.has_coverage

    @property
    def table_apart(self) -> str | None:
        """What would give source and target a table of embeddings each; None if they have."""
        return table_apart(self.tied)

    @property
    def dims(self) -> Dims:
        """The sizes that score and selection see."""
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
                "attends = 'none' nobody looks. Leave score and select out, or take attends = "
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
                "model.attends_to_end: with attends = 'none' nobody looks. Leave it out.",
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
