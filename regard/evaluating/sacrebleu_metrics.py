"""BLEU, chrF2, TER and length ratio, computed by sacreBLEU under signatures that others can quote.

    BLEU-N = BP · exp(1/N Σₙ ln pₙ),   n = 1 … N,   BP = min(1, exp(1 − r / c))

with pₙ the clipped precision of sequences of n words, c the hypotheses' length and r the length of
the closest references. BLEU without a number is BLEU-4; captions are scored by all four.

    chrF_β = (1 + β²) · P · R / (β² P + R),   β = 2

with P and R the mean precision and recall of sequences of one to six characters, spaces left out.
No tokeniser is involved, so it needs no choice for Chinese or Japanese.

    TER = 100 · (insertions + deletions + substitutions + shifts of phrases) / reference words

Lower is better. Texts are lower-cased, as in Tercom. Chinese is edited by characters, Japanese by
Chinese characters and runs of kana. The length ratio is c / r.

Resampling needs the counts of each sentence. sacreBLEU keeps them behind an underscore, where its
own paired tests read them; a test holds them against its public `corpus_score`.

Paper: Papineni et al. 2002 (BLEU); Popović 2015, 2016 (chrF); Snover et al. 2006 (TER); Post 2018
(signatures).
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from regard.errors import MissingExtra
from regard.evaluating.score import (
    MeasuredScore,
    MetricScore,
    Statistics,
    TextLists,
    Texts,
    check_texts,
)
from regard.evaluating.tokenizers import Tokenizer, bare_words, chosen_tokenizer, tokenizer_for

MIN_TOKENISED_LINES = 100
"""From so many lines that end in a separate full stop, texts count as tokenised."""
LENGTHS = ("nrefs:", "tok:", "version:")
"""The parts of BLEU's signature on which lengths depend."""


def bleu(hypotheses: Texts, references: TextLists, *, tokenizer: str | None = None) -> MetricScore:
    """Corpus BLEU, cased, on detokenised text.

    `tokenizer` is sacreBLEU's name of one ("13a", "zh", "ja-mecab", "char", …); by default the one
    that the references' script needs.

    >>> round(bleu(["a cat sat on the mat"], [["a cat sat on a mat"]]).value, 2)
    53.73
    """
    return measured_bleu(hypotheses, references, tokenizer=tokenizer).score


def measured_bleu(
    hypotheses: Texts, references: TextLists, *, tokenizer: str | None = None
) -> MeasuredScore:
    """BLEU with what each sentence adds to it."""
    check_texts("bleu", hypotheses, references)
    chosen = chosen_tokenizer(tokenizer, references)
    n_tokenised = sum(text.endswith(" .") for text in hypotheses)
    notes = [chosen.note] if chosen.note else []
    if n_tokenised >= MIN_TOKENISED_LINES:
        notes.append(f"{n_tokenised} hypotheses end in a lone full stop: score detokenised text")
    return _measured("BLEU", _bleu(chosen), hypotheses, references, "; ".join(notes))


def measured_bleu_orders(
    hypotheses: Texts, references: TextLists, *, tokenizer: str | None = None
) -> tuple[MeasuredScore, ...]:
    """BLEU-1 to BLEU-4 of captions; a note gives them without the brevity penalty.

    >>> orders = measured_bleu_orders(["a dog runs on grass"], [["A dog runs."]])
    >>> [round(one.score.value, 1) for one in orders]
    [60.0, 54.8, 46.4, 39.8]
    """
    check_texts("bleu_orders", hypotheses, references)
    chosen = chosen_tokenizer(tokenizer, references)
    found = (
        _measured(f"BLEU-{n}", _bare_bleu(chosen, n), hypotheses, references, chosen.note)
        for n in (1, 2, 3, 4)
    )
    return tuple(map(_with_brevity, found))


def length_ratio(
    hypotheses: Texts, references: TextLists, *, tokenizer: str | None = None
) -> MetricScore:
    """Below 1 answers are too short; of several references the closest length counts."""
    return ratio_of(measured_bleu(hypotheses, references, tokenizer=tokenizer))


def ratio_of(measured: MeasuredScore) -> MetricScore:
    """The length ratio of texts whose BLEU was measured already."""
    said, wanted = measured.rows.sum(axis=0)[:2].tolist()
    kept = [part for part in measured.score.signature.split("|") if part.startswith(LENGTHS)]
    return MetricScore("length ratio", said / wanted if wanted else math.inf, "|".join(kept))


def chrf(hypotheses: Texts, references: TextLists) -> MetricScore:
    """Corpus chrF2; of several references, the best-matching one counts for each sentence."""
    return measured_chrf(hypotheses, references).score


def measured_chrf(
    hypotheses: Texts, references: TextLists, *, is_cased: bool = True
) -> MeasuredScore:
    """chrF2 with what each sentence adds to it."""
    check_texts("chrf", hypotheses, references)
    return _measured("chrF2", CHRF(lowercase=not is_cased), hypotheses, references)


def ter(hypotheses: Texts, references: TextLists) -> MetricScore:
    """Corpus TER; of several references, the one with the fewest edits counts for each sentence."""
    return measured_ter(hypotheses, references).score


def measured_ter(hypotheses: Texts, references: TextLists) -> MeasuredScore:
    """TER with what each sentence adds to it."""
    check_texts("ter", hypotheses, references)
    has_spaces = tokenizer_for(references).name == "13a"
    # Tercom splits Asian characters only where it also normalises
    metric = TER(normalized=not has_spaces, asian_support=not has_spaces)
    return replace(_measured("TER", metric, hypotheses, references), is_higher_better=False)


def words(texts: Texts, tokenizer: str, *, is_bare: bool = False) -> list[list[str]]:
    """The words of each text as BLEU counts them; bare words are those of captions.

    >>> words(["A man, a plan."], "13a")
    [['A', 'man', ',', 'a', 'plan', '.']]
    """
    made = _bare_bleu if is_bare else _bleu
    split = made(Tokenizer(tokenizer)).tokenizer
    return [split(text.rstrip()).split() for text in texts]


def _bleu(tokenizer: Tokenizer, order: int = 4, *, is_cased: bool = True) -> BLEU:
    try:
        return BLEU(
            lowercase=not is_cased, tokenize=tokenizer.name, force=True, max_ngram_order=order
        )
    except RuntimeError as missing:
        raise MissingExtra(
            f"bleu: the tokeniser {tokenizer.name!r} needs MeCab, which is not installed. Run "
            "pip install 'sacrebleu[ja]', or choose 'char'."
        ) from missing


def _bare_bleu(tokenizer: Tokenizer, order: int = 4) -> BLEU:
    """BLEU of captions."""
    metric = _bleu(tokenizer, order, is_cased=False)
    split = metric.tokenizer
    metric.tokenizer = lambda text: " ".join(bare_words(text, split))
    metric.tokenizer_signature += "-nopunct"
    return metric


def _with_brevity(measured: MeasuredScore) -> MeasuredScore:
    """The score with a note where captions are short: papers leave the brevity penalty out."""
    spoken, wanted = measured.rows.sum(axis=0)[:2]
    penalty, score = math.exp(1 - wanted / spoken) if spoken else 0.0, measured.score
    # a penalty of 0 leaves no score to divide
    if not 0 < penalty < 1:
        return measured
    told = f"{score.value / penalty:.2f} without the brevity penalty of {penalty:.3f}"
    noted = replace(score, note="; ".join(filter(None, (score.note, told))))
    return replace(measured, score=noted)


def _measured(
    name: str, metric: Metric, hypotheses: Texts, references: TextLists, note: str = ""
) -> MeasuredScore:
    """One of sacreBLEU's metrics under our name for it."""
    rows = np.array(
        metric._extract_corpus_statistics(hypotheses, _streams(references)), dtype=np.float64
    )
    value = partial(_value, metric)
    total = value(rows.sum(axis=0))
    score = MetricScore(name, total, str(metric.get_signature()), note)
    return MeasuredScore(score, rows, value)


def _value(metric: Metric, total: Statistics) -> float:
    return float(metric._compute_score_from_stats(total.tolist()).score)


# sacreBLEU takes None, as its documentation says, but its annotations do not: hence Any
def _streams(references: TextLists) -> Any:
    """Lists by sentence become streams by reference, with `None` where a sentence has no more.

    >>> _streams([["a", "b"], ["c"]])
    [['a', 'c'], ['b', None]]
    """
    most = max(len(answers) for answers in references)
    return [
        [answers[number] if number < len(answers) else None for answers in references]
        for number in range(most)
    ]
