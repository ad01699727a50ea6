"""models of other libraries → our chains, and records of what they looked at.

`attach` lets our chains compute the attention of a transformers model; the outputs stay its own.
`capture` records any model.
"""

from regard.attention.sinks import SinkSelection
from regard.attention.soft_cap import SoftCappedScore
from regard.bridge.attachment import Attachment, ChainOfLayer, attach
from regard.bridge.captures import capture
from regard.bridge.layers import Layer

__all__ = [
    "Attachment",
    "ChainOfLayer",
    "Layer",
    "SinkSelection",
    "SoftCappedScore",
    "attach",
    "capture",
]
