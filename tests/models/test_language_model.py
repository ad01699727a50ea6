"""The language model: rows of source and target, prefixes of any length, caches."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import pad

from regard.choices import Choice
from regard.decoding import greedy
from regard.errors import SettingError
from regard.models import LanguageSpec, TransformerSpec, build_language_model, build_model
from regard.models.language_model import joined
from regard.models.stepper import BOS, EOS, PAD
from tests.assertions import assert_close

SMALL = TransformerSpec(
    d_model=16, n_heads=2, d_hidden=24, n_encoder_layers=2, n_decoder_layers=2, max_len=32
)
SPECS = {
    "post_norm": SMALL,
    "learned": replace(SMALL, norm="pre_norm", positions=Choice("learned")),
    "rotary": replace(SMALL, positions=Choice("rotary")),
    "shaw": replace(SMALL, positions=Choice("none"), relation=Choice("shaw", {"clip": 3})),
    "linear_bias": replace(SMALL, relation=Choice("linear_bias")),
    "additive": replace(SMALL, score=Choice("additive", {"d_hidden": 5})),
    "sparsemax": replace(SMALL, select=Choice("sparsemax")),
    "local_monotonic": replace(SMALL, select=Choice("local_monotonic", {"half_width": 2})),
    "branches": replace(SMALL, layer="weighted_branches"),
}


def model(spec=SMALL):
    return build_language_model(spec, n_tokens=29).double().eval()


def whole(writer, row):
    """The logits of one pass over a row."""
    return writer.output(writer.read(row))


def tokens(*shape):
    return torch.randint(4, 29, shape)


def ragged(*lengths):
    rows = tokens(len(lengths), max(lengths))
    for row, length in zip(rows, lengths, strict=True):
        row[length:] = PAD
    return rows


def test_a_row_is_source_begin_and_target_without_a_gap():
    source, target = ragged(3, 5, 1), ragged(4, 2, 3)
    read, gold = joined(source, target)
    for i, (n, t) in enumerate([(3, 4), (5, 2), (1, 3)]):
        row = [*source[i, :n].tolist(), BOS, *target[i, :t].tolist()]
        assert read[i].tolist() == row[:-1] + [PAD] * (9 - n - t)
        assert gold[i].tolist() == [PAD] * n + row[n + 1 :] + [PAD] * (9 - n - t)


def test_without_a_source_the_begin_token_stands_first():
    target = ragged(4, 2)
    read, gold = joined(target[:, :0], target)
    assert read.tolist()[1] == [BOS, target[1, 0].item(), PAD, PAD]
    assert torch.equal(gold, target)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_lesson_says_what_each_row_says_alone_however_it_is_padded(spec):
    taught, source, target = model(spec), ragged(3, 5), ragged(4, 2)
    hidden, gold = taught.loss_inputs(pad(source, (0, 3)), pad(target, (0, 2)))
    for i, (n, t) in enumerate([(3, 4), (5, 2)]):
        alone = taught.loss_inputs(source[i : i + 1, :n], target[i : i + 1, :t])
        assert_close("hidden", hidden[i : i + 1, :t], alone.hidden)
        assert torch.equal(gold[i : i + 1, :t], alone.gold)
        assert not gold[i, t:].any()


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_prefixes_of_different_lengths_go_on_as_each_would_alone(spec):
    writer, source, target = model(spec), ragged(6, 3, 1), tokens(3, 4)
    state, parts = writer.start(pad(source, (0, 2))), []
    for cut in (target[:, :1], target[:, 1:3], target[:, 3:]):
        logits, state = writer.step(state, cut)
        parts.append(logits)
    for i, n in enumerate((6, 3, 1)):
        row = torch.cat([source[i, :n], target[i]])[None]
        assert_close("logits", torch.cat(parts, 1)[i], whole(writer, row)[0, n:])


def test_a_lesson_and_a_search_read_the_same_row():
    writer, source = model(), ragged(5, 3)
    target = tokens(2, 4)
    hidden, _ = writer.loss_inputs(source, target)
    logits, _ = writer.step(
        writer.start(source), torch.cat([torch.full((2, 1), BOS), target[:, :-1]], 1)
    )
    assert_close("logits", logits, writer.output(hidden))


def test_rows_of_a_state_take_their_padding_along():
    writer, source, target = model(), ragged(6, 3, 1), tokens(3, 4)
    rows = torch.tensor([2, 1, 1])
    _, state = writer.step(writer.start(source), target[:, :2])
    logits, _ = writer.step(writer.select(state, rows), target[rows, 2:])
    alone, _ = writer.step(writer.start(source[rows]), target[rows])
    assert_close("logits", logits, alone[:, 2:])


def test_a_state_goes_on_in_several_rows_a_sentence():
    writer, source = model(), ragged(6, 3)
    target = tokens(4, 4)
    parents = torch.tensor([[0, 0], [0, 0]])
    two = writer.branch(writer.start(source), parents)
    _, state = writer.step(two, target[:, :2])
    logits, _ = writer.step(
        writer.branch(state, torch.tensor([[1, 0], [1, 1]])), target[[1, 0, 3, 3], 2:]
    )
    for row, (sentence, n, old) in enumerate([(0, 6, 1), (0, 6, 0), (1, 3, 3), (1, 3, 3)]):
        alone = torch.cat([source[sentence, :n], target[old]])[None]
        assert_close("logits", logits[row], whole(writer, alone)[0, n + 2 :])


def test_greedy_search_writes_the_same_in_any_company():
    writer, source = model(replace(SMALL, tied="none")), ragged(6, 3, 1)
    together = greedy(writer, source, max_tokens=5)
    alone = [
        greedy(writer, source[i : i + 1, :n], max_tokens=5)[0] for i, n in enumerate((6, 3, 1))
    ]
    assert together == alone
    assert any(together)


def test_the_end_of_a_source_is_read_and_never_asked_for():
    source = torch.tensor([[7, 8, EOS]])
    read, gold = joined(source, torch.tensor([[9, EOS]]))
    assert read.tolist() == [[7, 8, EOS, BOS, 9]]
    assert gold.tolist() == [[PAD, PAD, PAD, 9, EOS]]


def test_two_vocabularies_in_one_row_are_refused():
    with pytest.raises(SettingError, match=r"got 10 source and 12 target tokens\. Take tokens"):
        build_model(LanguageSpec.like(SMALL), n_source_tokens=10, n_target_tokens=12)
