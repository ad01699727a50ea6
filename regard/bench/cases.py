"""The timed cases: every mechanism over heads of 64, and its peers.

A case is built inside the process that runs it. `dense` is softmax(Q Kᵀ) V written out in torch,
`sdpa` is torch's own fused function; both are measured in the same run as everything else. On a
GPU a pattern or a relation that compiled `flex_attention` can express has that as a third peer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from regard.attention import FULL, HEADS, Chain, attend
from regard.bench.flex_peer import flex_peer
from regard.catalogue import mechanism, mechanisms
from regard.choices import Choice
from regard.dims import Dims
from regard.inspecting import CHAINS, KINDS
from regard.layers import WeightedBranches
from regard.places import Places, Tree
from regard.positions import POSITIONS, RotaryPositions

D_HEAD = 64

SETTINGS: Mapping[str, dict[str, object]] = {
    "sliding_window": {"size": 256},
    "blocks": {"size": 256},
    "global_tokens": {"first": 64, "last": 64},
    "random_links": {"block": 64, "n_random": 3},
    "big_bird": {"block": 64, "n_random": 3},
    "grouped_query": {"n_groups": 2},
}
"""Settings that differ from a mechanism's own defaults."""

PEERS = ("dense", "sdpa")

FLEX_KINDS = ("pattern", "relation")
"""The links that `flex_attention` is a peer of; it takes seconds to compile for each, and the rest
of a chain leaves it plain attention."""

LAYERS_TIMED = ("weighted_branches",)
"""The layers that are an attention of their own kind."""


@dataclass(frozen=True)
class Scale:
    """Where cases run, in which precision, over how many heads and tokens."""

    device: torch.device
    dtype: torch.dtype
    n_heads: int
    n_tokens: int
    """Tokens of a batch; a longer sequence is a batch of its own."""
    tolerance: float
    """The largest difference from the law."""

    @property
    def described(self) -> str:
        """The scale in words."""
        batch = "batch 1" if self.n_tokens == 1 else f"batches of {self.n_tokens:,} tokens"
        return f"{batch}, {self.n_heads} heads of {D_HEAD}, {str(self.dtype)[6:]}"

    def dims(self, n: int) -> Dims:
        """The sizes of a layer with these heads."""
        return Dims(d_model=self.n_heads * D_HEAD, n_heads=self.n_heads, max_len=n)

    def heads(self, n: int) -> tuple[Tensor, Tensor, Tensor]:
        """Random queries, keys and values."""
        a, b, c = (self._drawn((self.n_heads, n, D_HEAD), n) for _ in range(3))
        return a, b, c

    def vectors(self, n: int) -> Tensor:
        """Random inputs of a layer."""
        return self._drawn((n, self.n_heads * D_HEAD), n)

    def _drawn(self, shape: tuple[int, ...], n: int) -> Tensor:
        batch = max(1, self.n_tokens // n)
        numbers = torch.randn(batch, *shape, device=self.device, dtype=self.dtype)
        return numbers.requires_grad_()

    def put(self, part: nn.Module) -> nn.Module:
        """A module in its place and precision."""
        return part.to(self.device, self.dtype)


SCALES: Mapping[str, Scale] = {
    "cpu": Scale(torch.device("cpu"), torch.float32, 8, 1, 1e-4),
    "cuda": Scale(torch.device("cuda"), torch.bfloat16, 16, 32_768, 5e-2),
}


@dataclass(frozen=True)
class Work:
    """Something to time: a function, the tensors it learns, and how to check it first."""

    run: Callable[[], Tensor]
    learns: list[Tensor]
    check: Callable[[], float]
    """The largest difference from the reference computation, at a small length."""
    flex: Callable[[], Tensor] | None = None
    """The same by torch's compiled `flex_attention`, on a GPU and where that can express it."""


def names() -> list[str]:
    """Every case, the peers first."""
    timed = (m for m in mechanisms() if m.kind != "layer" or m.name in LAYERS_TIMED)
    return [*PEERS, *(m.name for m in timed)]


def build(name: str, n: int, scale: Scale) -> Work:
    """Make one case at length n."""
    torch.manual_seed(0)
    if name in PEERS:
        return _peer(name, n, scale)
    kind = mechanism(name).kind
    return _LINKS[kind](name, n, scale) if kind in _LINKS else _link(name, kind, n, scale)


def _peer(name: str, n: int, scale: Scale) -> Work:
    query, key, value = scale.heads(n)
    run = {
        "dense": lambda: (query @ key.mT * D_HEAD**-0.5).softmax(-1) @ value,
        "sdpa": lambda: scaled_dot_product_attention(query, key, value),
    }[name]
    return Work(run, [query, key, value], lambda: 0.0)


def _link(name: str, kind: str, n: int, scale: Scale) -> Work:
    """A chain with this link and the default links for the rest."""
    query, key, value = scale.heads(n)
    link = Choice(name, SETTINGS.get(name, {})).build(KINDS[kind], scale.dims(n).head())
    chain = CHAINS[kind](link)
    scale.put(chain)
    places = _places(n, scale)
    is_peer = scale.device.type == "cuda" and kind in FLEX_KINDS
    flex = flex_peer(chain, query, key, value) if is_peer else None
    return Work(
        lambda: chain(query, key, value, places=places).context,
        [query, key, value, *chain.parameters()],
        lambda: _difference(chain, query, key, value, scale),
        flex,
    )


@torch.no_grad()
def _difference(chain: Chain, query: Tensor, key: Tensor, value: Tensor, scale: Scale) -> float:
    """How far the timed path is from the law, over a short part of the tensors."""
    n = query.shape[-2]
    short = min(n, 128)
    q, k, v = (x[:1, :, :short] for x in (query, key, value))
    few = _places(short, scale)
    # a draw cannot be compared, so a hard selection is checked at its best key
    chain.eval()
    # the path that is timed, which shorter rows may not take by themselves
    chain.path = chain.explain(n, n_heads=scale.n_heads, d_query=D_HEAD).path
    fast = chain(q, k, v, places=few)
    chain.path = None
    if chain.memory is not None:
        chain.train()
        slots = chain.memory.shorten(k, v, FULL, few)
        return float((fast.context - fast.map.dense() @ slots.value).abs().max())
    law = attend(
        q,
        k,
        v,
        chain.pattern,
        score=chain.score,
        relation=chain.relation,
        select=chain.select,
        places=few,
    )
    chain.train()
    return float((fast.context - law.context).abs().max())


def _of_heads(name: str, n: int, scale: Scale) -> Work:
    x = scale.vectors(n)
    heads = scale.put(HEADS[name](scale.dims(n), **SETTINGS.get(name, {})))
    return _module(lambda: heads(x).context, x, heads)


def _of_positions(name: str, n: int, scale: Scale) -> Work:
    """Positions are timed with the fused attention that they are for."""
    part, places = scale.put(POSITIONS[name](scale.dims(n))), _places(n, scale)
    x, at = scale.vectors(n), torch.arange(n, device=scale.device)[None]

    def split(vectors: Tensor) -> Tensor:
        return vectors.unflatten(-1, (scale.n_heads, D_HEAD)).transpose(1, 2)

    def attended() -> Tensor:
        if isinstance(part, RotaryPositions):
            turned = part(split(x), at[0])
            return scaled_dot_product_attention(turned, turned, split(x))
        heads = split(x + part(at, places.tree).to(x.dtype))
        return scaled_dot_product_attention(heads, heads, heads)

    return _module(attended, x, part)


def _of_layer(name: str, n: int, scale: Scale) -> Work:
    x, dims = scale.vectors(n), scale.dims(n)
    layer = scale.put(WeightedBranches(dims, attention=HEADS["multi_head"](dims)))
    return _module(lambda: layer(x), x, layer)


def _module(run: Callable[[], Tensor], x: Tensor, part: nn.Module) -> Work:
    return Work(run, [x, *part.parameters()], lambda: 0.0)


_LINKS: Mapping[str, Callable[[str, int, Scale], Work]] = {
    "heads": _of_heads,
    "positions": _of_positions,
    "layer": _of_layer,
}


def _places(n: int, scale: Scale) -> Places:
    """A tree in which every word hangs from the middle of the words before it."""
    tree = Tree(*(x.to(scale.device) for x in _balanced(n)))
    return Places.between(n, n, device=scale.device, tree=tree)


def _balanced(n: int) -> tuple[Tensor, Tensor]:
    index = torch.arange(n)[None]
    parent = torch.where(index == 0, -1, (index - 1) // 2)
    depth = (index + 1).float().log2().floor().long()
    return depth, parent
