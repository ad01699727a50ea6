"""Links: which word of a text each word of an answer was read off."""

from collections.abc import Sequence

from regard.attention import AttentionMap
from regard.data.kinds import EOS
from regard.decoding import Hypothesis
from regard.evaluating.heads import LEFT_OUT
from regard.evaluating.links import Link
from regard.inspecting.alignments import pharaoh, word_links, words_of
from regard.inspecting.capture import attention_of, crossing, weights_of
from regard.inspecting.token_labels import spans_of
from regard.tasks.loaded import Loaded
from regard.tasks.normalisation import as_read


def check_links(loaded: Loaded) -> None:
    """Refuse a run whose answers look at no words of a text, before anything long begins."""
    _crossing(loaded, [EOS], [])


def links(loaded: Loaded, read: str, tokens: Sequence[int]) -> frozenset[Link]:
    """Links between words, by the mean of all cross-attention heads.

    Args:
        loaded: what wrote the answer.
        read: the text in the form that the run reads.
        tokens: of the answer.
    """
    source, target = loaded.source, loaded.target
    written = target.decode(tokens)
    return word_links(
        weights_of(_crossing(loaded, [*source.encode(read), EOS], tokens)).mean((0, 1)),
        [*words_of(read, source.offsets(read)), LEFT_OUT],
        words_of(written, spans_of(target, tokens, written)),
    )


def alignment(loaded: Loaded, text: str, answer: Hypothesis) -> str:
    """Links to the words of the text as it was given, in Pharaoh format."""
    form = as_read(loaded.recipe, text)
    if form is None:
        return pharaoh(links(loaded, text, answer.tokens))
    found = links(loaded, form.text, answer.tokens)
    return pharaoh({(form.origins[source], target) for source, target in found})


def _crossing(
    loaded: Loaded, read: Sequence[int], written: Sequence[int]
) -> tuple[AttentionMap, ...]:
    return crossing(attention_of(loaded.model, read, written), "alignments: the run")
