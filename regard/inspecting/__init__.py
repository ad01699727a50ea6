"""a mechanism, or a model and a text → what there is to see of it."""

from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.catalogue import CHAINS, KINDS, Mechanism, mechanism, mechanisms
from regard.inspecting.dead_maps import dead_maps
from regard.inspecting.examples import Picture, example
from regard.inspecting.looking import look_at
from regard.inspecting.panels import Link, Panel, View
from regard.inspecting.path_lengths import Meeting, meetings
from regard.inspecting.record import Record
from regard.inspecting.scaling import Saturation, saturation
from regard.inspecting.worked import WORDS, WORDS_ZH, worked

__all__ = [
    "CHAINS",
    "KINDS",
    "WORDS",
    "WORDS_ZH",
    "CaptionRecord",
    "Link",
    "Mechanism",
    "Meeting",
    "Panel",
    "Picture",
    "Record",
    "Saturation",
    "View",
    "dead_maps",
    "example",
    "look_at",
    "mechanism",
    "mechanisms",
    "meetings",
    "saturation",
    "worked",
]
