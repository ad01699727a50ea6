"""regard: every attention of the literature's main line, as a small interchangeable part.

    data         files → examples → batches
    positions    indices → vectors
    attention    query, key, value → context, map
    layers       vectors → vectors
    parts        short imports of all links, heads, positions and layers
    models       tokens → logits
    hardware     where a model computes: device, precision, threads, CUDA graphs
    decoding     model + source → hypotheses
    evaluating   answers + references → scores
    inspecting   model + input → record
    bridge       models of other libraries → our chains, and records of them
    plots        record → figure or page
    recipes      TOML → a checked recipe
    tasks        purpose of a run: translate, continue, caption, fill in, label, embed
    training     recipe + corpus → run directory
    runs         a finished run → answers, scores, records, plans
    interop      models and runtimes of other projects
    serving      runs → HTTP interface and studio page
    bench        speed comparisons with other libraries
    client       asks a server, from any Python
    cli          one file per verb

A package imports only from those above it, and from errors, dims, choices, catalogue, places and
progress. A name below is loaded when it is first used, so that `import regard` takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.attention import Attended as Attended
    from regard.attention import AttentionMap as AttentionMap
    from regard.attention import Chain as Chain
    from regard.attention import MultiheadAttention as MultiheadAttention
    from regard.attention import attend as attend
    from regard.attention import multi_head as multi_head
    from regard.attention.own_parts import import_parts as import_parts
    from regard.bridge import attach as attach
    from regard.bridge import capture as capture
    from regard.client import AsyncClient as AsyncClient
    from regard.client import Client as Client
    from regard.dims import Dims as Dims
    from regard.errors import RegardError as RegardError
    from regard.places import Places as Places
    from regard.places import Tree as Tree
    from regard.runs.new_run import train as train
    from regard.runs.trained import load as load

__version__ = "0.3.0"

_HOMES = {
    "AsyncClient": "regard.client",
    "Attended": "regard.attention",
    "AttentionMap": "regard.attention",
    "Chain": "regard.attention",
    "Client": "regard.client",
    "Dims": "regard.dims",
    "MultiheadAttention": "regard.attention",
    "Places": "regard.places",
    "RegardError": "regard.errors",
    "Tree": "regard.places",
    "attach": "regard.bridge",
    "attend": "regard.attention",
    "capture": "regard.bridge",
    "import_parts": "regard.attention.own_parts",
    "load": "regard.runs.trained",
    "multi_head": "regard.attention",
    "train": "regard.runs.new_run",
}
"""The module that each public name is loaded from."""

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    try:
        return import_module(f"regard.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"regard.{name}":
            raise
        raise AttributeError(f"module 'regard' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
