"""Encoder-only models: what they read, what they ask for, and the equations of their heads."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import gelu

from regard.choices import Choice
from regard.errors import SettingError, ShapeError
from regard.models import EncoderSpec, build_encoder
from regard.models.encoders.spec import ENCODER_SIZES
from regard.models.stepper import BOS, EOS, PAD
from tests.assertions import assert_close, gradients

V = 29
SMALL = EncoderSpec(
    d_model=16, n_heads=2, d_hidden=24, n_layers=2, max_len=64, is_scaled=True,
    has_output_bias=False,
)  # fmt: skip


def tokens(*shape):
    return torch.randint(5, V, shape)


def network(spec, n_answers):
    built = build_encoder(spec, n_source_tokens=V, n_target_tokens=n_answers)
    return built.network.double().eval()


def masked_model(spec=SMALL, n_segments=0):
    return network(replace(spec, n_segments=n_segments), V)


def classifier():
    return network(replace(SMALL, task="label"), 7)


def tagger():
    return network(replace(SMALL, task="tags"), 7)


def test_the_encoder_reads_the_begin_token_and_then_the_text():
    encoder, text = masked_model().encoder, tokens(2, 5)
    x = encoder.embedding(torch.cat([torch.full((2, 1), BOS), text], 1))
    for layer in encoder.layers:
        x = layer(x)
    assert_close("states", encoder(text), encoder.norm(x))


def test_the_embedding_is_normed_after_the_sum():
    embedding = masked_model(n_segments=2).encoder.embedding
    text, parts = tokens(2, 5), torch.randint(0, 2, (2, 5))
    total = 4 * embedding.E.weight[text] + embedding.S.weight[parts]
    total = total + embedding.positions(torch.arange(5)[None])
    centred = total - total.mean(-1, keepdim=True)
    want = centred / (centred.square().mean(-1, keepdim=True) + 1e-12).sqrt()
    assert_close("vectors", embedding(text, segments=parts), want)


def test_every_position_sees_both_directions():
    model, text = masked_model(), tokens(1, 6)
    other = text.clone()
    other[0, 3] = 5 + (other[0, 3] - 4) % 24
    changed = (model(text) != model(other)).any(-1)
    assert changed.all()


def test_the_masked_language_model_s_head_is_the_equation():
    model, text = masked_model(), tokens(2, 5)
    inner = gelu(model.encoder(text)[:, 1:] @ model.dense.weight.T + model.dense.bias)
    want = model.norm(inner) @ model.encoder.embedding.E.weight.T
    assert_close("logits", model(text), want)


def test_the_target_is_masked_and_the_source_is_not_read():
    model, text = masked_model(), tokens(3, 20)
    all_inputs = [
        model.train().loss_inputs(source, text, torch.Generator().manual_seed(5))
        for source in (tokens(3, 4), tokens(3, 0))
    ]
    (hidden, gold), other = all_inputs
    model.eval()
    assert torch.equal(gold, other.gold)
    assert (gold != PAD).sum(1).tolist() == [3, 3, 3]
    assert torch.equal(gold[gold != PAD], text[gold != PAD])
    assert hidden.shape == (3, 20, 16)


def test_the_lesson_reads_the_text_with_holes():
    model, text = masked_model(), tokens(40, 20)
    hidden, gold = model.loss_inputs(text, text)
    same = (hidden == model.hidden(text)).all(-1).all(-1)
    # a row is unchanged only if all its three chosen words stayed
    assert same.sum() <= 2
    assert (gold != PAD).any(1).all()


def test_evaluation_hides_the_same_words_every_time_and_training_does_not():
    model, text = masked_model(), tokens(4, 40)
    assert torch.equal(model.loss_inputs(text, text).gold, model.loss_inputs(text, text).gold)
    model.train()
    assert not torch.equal(model.loss_inputs(text, text).gold, model.loss_inputs(text, text).gold)


def test_a_tied_output_s_gradient_is_the_sum_of_both_uses():
    model, text = masked_model(), tokens(2, 5)
    table = model.encoder.embedding.E.weight
    whole = gradients(model(text), {"E": table})["E"]
    model.output.weight = torch.nn.Parameter(table.detach().clone())
    parts = gradients(model(text), {"E": table, "O": model.output.weight})
    assert_close("gradient", whole, parts["E"] + parts["O"])


def test_bert_base_has_the_paper_s_parameters():
    m, spec = 768, EncoderSpec(**ENCODER_SIZES["base"], n_segments=2)
    with torch.device("meta"):
        model = build_encoder(spec, n_source_tokens=30522, n_target_tokens=30522)
    # the pooler's m m + m weights are in the paper's count; the bias of each word is not
    wanted = 109_482_240 - (m * m + m) + 30522
    assert sum(weight.numel() for weight in model.encoder.parameters()) == wanted


def test_a_new_segment_begins_after_each_end_token():
    model = masked_model(n_segments=2)
    text = torch.tensor([[5, 6, EOS, 7, EOS, 8], [9, EOS, 4, 4, EOS, PAD]])
    parts = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]])
    assert_close("logits", model(text), model(text, parts))
    assert not torch.allclose(model(text), model(text, 1 - parts))


def test_equal_segments_make_no_difference():
    model, text = masked_model(n_segments=2), tokens(2, 6)
    model.encoder.embedding.S.weight.data[1] = model.encoder.embedding.S.weight.data[0]
    parts = torch.randint(0, 2, (2, 6))
    assert_close("logits", model(text, parts), model(text, 1 - parts))


def test_segments_that_a_model_does_not_know_are_refused():
    with pytest.raises(SettingError, match="segments were given, but this model has no vectors"):
        masked_model()(tokens(1, 3), torch.zeros(1, 3, dtype=torch.long))


def test_a_label_is_read_off_the_begin_token():
    model, text = classifier(), tokens(3, 5)
    state = model.encoder(text)[:, 0]
    want = (state @ model.dense.weight.T + model.dense.bias).tanh() @ model.output.weight.T
    assert_close("logits", model(text), want)


def test_the_first_target_token_is_the_label():
    model, text = classifier(), tokens(3, 5)
    label = torch.tensor([[4, EOS], [6, EOS], [5, EOS]])
    hidden, gold = model.loss_inputs(text, label)
    assert gold.tolist() == [[4], [6], [5]]
    assert_close("logits", model.output(hidden)[:, 0], model(text))


def test_each_token_has_the_label_below_it_and_ends_none():
    model, text = tagger(), torch.tensor([[9, 8, 7, EOS], [6, 5, EOS, PAD]])
    labels = torch.tensor([[4, 5, 6, EOS], [4, 4, EOS, PAD]])
    hidden, gold = model.loss_inputs(text, labels)
    assert gold.tolist() == [[4, 5, 6, PAD], [4, 4, PAD, PAD]]
    assert_close("logits", model(text), model.encoder(text)[:, 1:] @ model.output.weight.T)
    assert_close("hidden", model.output(hidden), model(text))


def test_labels_that_do_not_fit_the_tokens_are_refused():
    said = "tagger: every word needs one label, got a source of 4 and a target of 5 tokens"
    with pytest.raises(ShapeError, match=said):
        tagger().loss_inputs(tokens(2, 4), tokens(2, 5))


def test_a_word_of_several_pieces_has_one_label_at_its_first():
    model, later = tagger(), V + torch.tensor([7, 6])
    text = torch.tensor([[9, *later, 5, EOS], [8, 6, EOS, PAD, PAD]])
    labels = torch.tensor([[4, 6, EOS], [5, 4, EOS]])
    hidden, gold = model.loss_inputs(text, labels)
    assert gold.tolist() == [[4, 6, PAD], [5, 4, PAD]]
    states = model.encoder(torch.where(text < V, text, text - V))[:, 1:]
    assert_close("hidden", hidden[:, :2], states[[[0], [1]], torch.tensor([[0, 3], [0, 1]])])
    assert model.known(text).tolist() == [[PAD, PAD, EOS, EOS, EOS]] * 2


@pytest.mark.parametrize("build", [masked_model, classifier, tagger])
def test_the_self_check_notices_padding_that_is_seen(build, monkeypatch):
    monkeypatch.setattr("regard.models.bert.padding", lambda valid: valid.new_ones(1, 1, 1, 1))
    with pytest.raises(AssertionError, match="padding changes states by"):
        build()


@pytest.mark.parametrize(
    "way",
    [
        "big_bird:block=2,n_random=1",
        "random_links:block=2,n_random=1",
        "global_tokens:first=1,last=2",
    ],
)
def test_padding_changes_nothing_where_layers_ask_for_the_end_of_a_text(way):
    model = masked_model(replace(SMALL, pattern=Choice.parse(way)))
    text = tokens(2, 12)
    text[1, 7:] = PAD
    assert_close("logits", model(text)[1:, :7], model(text[1:, :7]))


def test_a_row_without_a_token_is_still_a_row():
    model, text = classifier(), tokens(2, 3)
    text[1] = PAD
    assert_close("label", model(text)[1:], model(text[1:, :0]))
