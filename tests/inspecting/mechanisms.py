"""A module around one chain of every mechanism, and inputs for it: what capture has to see."""

import torch
from torch import nn

from regard.attention import MEMORIES, PATTERNS, RELATIONS, SCORES, SELECTIONS
from regard.dims import Dims
from regard.inspecting import capture
from regard.places import Places, Tree
from tests.contracts.building import chain_of, random_heads

NAMES = (*SCORES, *RELATIONS, *PATTERNS, *SELECTIONS, *MEMORIES)


class Attending(nn.Module):
    """Somebody's module that holds a chain."""

    def __init__(self, chain):
        super().__init__()
        self.chain = chain

    def forward(self, query, key, value, places):
        return self.chain(query, key, value, places=places).context


def recorded(name, n=300, width=8):
    """A record of one mechanism over n places, its weights, and what its chain gave out."""
    dims = Dims(d_model=width, n_heads=2, max_len=n)
    model = Attending(chain_of(name, dims=dims)).float()
    query, key, value = (torch.randn(1, 2, n, width) for _ in range(3))
    tree = Tree.from_heads(random_heads(torch.tensor([n]))) if name == "structural" else None
    with torch.no_grad(), capture(model) as record:
        context = model(query, key, value, Places.between(n, n, tree=tree))
    return record, record.attention["self"].layers[0], context
