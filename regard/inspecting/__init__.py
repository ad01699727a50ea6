"""a mechanism → what there is to see of it: its entry, its numbers, its picture."""

from regard.inspecting.catalogue import CHAINS, KINDS, Mechanism, mechanism, mechanisms
from regard.inspecting.examples import Picture, example
from regard.inspecting.path_lengths import Meeting, meetings
from regard.inspecting.scaling import Saturation, saturation
from regard.inspecting.worked import WORDS, WORDS_ZH, worked

__all__ = [
    "CHAINS",
    "KINDS",
    "WORDS",
    "WORDS_ZH",
    "Mechanism",
    "Meeting",
    "Picture",
    "Saturation",
    "example",
    "mechanism",
    "mechanisms",
    "meetings",
    "saturation",
    "worked",
]
