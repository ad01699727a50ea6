"""hypotheses + references → scores.

metrics                               which metrics score translations, and which score captions
sacrebleu_metrics, cider, rouge       texts + references → one score with its signature
accuracy, perplexity, pointing_game   answers, losses or maps → one score
score, tokenizers                     what a score is; how texts are cut into words
comparison, significance              several systems: differences, their p-values, and where
alignment, attention_links                      word links and their error rate; which head aligns
"""

from regard.evaluating.accuracy import exact_match
from regard.evaluating.alignment import (
    AlignmentCounts,
    Gold,
    alignment_error,
    check_links,
    read_naacl,
    read_pharaoh,
    write_pharaoh,
)
from regard.evaluating.attention_links import (
    DecoderRow,
    HeadView,
    PieceWords,
    best_head,
    view_table,
)
from regard.evaluating.comparison import compare
from regard.evaluating.metrics import score_all, score_captions
from regard.evaluating.perplexity import loss_and_perplexity
from regard.evaluating.sacrebleu_metrics import bleu, chrf, length_ratio, ter
from regard.evaluating.score import MetricScore
from regard.evaluating.significance import Resampling, compare_pair, score_interval

__all__ = [
    "AlignmentCounts",
    "DecoderRow",
    "Gold",
    "HeadView",
    "MetricScore",
    "PieceWords",
    "Resampling",
    "alignment_error",
    "best_head",
    "bleu",
    "check_links",
    "chrf",
    "compare",
    "compare_pair",
    "exact_match",
    "length_ratio",
    "loss_and_perplexity",
    "read_naacl",
    "read_pharaoh",
    "score_all",
    "score_captions",
    "score_interval",
    "ter",
    "view_table",
    "write_pharaoh",
]
