"""vectors → states, one after another: cells, an encoder, bridges to a decoder, readouts."""

from regard.layers.recurrent.bridges import BRIDGES
from regard.layers.recurrent.cells import (
    RECURRENCES,
    Cells,
    LayerState,
    LayerStep,
    Recurrence,
    RecurrentCells,
    RecurrentLayer,
)
from regard.layers.recurrent.encoder import DIRECTIONS, Encoded, RecurrentEncoder
from regard.layers.recurrent.readouts import READOUTS, Readout

__all__ = [
    "BRIDGES",
    "DIRECTIONS",
    "READOUTS",
    "RECURRENCES",
    "Cells",
    "Encoded",
    "LayerState",
    "LayerStep",
    "Readout",
    "Recurrence",
    "RecurrentCells",
    "RecurrentEncoder",
    "RecurrentLayer",
]
