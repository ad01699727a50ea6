"""regard: every attention of the literature's main line, as a small interchangeable part.

    data         files → examples → batches
    positions    indices → vectors
    attention    query, key, value → context, map
    layers       vectors → vectors
    models       tokens → logits
    decoding     model + source → hypotheses
    evaluating   hypotheses + references → scores
    inspecting   a mechanism, or a model and a text → what there is to see of it
    plots        numbers → picture
    training     batches + model → run directory
    cli          one file per verb

A package imports only from those above it, and from errors, dims, choices and places.
"""

from regard.attention import Attended, AttentionMap, Chain, attend, multi_head
from regard.dims import Dims
from regard.errors import RegardError
from regard.places import Places, Tree
from regard.training.trained import load

__version__ = "0.2.0"

__all__ = [
    "Attended",
    "AttentionMap",
    "Chain",
    "Dims",
    "Places",
    "RegardError",
    "Tree",
    "attend",
    "load",
    "multi_head",
]
