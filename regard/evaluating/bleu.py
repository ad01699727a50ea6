"""BLEU: how many word sequences of up to four words a translation shares with its references.

    BLEU = BP · exp(¼ Σₙ ln pₙ),   BP = min(1, exp(1 − r / c))

with pₙ the clipped n-gram precision of the corpus, c the hypotheses' length and r the length of the
closest references.

Paper: Papineni et al. 2002; Post 2018 for the signature. Computed by sacreBLEU.
"""

from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU

from regard.errors import MissingExtra
from regard.evaluating.sacre import Sacre
from regard.evaluating.score import Measured, Score, check_texts
from regard.evaluating.tokenizers import Tokenizer, chosen_tokenizer

TOKENISED = 100
"""So many lines that end in a lone full stop are no accident."""


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


def words(texts: Sequence[str], tokenizer: str) -> list[list[str]]:
    """The words of each text as BLEU counts them.

    >>> words(["A man, a plan."], "13a")
    [['A', 'man', ',', 'a', 'plan', '.']]
    """
    split = _sacre_bleu(Tokenizer(tokenizer)).tokenizer
    return [split(text.rstrip()).split() for text in texts]


def _metric(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], tokenizer: str | None
) -> Sacre:
    check_texts("bleu", hypotheses, references)
    chosen = chosen_tokenizer(tokenizer, references)
    notes = [note for note in (chosen.note, _tokenised(hypotheses)) if note]
    return Sacre("BLEU", _sacre_bleu(chosen), "; ".join(notes))


def _sacre_bleu(tokenizer: Tokenizer) -> BLEU:
    try:
        return BLEU(tokenize=tokenizer.name, force=True)
    except RuntimeError as missing:
        raise MissingExtra(
            f"bleu: the tokeniser {tokenizer.name!r} needs MeCab, which is not installed. Run "
            "pip install 'sacrebleu[ja]', or choose 'char'."
        ) from missing


def _tokenised(hypotheses: Sequence[str]) -> str:
    count = sum(text.endswith(" .") for text in hypotheses)
    if count < TOKENISED:
        return ""
    return f"{count} hypotheses end in a lone full stop: score detokenised text"
