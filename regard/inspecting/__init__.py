"""a mechanism, or a model and a text → what there is to see of it."""

from regard.inspecting.caption_files import load_caption, save_caption
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.dead_maps import dead_maps
from regard.inspecting.examples import CHAINS, KINDS, Picture, example
from regard.inspecting.panels import Link, Panel, View
from regard.inspecting.path_lengths import Meeting, meetings
from regard.inspecting.record import Record
from regard.inspecting.record_files import load_record, save_record
from regard.inspecting.recorder import capture
from regard.inspecting.rollout import Shares, answer_rollout, flow, rollout
from regard.inspecting.scales import SCALES, scaled
from regard.inspecting.score_scaling import Saturation, saturation
from regard.inspecting.statistics import HeadStatistics, head_statistics
from regard.inspecting.survey import Survey, survey
from regard.inspecting.text_record import look_at
from regard.inspecting.tiles import Pyramid, Tile
from regard.inspecting.worked_example import WORDS, WORDS_ZH, worked

__all__ = [
    "CHAINS",
    "KINDS",
    "SCALES",
    "WORDS",
    "WORDS_ZH",
    "CaptionRecord",
    "HeadStatistics",
    "Link",
    "Meeting",
    "Panel",
    "Picture",
    "Pyramid",
    "Record",
    "Saturation",
    "Shares",
    "Survey",
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
    "scaled",
    "survey",
    "worked",
]
