"""Followers: callers that are told each token, and that may end an answer between two steps."""

import pytest
import torch

from regard.data.subword_kinds import EOS
from regard.decoding import Beam, Greedy, Limits, Sampling, Sentence
from regard.models import TransformerSpec, build_transformer

SPEC = TransformerSpec(
    d_model=16, n_heads=2, d_hidden=16, n_encoder_layers=1, n_decoder_layers=1, max_len=32
)
LIMITS = Limits(max_tokens=8)
SOURCES = ([3, 4, 5], [6, 3], [5, 5, 4, 3])


class Counting:
    """Counts the rows that the model steps."""

    def __init__(self, model):
        self.start, self.select, self.branch = model.start, model.select, model.branch
        self._model, self.rows = model, []

    def step(self, state, tokens):
        self.rows.append(len(tokens))
        return self._model.step(state, tokens)


class Leaving:
    """A follower that wants so many tokens, and notes those that it is told."""

    def __init__(self, n_steps=100):
        self.left, self.told = n_steps, []

    def wants_more(self):
        self.left -= 1
        return self.left > 0

    def write(self, token):
        self.told.append(token)


@pytest.fixture
def model():
    model = build_transformer(SPEC, n_source_tokens=7, n_target_tokens=7).double().eval()
    with torch.no_grad():
        model.output.weight.normal_(std=4.0)
        # answers reach their limit unless their follower ends them
        model.output.weight[EOS] = 0.0
    return model


@pytest.mark.parametrize("search", [Greedy(limits=LIMITS), Sampling(limits=LIMITS, seed=3)])
def test_a_follower_is_told_every_token_of_its_own_answer(model, search):
    followers = [Leaving() for _ in SOURCES]
    sentences = [Sentence(s, follower=f) for s, f in zip(SOURCES, followers, strict=True)]
    found = search(model, sentences)
    for (answer,), follower in zip(found, followers, strict=True):
        assert follower.told == [*answer.tokens, *([EOS] if answer.has_ended else [])]
    assert found == search(model, [Sentence(source) for source in SOURCES])


@pytest.mark.parametrize(
    "search", [Greedy(limits=LIMITS), Sampling(limits=LIMITS), Beam(width=3, limits=LIMITS)]
)
def test_an_answer_whose_follower_leaves_frees_its_rows_at_the_next_step(model, search):
    counting = Counting(model)
    leaves = Leaving(n_steps=3)
    first, second, third = SOURCES
    whole = search(model, [Sentence(source) for source in SOURCES])
    found = search(counting, [Sentence(first), Sentence(second, follower=leaves), Sentence(third)])
    # the others are answered as if it had stayed
    assert (found[0], found[2]) == (whole[0], whole[2])
    assert (len(found[1][0].tokens), found[1][0].has_ended) == (3, False)
    width = counting.rows[2] // 3
    assert counting.rows[2:4] == [3 * width, 2 * width]


def test_a_search_ends_once_all_followers_have_left(model):
    counting = Counting(model)
    Beam(width=2, limits=LIMITS)(counting, [Sentence(s, follower=Leaving(2)) for s in SOURCES])
    assert len(counting.rows) == 2


def test_a_beam_tells_no_tokens_since_it_may_take_them_back(model):
    follower = Leaving()
    Beam(width=2, limits=LIMITS)(model, [Sentence(SOURCES[0], follower=follower)])
    assert follower.told == []
