"""hypotheses + references → scores."""

from regard.evaluating.alignment import AlignmentCounts, alignment_error
from regard.evaluating.bleu import bleu, bleu_orders
from regard.evaluating.captions import score_captions
from regard.evaluating.chrf import chrf
from regard.evaluating.cider import cider, cider_d
from regard.evaluating.comparison import Comparison, compare
from regard.evaluating.digits import digit_gold
from regard.evaluating.exact_match import exact_match
from regard.evaluating.heads import Pieces, Row, View, best_head, view_links, view_table
from regard.evaluating.length_ratio import length_ratio
from regard.evaluating.links import Gold, check_links, read_naacl, read_pharaoh, write_pharaoh
from regard.evaluating.perplexity import loss_and_perplexity, perplexity
from regard.evaluating.pointing_game import Pointing, pointing_game
from regard.evaluating.score import Score
from regard.evaluating.significance import Difference, Resampling, compare_pair, score_interval
from regard.evaluating.system_scores import score_all
from regard.evaluating.ter import ter
from regard.evaluating.token_accuracy import token_accuracy

__all__ = [
    "AlignmentCounts",
    "Comparison",
    "Difference",
    "Gold",
    "Pieces",
    "Pointing",
    "Resampling",
    "Row",
    "Score",
    "View",
    "alignment_error",
    "best_head",
    "bleu",
    "bleu_orders",
    "check_links",
    "chrf",
    "cider",
    "cider_d",
    "compare",
    "compare_pair",
    "digit_gold",
    "exact_match",
    "length_ratio",
    "loss_and_perplexity",
    "perplexity",
    "pointing_game",
    "read_naacl",
    "read_pharaoh",
    "score_all",
    "score_captions",
    "score_interval",
    "ter",
    "token_accuracy",
    "view_links",
    "view_table",
    "write_pharaoh",
]
