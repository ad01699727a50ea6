"""A table of positions holds exactly what the waves give."""

import torch

from regard.decoding.cpu.tabled_positions import ROUND, TabledPositions
from regard.dims import Dims
from regard.positions import SinusoidalPositions


def test_a_table_gives_the_same_bits_wherever_it_is_asked():
    waves = SinusoidalPositions(Dims(d_model=10))
    table = TabledPositions(waves)
    for places in ([[3]], [[0, 1, 2]], [[ROUND], [5]], [[-2, 4]], [[]], [[7 * ROUND + 1]]):
        at = torch.tensor(places, dtype=torch.int64)
        assert torch.equal(table(at), waves(at))
