"""Every link of the tables by its name, small and in float64, with inputs of prime sizes."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention import MEMORIES, PATTERNS, RELATIONS, SCORES, SELECTIONS, Chain, padding
from regard.attention.masks import Padding
from regard.dims import Dims
from regard.places import Places, Tree
from tests.assertions import doubles

TABLES = {
    "score": SCORES,
    "relation": RELATIONS,
    "pattern": PATTERNS,
    "select": SELECTIONS,
    "memory": MEMORIES,
}

SETTINGS = {
    "soft": {"temperature": 0.7},
    "local_monotonic": {"half_width": 2},
    "local_predictive": {"half_width": 2},
    "top_k": {"count": 3},
    "shaw": {"clip": 2},
    "structural": {"clip": 2},
    "bucketed": {"n_buckets": 6, "max_distance": 5},
    "sliding_window": {"size": 3},
    "blocks": {"size": 3},
    "global_tokens": {"first": 1, "last": 2},
    "random_links": {"block": 2, "n_random": 2},
    "big_bird": {"block": 2, "n_random": 1},
    "linformer": {"slots": 5},
    "memory_compressed": {"stride": 3},
}

SAME_WIDTH = {"dot", "scaled_dot"}
"""Scores that need query and key to be equally wide."""


def part_of(name: str) -> str:
    """Which part of a chain a name stands for."""
    return next(part for part, table in TABLES.items() if name in table)


def small_dims(*names: str, n_heads: int = 3, width: int = 5) -> Dims:
    """Widths that differ wherever the named links let them differ."""
    differs = any(name in SCORES and name not in SAME_WIDTH for name in names)
    return Dims(
        d_model=width,
        n_heads=n_heads,
        d_key=width + 6 if differs else width,
        d_value=width + 2,
        max_len=17,
    )


def build(name: str, dims: Dims, **settings: object):
    """The link of this name, in eval mode, with random numbers in every parameter."""
    link = TABLES[part_of(name)][name](dims, **SETTINGS.get(name, {}) | settings)
    if isinstance(link, nn.Module):
        link.double().eval()
        for parameter in link.parameters():
            nn.init.normal_(parameter, std=0.6)
    return link


def chain_of(*names: str, dims: Dims, **settings: object) -> Chain:
    """A chain of the named links, `settings` for the last; every other link is the default."""
    links = {part_of(name): build(name, dims) for name in names[:-1]}
    return Chain(**links, **{part_of(names[-1]): build(names[-1], dims, **settings)}).eval()


class Inputs(NamedTuple):
    """Two sentences, the second one shorter than the batch."""

    query: Tensor
    key: Tensor
    value: Tensor
    lengths: Tensor
    heads: Tensor | None

    @classmethod
    def of(cls, dims: Dims, n_queries: int, n_keys: int, *, shortage: int = 4) -> "Inputs":
        """Random ones; the second sentence lacks `shortage` keys."""
        lengths = torch.tensor([n_keys, n_keys - shortage])
        return cls(
            doubles(2, dims.n_heads, n_queries, dims.query, requires_grad=True),
            doubles(2, dims.n_heads, n_keys, dims.key, requires_grad=True),
            doubles(2, dims.n_heads, n_keys, dims.value, requires_grad=True),
            lengths,
            random_heads(lengths) if n_queries == n_keys else None,
        )

    @property
    def mask(self) -> Padding:
        """The keys that exist."""
        return padding(self.lengths)

    @property
    def exists(self):
        """The same, as an array."""
        return (torch.arange(self.key.shape[-2]) < self.lengths[:, None]).numpy()

    @property
    def places(self) -> Places:
        """Counted from 0, with the sentences' trees where they have them."""
        tree = None if self.heads is None else Tree.from_heads(self.heads)
        return Places.between(self.query.shape[-2], self.key.shape[-2], tree=tree)

    def named(self, chain: Chain) -> dict[str, Tensor]:
        """Everything that gets a gradient, by name."""
        tensors = {"query": self.query, "key": self.key, "value": self.value}
        return tensors | dict(chain.named_parameters())


def random_heads(lengths: Tensor) -> Tensor:
    """A random tree over each sentence; padding hangs from nothing."""
    heads = torch.full((len(lengths), int(lengths.max())), -1)
    for sentence, length in zip(heads, lengths.tolist(), strict=True):
        order = torch.randperm(length)
        for rank in range(1, length):
            sentence[order[rank]] = order[int(torch.randint(rank, ()))]
    return heads
