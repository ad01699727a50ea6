"""model + source → hypotheses: greedy search, beam search and sampling over one stepper protocol.

A search is an object that is called with a model and some sentences; `decode_each` cuts many
sentences into batches for it, and `fast_model` and `recorded` give the fastest form of a model. A
model is anything that satisfies `regard.models.Stepper`.
"""

from regard.decoding.batching import Search, decode_each
from regard.decoding.beam import Beam
from regard.decoding.ensembles import Ensemble
from regard.decoding.fast_model import fast_model
from regard.decoding.gpu.recordings import RecordedModel, recorded
from regard.decoding.greedy import Greedy, greedy
from regard.decoding.length_penalties import AveragePenalty, GnmtPenalty, LengthPenalty, NoPenalty
from regard.decoding.rules import Forbidden, NoRepeatedNgrams, RepetitionPenalty, Rule
from regard.decoding.sampling import Sampling
from regard.decoding.search_engine import Decodable, SearchEngine
from regard.decoding.sentences import Follower, Limits, Sentence
from regard.decoding.trellis import Hypothesis

__all__ = [
    "AveragePenalty",
    "Beam",
    "Decodable",
    "Ensemble",
    "Follower",
    "Forbidden",
    "GnmtPenalty",
    "Greedy",
    "Hypothesis",
    "LengthPenalty",
    "Limits",
    "NoPenalty",
    "NoRepeatedNgrams",
    "RecordedModel",
    "RepetitionPenalty",
    "Rule",
    "Sampling",
    "Search",
    "SearchEngine",
    "Sentence",
    "decode_each",
    "fast_model",
    "greedy",
    "recorded",
]
