"""a mechanism, or a model and a text → records of attention, and numbers from them."""

from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.capture import capture, look_at
from regard.inspecting.dead_maps import dead_maps
from regard.inspecting.lessons import (
    WORDS,
    WORDS_ZH,
    Meeting,
    Saturation,
    meetings,
    saturation,
    worked,
)
from regard.inspecting.map_summary import MapSummary, summarise_map
from regard.inspecting.mechanism_pictures import CHAINS, KINDS, MechanismPicture, example
from regard.inspecting.panels import Link, Panel, View
from regard.inspecting.record import Record
from regard.inspecting.record_files import load_caption, load_record, save_caption, save_record
from regard.inspecting.rollout import Shares, answer_rollout, flow, rollout
from regard.inspecting.statistics import HeadStatistics, head_statistics
from regard.inspecting.tiles import Pyramid, Tile

__all__ = [
    "CHAINS",
    "KINDS",
    "WORDS",
    "WORDS_ZH",
    "CaptionRecord",
    "HeadStatistics",
    "Link",
    "MapSummary",
    "MechanismPicture",
    "Meeting",
    "Panel",
    "Pyramid",
    "Record",
    "Saturation",
    "Shares",
    "Tile",
    "View",
    "answer_rollout",
    "capture",
    "dead_maps",
    "example",
    "flow",
    "head_statistics",
    "load_caption",
    "load_record",
    "look_at",
    "meetings",
    "rollout",
    "saturation",
    "save_caption",
    "save_record",
    "summarise_map",
    "worked",
]
