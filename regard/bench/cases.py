"""The timed cases: every mechanism at 8 heads of 64, batch 1, float32, and its two peers.

A case is built inside the process that runs it. `dense` is softmax(Q Kᵀ) V written out in torch,
`sdpa` is torch's own fused function; both are measured in the same run as everything else.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from regard.attention import FULL, HEADS, attend
from regard.catalogue import mechanism, mechanisms
from regard.choices import Choice
from regard.dims import Dims
from regard.inspecting import CHAINS, KINDS
from regard.layers import WeightedBranches
from regard.places import Places, Tree
from regard.positions import POSITIONS, RotaryPositions

N_HEADS, D_HEAD = 8, 64

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

LAYERS_TIMED = ("weighted_branches",)
"""The layers that are an attention of their own kind."""


@dataclass(frozen=True)
class Work:
    """Something to time: a function, the tensors it learns, and how to check it first."""

    run: Callable[[], Tensor]
    learns: list[Tensor]
    check: Callable[[], float]
    """The largest difference from the reference computation, at a small length."""


def names() -> list[str]:
    """Every case, the peers first."""
    timed = (m for m in mechanisms() if m.kind != "layer" or m.name in LAYERS_TIMED)
    return [*PEERS, *(m.name for m in timed)]


def build(name: str, n: int) -> Work:
    """Make one case at length n."""
    torch.manual_seed(0)
    if name in PEERS:
        return _peer(name, n)
    kind = mechanism(name).kind
    return _LINKS[kind](name, n) if kind in _LINKS else _link(name, kind, n)


def _peer(name: str, n: int) -> Work:
    query, key, value = _heads(n)
    run = {
        "dense": lambda: (query @ key.mT * D_HEAD**-0.5).softmax(-1) @ value,
        "sdpa": lambda: scaled_dot_product_attention(query, key, value),
    }[name]
    return Work(run, [query, key, value], lambda: 0.0)


def _link(name: str, kind: str, n: int) -> Work:
    """A chain with this link and the default links for the rest."""
    query, key, value = _heads(n)
    chain = CHAINS[kind](Choice(name, SETTINGS.get(name, {})).build(KINDS[kind], _dims(n).head()))
    places = _places(n)

    @torch.no_grad()
    def difference() -> float:
        short = min(n, 128)
        q, k, v = (x[:, :, :short] for x in (query, key, value))
        few = _places(short)
        # a draw cannot be compared, so a hard selection is checked at its best key
        chain.eval()
        # the path that is timed, which shorter rows may not take by themselves
        chain.path = chain.explain(n, n_heads=N_HEADS, d_query=D_HEAD).path
        fast = chain(q, k, v, places=few)
        chain.path = None
        if chain.memory is not None:
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

    learns = [query, key, value, *chain.parameters()]
    return Work(lambda: chain(query, key, value, places=places).context, learns, difference)


def _of_heads(name: str, n: int) -> Work:
    x = torch.randn(1, n, N_HEADS * D_HEAD, requires_grad=True)
    heads = HEADS[name](_dims(n), **SETTINGS.get(name, {}))
    return _module(lambda: heads(x).context, x, heads)


def _of_positions(name: str, n: int) -> Work:
    """Positions are timed with the fused attention that they are for."""
    part, places = POSITIONS[name](_dims(n)), _places(n)
    x = torch.randn(1, n, N_HEADS * D_HEAD, requires_grad=True)
    at = torch.arange(n)[None]

    def attended() -> Tensor:
        if isinstance(part, RotaryPositions):
            heads = x.unflatten(-1, (N_HEADS, D_HEAD)).transpose(1, 2)
            turned = part(heads, at[0])
            return scaled_dot_product_attention(turned, turned, heads)
        y = x + part(at, places.tree).float()
        heads = y.unflatten(-1, (N_HEADS, D_HEAD)).transpose(1, 2)
        return scaled_dot_product_attention(heads, heads, heads)

    return _module(attended, x, part)


def _of_layer(name: str, n: int) -> Work:
    x = torch.randn(1, n, N_HEADS * D_HEAD, requires_grad=True)
    layer = WeightedBranches(_dims(n), attention=HEADS["multi_head"](_dims(n)))
    return _module(lambda: layer(x), x, layer)


def _module(run: Callable[[], Tensor], x: Tensor, part: nn.Module) -> Work:
    return Work(run, [x, *part.parameters()], lambda: 0.0)


_LINKS: Mapping[str, Callable[[str, int], Work]] = {
    "heads": _of_heads,
    "positions": _of_positions,
    "layer": _of_layer,
}


def _dims(n: int) -> Dims:
    return Dims(d_model=N_HEADS * D_HEAD, n_heads=N_HEADS, max_len=n)


def _heads(n: int) -> tuple[Tensor, Tensor, Tensor]:
    a, b, c = (torch.randn(1, N_HEADS, n, D_HEAD, requires_grad=True) for _ in range(3))
    return a, b, c


def _places(n: int) -> Places:
    """A tree in which every word hangs from the middle of the words before it."""
    return Places.between(n, n, tree=Tree(*_balanced(n)))


def _balanced(n: int) -> tuple[Tensor, Tensor]:
    index = torch.arange(n)[None]
    parent = torch.where(index == 0, -1, (index - 1) // 2)
    depth = (index + 1).float().log2().floor().long()
    return depth, parent
