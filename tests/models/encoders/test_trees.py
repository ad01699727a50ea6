"""Encoders that know trees: what they read off a number, and what it changes."""

import pytest
import torch

from regard.choices import Choice
from regard.errors import SettingError
from regard.models import EncoderSpec, build_encoder

V = 40
SIZES = {"d_model": 16, "n_heads": 2, "d_hidden": 16, "n_layers": 2, "max_len": 20}
STRUCTURAL = EncoderSpec(
    task="tags", positions=Choice("tree_depth"), relation=Choice("structural", {"clip": 4}), **SIZES
)


def words(*heads):
    """A row of words with these heads, counted from 1, and an end token."""
    return torch.tensor([[5 + i + V * head for i, head in enumerate(heads)] + [2]])


def model(spec=STRUCTURAL):
    return build_encoder(spec, n_source_tokens=V, n_target_tokens=9).double().eval()


@torch.no_grad()
def test_another_tree_over_the_same_words_gives_other_states():
    made = model()
    one, other = (made.encoder(words(*heads)) for heads in [(2, 0, 2), (0, 1, 2)])
    assert not torch.allclose(one, other, atol=1e-3)


@torch.no_grad()
def test_a_number_with_a_head_in_it_is_no_word_to_a_model_that_knows_no_trees():
    plain = model(EncoderSpec(task="tags", **SIZES))
    with pytest.raises(IndexError):
        plain.encoder(words(2, 0, 2))
    assert plain.encoder(words(0, 0, 0)).shape == (1, 5, 16)


@torch.no_grad()
def test_the_numbers_say_what_heads_would_say():
    made = model()
    told = made.encoder(words(2, 0, 2))
    made.encoder.carries_heads = False
    plain = torch.tensor([[5, 6, 7, 2]])
    heads = torch.tensor([[1, -1, 1, -1]])
    assert torch.equal(told, made.encoder(plain, heads=heads))


@torch.no_grad()
def test_padding_and_other_rows_change_nothing():
    made = model()
    alone = made.encoder(words(2, 0, 2))
    longer = torch.zeros(2, 7, dtype=torch.long)
    longer[0, :4], longer[1] = words(2, 0, 2)[0], words(2, 3, 4, 5, 6, 0)[0]
    torch.testing.assert_close(made.encoder(longer)[:1, :5], alone)


def test_only_tags_are_said_about_trees():
    with pytest.raises(SettingError, match="reads no trees"):
        EncoderSpec(task="words", positions=Choice("tree_depth"))
