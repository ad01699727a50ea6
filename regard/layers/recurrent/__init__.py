"""vectors → states, one after another: cells, an encoder, bridges to a decoder, readouts."""

from regard.layers.recurrent.bridges import BRIDGES
from regard.layers.recurrent.cells import (
    RECURRENCES,
    Cells,
    LayerStep,
    RecurrentCells,
    RecurrentLayer,
)
from regard.layers.recurrent.encoder import RecurrentEncoder
from regard.layers.recurrent.readouts import READOUTS, Readout

__all__ = [
    "BRIDGES",
    "READOUTS",
    "RECURRENCES",
    "Cells",
    "LayerStep",
    "Readout",
    "RecurrentCells",
    "RecurrentEncoder",
    "RecurrentLayer",
]
