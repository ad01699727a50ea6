"""model + source → hypotheses: greedy search, beam search and sampling over one stepper protocol.

A search is an object that is called with a model and some sentences; `decode_all` cuts many
sentences into batches for it, and `fast_model` is the door to what makes a model quick. A model is
anything that satisfies `regard.models.Stepper`.
"""

from regard.decoding.batching import Answered, Search, decode_all, decode_each
from regard.decoding.beam import Beam
from regard.decoding.ensembles import Ensemble
from regard.decoding.fast_model import fast_model
from regard.decoding.gpu.recorded_search import Replaying
from regard.decoding.greedy import Greedy, greedy
from regard.decoding.hypotheses import Hypothesis
from regard.decoding.lengths import (
    PENALTIES,
    AveragePenalty,
    LengthPenalty,
    NoPenalty,
    PaperPenalty,
)
from regard.decoding.rules import RULES, Forbidden, NoRepeatedNgrams, RepetitionPenalty, Rule
from regard.decoding.sampling import Sampling
from regard.decoding.sentences import Limits, Sentence

__all__ = [
    "PENALTIES",
    "RULES",
    "Answered",
    "AveragePenalty",
    "Beam",
    "Ensemble",
    "Forbidden",
    "Greedy",
    "Hypothesis",
    "LengthPenalty",
    "Limits",
    "NoPenalty",
    "NoRepeatedNgrams",
    "PaperPenalty",
    "RepetitionPenalty",
    "Replaying",
    "Rule",
    "Sampling",
    "Search",
    "Sentence",
    "decode_all",
    "decode_each",
    "fast_model",
    "greedy",
]
