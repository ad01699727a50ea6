"""Masking: which words are chosen, what becomes of them, and what is never touched."""

import pytest
import torch

from regard.data.subword_kinds import MASK_NUMBER
from regard.models import MASK, masked
from regard.models.masking import masked_alone
from regard.models.stepper import BOS, EOS, PAD, UNK

V = 5003


def text(rows, width, vocabulary=V):
    return torch.randint(4, vocabulary, (rows, width))


def within_four_sigma(count, total, share):
    return abs(count - total * share) <= 4 * (total * share * (1 - share)) ** 0.5


def test_fifteen_percent_of_every_row_are_chosen_and_at_least_one_word():
    tokens = text(7, 103)
    tokens[1, 20:] = PAD
    tokens[2, 1:] = PAD
    tokens[3, 3:] = PAD
    chosen = (masked(tokens, n_tokens=V).gold != PAD).sum(1)
    assert chosen.tolist() == [15, 3, 1, 1, 15, 15, 15]


def test_of_the_chosen_words_80_percent_are_hidden_10_replaced_and_10_stay():
    tokens = text(400, 200)
    read, gold = masked(tokens, n_tokens=V)
    chosen = gold != PAD
    n_chosen = int(chosen.sum())
    assert n_chosen == 400 * 30
    hidden = (read == MASK)[chosen].sum().item()
    stays = (read == tokens)[chosen].sum().item()
    assert within_four_sigma(hidden, n_chosen, 0.8)
    # one replaced word in V is the word itself
    assert within_four_sigma(stays, n_chosen, 0.1 + 0.1 / (V - 4))
    assert within_four_sigma(n_chosen - hidden - stays, n_chosen, 0.1)


def test_every_place_of_a_row_is_chosen_equally_often():
    chosen = (masked(text(4000, 20), n_tokens=V).gold != PAD).sum(0)
    assert all(within_four_sigma(count, 4000, 3 / 20) for count in chosen.tolist())


def test_any_word_may_come_in_and_no_special_token():
    tokens = text(400, 200, vocabulary=11)
    read, _ = masked(tokens, n_tokens=11)
    moved = read[(read != tokens) & (read != MASK)]
    assert moved.unique().tolist() == list(range(4, 11))


def test_what_was_not_chosen_stays_and_what_was_is_asked_for():
    tokens = text(31, 40)
    read, gold = masked(tokens, n_tokens=V)
    assert torch.equal(read[gold == PAD], tokens[gold == PAD])
    assert torch.equal(gold[gold != PAD], tokens[gold != PAD])


def test_special_tokens_are_never_chosen():
    tokens = text(50, 40)
    for column, special in enumerate((PAD, BOS, EOS, UNK)):
        tokens[:, column::5] = special
    read, gold = masked(tokens, n_tokens=V, share=1.0)
    assert torch.equal(gold, tokens.masked_fill(tokens < 4, PAD))
    assert torch.equal(read[tokens < 4], tokens[tokens < 4])


def test_a_row_without_words_asks_for_nothing():
    read, gold = masked(torch.tensor([[2, 0, 0]]), n_tokens=V)
    assert read.tolist() == [[2, 0, 0]]
    assert gold.tolist() == [[0, 0, 0]]


def test_chance_comes_from_the_generator_or_from_torch():
    tokens = text(5, 40)
    one, same, other = (
        masked(tokens, n_tokens=V, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    assert torch.equal(one.read, same.read)
    assert not torch.equal(one.gold, other.gold)
    before = torch.get_rng_state()
    masked(tokens, n_tokens=V, generator=torch.Generator().manual_seed(1))
    assert torch.equal(torch.get_rng_state(), before)
    drawn = masked(tokens, n_tokens=V)
    torch.set_rng_state(before)
    assert torch.equal(masked(tokens, n_tokens=V).read, drawn.read)


def test_alone_a_row_is_hidden_alike_in_every_batch_and_unlike_others():
    tokens = text(4, 40)
    tokens[1, 23:], tokens[3] = PAD, PAD
    together = masked_alone(tokens, n_tokens=V)
    for row, length in enumerate((40, 23, 40, 0)):
        own = masked_alone(tokens[row : row + 1, :length], n_tokens=V)
        for part, whole in zip(own, together, strict=True):
            assert torch.equal(part[0], whole[row, :length])
            assert torch.equal(whole[row, length:], tokens[row, length:])
    chosen = together.gold != PAD
    assert chosen.sum(1).tolist() == [6, 3, 6, 0]
    assert not torch.equal(chosen[0], chosen[2])


@pytest.mark.parametrize("share", [0.15, 0.5])
def test_the_share_can_be_chosen(share):
    gold = masked(text(9, 100), n_tokens=V, share=share).gold
    assert (gold != PAD).sum().item() == 9 * 100 * share


def test_a_piece_for_hidden_words_is_never_asked_for_and_never_stands_for_another_word():
    tokens = torch.randint(4, 40, (50, 60))
    read, gold = masked(tokens, n_tokens=40, mask=MASK_NUMBER)
    assert not (gold == MASK_NUMBER).any()
    is_chosen = gold != PAD
    assert not ((read == UNK) & is_chosen).any()
    hidden = (read == MASK_NUMBER) & is_chosen
    share = float(hidden.sum() / is_chosen.sum())
    assert abs(share - 0.8) < 0.05
    kept = is_chosen & (read == tokens)
    assert abs(float(kept.sum() / is_chosen.sum()) - 0.1) < 0.04
