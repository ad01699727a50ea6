"""A link of a user's own, for tests: its file, and tables that forget it again."""

from contextlib import contextmanager

from regard.attention import link_tables
from regard.attention.given_links import KINDS

SOURCE = '''
import torch
from torch import nn
from regard.parts import Score, SoftSelection


class DistanceScore(nn.Module, Score):
    """e[i,j] = -g |q[i] - k[j]|^2."""

    is_movable = needs_one_width = True

    def __init__(self, dims, *, start: float = 0.5):
        super().__init__()
        self.g = nn.Parameter(torch.full((dims.n_heads, 1, 1), start))

    def forward(self, query, key, places=None):
        return -self.g * (query[..., :, None, :] - key[..., None, :, :]).square().sum(-1)
'''


@contextmanager
def forgetting():
    """The tables as they were, after the block."""
    before = [(kind.table, dict(kind.table), dict(kind.table.origins)) for kind in KINDS.values()]
    link_tables._offered.cache_clear()
    try:
        yield
    finally:
        link_tables._offered.cache_clear()
        for table, rows, origins in before:
            table.clear()
            table.update(rows)
            table.origins = origins
