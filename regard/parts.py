"""Every part by one short import: links, heads, positions and layers.

    from regard.parts import AdditiveScore, ShawRelation, SlidingWindowPattern, all_of

`Score`, `Relation`, `Pattern`, `Selection` and `Memory` are what a link of your own inherits. A
part is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from regard.catalogue import mechanisms
from regard.choices import unknown

if TYPE_CHECKING:
    from regard.attention.heads.grouped_query import GroupedQueryHeads as GroupedQueryHeads
    from regard.attention.heads.multi_head import multi_head as multi_head
    from regard.attention.links import Memory as Memory
    from regard.attention.links import Pattern as Pattern
    from regard.attention.links import Relation as Relation
    from regard.attention.links import Score as Score
    from regard.attention.links import Selection as Selection
    from regard.attention.masks import all_of as all_of
    from regard.attention.masks import any_of as any_of
    from regard.attention.masks import given as given
    from regard.attention.masks import padding as padding
    from regard.attention.memories.linformer import LinformerMemory as LinformerMemory
    from regard.attention.memories.memory_compressed import (
        MemoryCompressedMemory as MemoryCompressedMemory,
    )
    from regard.attention.patterns.big_bird import BigBirdPattern as BigBirdPattern
    from regard.attention.patterns.blocks import BlocksPattern as BlocksPattern
    from regard.attention.patterns.causal import CausalPattern as CausalPattern
    from regard.attention.patterns.full import FullPattern as FullPattern
    from regard.attention.patterns.global_tokens import GlobalTokensPattern as GlobalTokensPattern
    from regard.attention.patterns.random_links import RandomLinksPattern as RandomLinksPattern
    from regard.attention.patterns.sliding_window import (
        SlidingWindowPattern as SlidingWindowPattern,
    )
    from regard.attention.relations.bucketed import BucketedRelation as BucketedRelation
    from regard.attention.relations.linear_bias import LinearBiasRelation as LinearBiasRelation
    from regard.attention.relations.shaw import ShawRelation as ShawRelation
    from regard.attention.relations.structural import StructuralRelation as StructuralRelation
    from regard.attention.scores.additive import AdditiveScore as AdditiveScore
    from regard.attention.scores.concat import ConcatScore as ConcatScore
    from regard.attention.scores.dot import DotScore as DotScore
    from regard.attention.scores.general import GeneralScore as GeneralScore
    from regard.attention.scores.location import LocationScore as LocationScore
    from regard.attention.scores.scaled_dot import ScaledDotScore as ScaledDotScore
    from regard.attention.selections.hard import HardSelection as HardSelection
    from regard.attention.selections.local_monotonic import (
        LocalMonotonicSelection as LocalMonotonicSelection,
    )
    from regard.attention.selections.local_predictive import (
        LocalPredictiveSelection as LocalPredictiveSelection,
    )
    from regard.attention.selections.soft import SoftSelection as SoftSelection
    from regard.attention.selections.sparsemax import SparsemaxSelection as SparsemaxSelection
    from regard.attention.selections.top_k import TopKSelection as TopKSelection
    from regard.layers.convolution import GatedConvolution as GatedConvolution
    from regard.layers.decoder_layer import DecoderLayer as DecoderLayer
    from regard.layers.encoder_layer import EncoderLayer as EncoderLayer
    from regard.layers.feed_forward import FeedForward as FeedForward
    from regard.layers.gated_feed_forward import GatedFeedForward as GatedFeedForward
    from regard.layers.mixtures.experts import Experts as Experts
    from regard.layers.norm import Norm as Norm
    from regard.layers.residual import Residual as Residual
    from regard.layers.weighted_branches import WeightedBranches as WeightedBranches
    from regard.positions.learned import LearnedPositions as LearnedPositions
    from regard.positions.rotary import RotaryPositions as RotaryPositions
    from regard.positions.sinusoidal import SinusoidalPositions as SinusoidalPositions
    from regard.positions.tree_depth import TreeDepthPositions as TreeDepthPositions

_OTHERS = {
    **dict.fromkeys(
        ("Memory", "Pattern", "Relation", "Score", "Selection"), "regard.attention.links"
    ),
    **dict.fromkeys(("all_of", "any_of", "given", "padding"), "regard.attention.masks"),
}
"""The modules of what a part is made of, or joined with."""


def _homes() -> dict[str, str]:
    """The module that each part is loaded from."""
    return {**{entry.part: entry.module for entry in mechanisms()}, **_OTHERS}


def __getattr__(name: str) -> Any:
    homes = _homes()
    if name == "__all__":
        return sorted(homes)
    if name in homes:
        return getattr(import_module(homes[name]), name)
    hint = unknown(name, homes).partition(" Known:")[0]
    raise AttributeError(f"module 'regard.parts': {hint} dir(regard.parts) lists all.")


def __dir__() -> list[str]:
    return sorted(_homes())
