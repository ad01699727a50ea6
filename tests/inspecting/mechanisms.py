"""A module around one chain of every mechanism, and inputs for it: what capture has to see."""

import torch
from torch import nn

from regard.attention import (
    HEADS,
    MEMORIES,
    PATTERNS,
    RELATIONS,
    SCORES,
    SELECTIONS,
    Chain,
    multi_head,
)
from regard.dims import Dims
from regard.inspecting import capture
from regard.layers import WeightedBranches
from regard.places import Places, Tree
from regard.positions import POSITIONS
from tests.contracts.building import chain_of, random_heads

NAMES = (*SCORES, *RELATIONS, *PATTERNS, *SELECTIONS, *MEMORIES)
WHOLES = (*HEADS, *POSITIONS, "weighted_branches")
"""What stands around a chain; with `NAMES` every mechanism there is."""


class Attending(nn.Module):
    """Somebody's module that holds a chain."""

    def __init__(self, chain):
        super().__init__()
        self.chain = chain

    def forward(self, query, key, value, places):
        return self.chain(query, key, value, places=places).context


class Reading(nn.Module):
    """Somebody's module of a whole: places, heads, and branches where they are asked for."""

    def __init__(self, name, n, path):
        super().__init__()
        dims = Dims(d_model=16, n_heads=4, max_len=n)
        code = POSITIONS[name](dims) if name in POSITIONS else None
        self.rotary, self.code = (code, None) if name == "rotary" else (None, code)
        make = HEADS.get(name, multi_head)
        self.heads = make(dims, chain=Chain(path=path), rotary=self.rotary)
        self.branches = WeightedBranches(dims, attention=self.heads) if name == WHOLES[-1] else None

    def forward(self, x, tree):
        if self.code is not None:
            x = x + self.code(torch.arange(x.shape[1])[None], tree).to(x.dtype)
        return self.heads(x).context if self.branches is None else self.branches(x)


def recorded_whole(name, path, n=300):
    """A record of a whole over n places, its weights, and what its chain gave out."""
    model, seen = Reading(name, n, path).eval(), []
    model.heads.chain.register_forward_hook(lambda _, __, out: seen.append(out.context))
    tree = Tree.from_heads(random_heads(torch.tensor([n])))
    with torch.no_grad(), capture(model) as record:
        model(torch.randn(1, n, 16), tree)
    ((one,),) = (kind.layers for kind in record.attention.values())
    return one, seen[0]


def recorded(name, n=300, width=8, path=None):
    """A record of one mechanism over n places, its weights, and what its chain gave out."""
    dims = Dims(d_model=width, n_heads=2, max_len=n)
    model = Attending(chain_of(name, dims=dims)).float()
    model.chain.path = path
    query, key, value = (torch.randn(1, 2, n, width) for _ in range(3))
    tree = Tree.from_heads(random_heads(torch.tensor([n]))) if name == "structural" else None
    with torch.no_grad(), capture(model) as record:
        context = model(query, key, value, Places.between(n, n, tree=tree))
    return record, record.attention["self"].layers[0], context
