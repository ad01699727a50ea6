"""The cache of a language model: which words it weighs, and what its share makes of the loss."""

import pytest
import torch

from regard.errors import SettingError
from regard.evaluating.neural_cache import NeuralCache, ReadText, chosen_cache, mixed


def text_of(n_words, n_kinds=7):
    draws = torch.Generator().manual_seed(3)
    states = torch.nn.functional.normalize(torch.randn(n_words, 5, generator=draws), dim=-1)
    words = torch.randint(n_kinds, (n_words,), generator=draws)
    return ReadText(torch.rand(n_words, generator=draws, dtype=torch.float64), states, words)


@pytest.mark.parametrize("place", [0, 1, 40, 1000, 1031, 2299])
def test_it_weighs_the_words_before_and_no_others(place):
    text, size = text_of(2300), 1030
    first = max(0, place - size)
    likes = (6.0 * text.states[place] @ text.states[first:place].T).double()
    want = likes.softmax(-1)[text.tokens[first:place] == text.tokens[place]].sum()
    found = NeuralCache(size=size, sharpness=6.0).probabilities(text)
    assert found[place].item() == pytest.approx(want.item(), abs=1e-6)


def test_without_a_share_it_changes_nothing_and_one_that_knows_helps():
    text = text_of(50)
    assert torch.allclose(NeuralCache(share=0.0).nats(text), text.nats)
    assert mixed(text, torch.ones_like(text.nats), 0.5).sum() < text.nats.sum()


def test_the_cache_of_the_least_loss_is_chosen():
    text = text_of(60)
    text = text._replace(tokens=text.tokens % 2, nats=text.nats + 3)
    found = chosen_cache(text, size=20, sharpnesses=(1.0, 9.0), shares=(0.1, 0.4))
    every = [
        NeuralCache(size=20, sharpness=s, share=part) for s in (1.0, 9.0) for part in (0.1, 0.4)
    ]
    least = min(every, key=lambda one: float(one.nats(text).sum()))
    assert (found.sharpness, found.share) == (least.sharpness, least.share)
    with pytest.raises(SettingError, match="cache: expected sharpnesses and shares to choose from"):
        chosen_cache(text, size=20, shares=())


REFUSED = {
    "size": ({"size": 0}, r"cache\.size must be at least 1, got 0"),
    "sharpness": ({"sharpness": 0.0}, r"cache\.sharpness must be above 0, got 0"),
    "share": ({"share": 1.0}, r"cache\.share must lie in \[0, 1\), got 1"),
}


@pytest.mark.parametrize(("settings", "said"), REFUSED.values(), ids=REFUSED)
def test_numbers_without_meaning_are_refused(settings, said):
    with pytest.raises(SettingError, match=said):
        NeuralCache(**settings)
