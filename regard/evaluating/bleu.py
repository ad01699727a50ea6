"""BLEU: how many word sequences of up to four words a translation shares with its references.

    BLEU-N = BP · exp(1/N Σₙ ln pₙ),   n = 1 … N,   BP = min(1, exp(1 − r / c))

with pₙ the clipped n-gram precision of the corpus, c the hypotheses' length and r the length of the
closest references. BLEU without a number is BLEU-4; captions are scored by all four.

Paper: Papineni et al. 2002; Post 2018 for the signature. Computed by sacreBLEU.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from sacrebleu.metrics.bleu import BLEU

from regard.choices import find
from regard.errors import MissingExtra
from regard.evaluating.caption_readings import READINGS, Reading
from regard.evaluating.sacre import Sacre
from regard.evaluating.score import Measured, Score, check_texts
from regard.evaluating.tokenizers import Tokenizer, chosen_tokenizer

TOKENISED = 100
"""So many lines that end in a lone full stop are no accident."""
ORDERS = (1, 2, 3, 4)
"""The longest word sequences that are counted, for captions."""
CASED = READINGS["cased"]


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenizer: str | None = None,
) -> Score:
    """Corpus BLEU, cased, on detokenised text.

    Args:
        hypotheses: one text a sentence.
        references: all references of each sentence; their number may differ.
        tokenizer: sacreBLEU's name of one ("13a", "zh", "ja-mecab", "char", …); by default the
            one that the references' script needs.

    >>> round(bleu(["a cat sat on the mat"], [["a cat sat on a mat"]]).value, 2)
    53.73
    """
    return _metric(hypotheses, references, tokenizer).score(hypotheses, references)


def measured_bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    tokenizer: str | None = None,
) -> Measured:
    """BLEU with what each sentence adds to it."""
    return _metric(hypotheses, references, tokenizer).measured(hypotheses, references)


def bleu_orders(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    reading: str = "bare",
    tokenizer: str | None = None,
) -> tuple[Score, ...]:
    """BLEU-1 to BLEU-4 of captions; a note says what they are without the brevity penalty.

    Args:
        hypotheses: one caption a picture.
        references: all captions that people gave each picture; their number may differ.
        reading: "bare" (lower-cased, no punctuation), "lower" or "cased".
        tokenizer: as for `bleu`.

    >>> [round(one.value, 1) for one in bleu_orders(["a dog runs on grass"], [["A dog runs."]])]
    [60.0, 54.8, 46.4, 39.8]
    """
    measured = measured_bleu_orders(hypotheses, references, reading=reading, tokenizer=tokenizer)
    return tuple(one.score for one in measured)


def measured_bleu_orders(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    reading: str = "bare",
    tokenizer: str | None = None,
) -> tuple[Measured, ...]:
    """BLEU-1 to BLEU-4 with what each caption adds to them."""
    check_texts("bleu_orders", hypotheses, references)
    chosen, read = chosen_tokenizer(tokenizer, references), find(reading, READINGS, key="reading")
    return tuple(
        _with_brevity(
            Sacre(f"BLEU-{order}", _sacre_bleu(chosen, read, order), chosen.note).measured(
                hypotheses, references
            )
        )
        for order in ORDERS
    )


def words(texts: Sequence[str], tokenizer: str, reading: Reading = CASED) -> list[list[str]]:
    """The words of each text as BLEU counts them.

    >>> words(["A man, a plan."], "13a")
    [['A', 'man', ',', 'a', 'plan', '.']]
    """
    split = _sacre_bleu(Tokenizer(tokenizer)).tokenizer
    return [reading.words(text, split) for text in texts]


def _metric(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], tokenizer: str | None
) -> Sacre:
    check_texts("bleu", hypotheses, references)
    chosen = chosen_tokenizer(tokenizer, references)
    notes = [note for note in (chosen.note, _tokenised(hypotheses)) if note]
    return Sacre("BLEU", _sacre_bleu(chosen), "; ".join(notes))


def _sacre_bleu(tokenizer: Tokenizer, reading: Reading = CASED, order: int = 4) -> BLEU:
    try:
        metric = BLEU(
            lowercase=not reading.is_cased,
            tokenize=tokenizer.name,
            force=True,
            max_ngram_order=order,
        )
    except RuntimeError as missing:
        raise MissingExtra(
            f"bleu: the tokeniser {tokenizer.name!r} needs MeCab, which is not installed. Run "
            "pip install 'sacrebleu[ja]', or choose 'char'."
        ) from missing
    split = metric.tokenizer
    metric.tokenizer = lambda text: " ".join(reading.words(text, split))
    metric.tokenizer_signature = reading.said(metric.tokenizer_signature)
    return metric


def _with_brevity(measured: Measured) -> Measured:
    """The score with a note where captions are short: papers leave the brevity penalty out."""
    spoken, wanted = measured.rows.sum(axis=0)[:2]
    penalty, score = math.exp(1 - wanted / spoken) if spoken else 0.0, measured.score
    # a penalty of 0 leaves nothing to tell
    if not 0 < penalty < 1:
        return measured
    told = f"{score.value / penalty:.2f} without the brevity penalty of {penalty:.3f}"
    noted = replace(score, note="; ".join(filter(None, (score.note, told))))
    return replace(measured, score=noted)


def _tokenised(hypotheses: Sequence[str]) -> str:
    count = sum(text.endswith(" .") for text in hypotheses)
    if count < TOKENISED:
        return ""
    return f"{count} hypotheses end in a lone full stop: score detokenised text"
