"""Readers: encoder-only models that a search can ask, place by place."""

import pytest
import torch

from regard.choices import Choice
from regard.data.subword_kinds import EOS, MASK_NUMBER, PAD, SPECIALS, UNK
from regard.decoding import Beam, Limits, Sentence, greedy
from regard.errors import SettingError, UnknownChoice
from regard.models import EncoderSpec, build_encoder, build_model, shapes_of

V, N_TAGS = 30, 9
SIZES = {"d_model": 16, "n_heads": 2, "d_hidden": 24, "n_layers": 2, "max_len": 20}


def reader(task="words", **settings):
    spec = EncoderSpec(task=task, **{**SIZES, **settings})
    made = build_encoder(spec, n_source_tokens=V, n_target_tokens=N_TAGS if task != "words" else V)
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return made.eval()


def row(*tokens):
    return torch.tensor([[*tokens, EOS]])


@torch.no_grad()
def test_words_that_are_there_are_said_as_they_are():
    said = greedy(reader(), row(7, 8, 9, 28), max_tokens=15)
    assert said == [[7, 8, 9, 28]]


@torch.no_grad()
def test_unknown_is_no_guess_for_a_hidden_word():
    made = reader()
    made.encoder.embedding.E.weight[UNK, -1] = 1e6
    (said,) = greedy(made, row(7, MASK_NUMBER, 9), max_tokens=10)
    assert said[1] > MASK_NUMBER


@torch.no_grad()
def test_a_hidden_word_is_the_likeliest_at_its_place():
    made, text = reader(), row(7, MASK_NUMBER, 9)
    logits = made.network(text)[0, 1]
    logits[: MASK_NUMBER + 1] = -torch.inf
    found = Beam(width=4, n_best=4, limits=Limits(max_tokens=10))(
        made, [Sentence(text[0].tolist())]
    )
    best = [one.tokens for one in found[0] if one.tokens[1] > MASK_NUMBER]
    assert best[0] == (7, int(logits.argmax()), 9)


@torch.no_grad()
def test_each_tag_is_the_likeliest_at_its_word_whatever_else_is_in_the_batch():
    made = reader("tags")
    batch = torch.full((2, 6), PAD)
    batch[0, :6], batch[1, :3] = row(7, 8, 9, 10, 11)[0], row(12, 13)[0]
    said = greedy(made, batch, max_tokens=15)
    for i, n in enumerate((5, 2)):
        alone = made.network(batch[i : i + 1, : n + 1])[0, :n]
        assert said[i] == (alone.argmax(-1) + len(SPECIALS)).tolist()


@torch.no_grad()
def test_the_answers_of_a_beam_are_the_likeliest_together():
    made, text, tags = reader("tags"), row(7, 8), range(UNK + 1, N_TAGS)
    logs = made.network(text)[0, :2].log_softmax(-1)
    found = Beam(width=6, n_best=3, limits=Limits(max_tokens=10))(
        made, [Sentence(text[0].tolist())]
    )
    # only tags have a logit: the first is that of the tag with the lowest number
    pairs = [(float(logs[0, i - 4] + logs[1, j - 4]), (i, j)) for i in tags for j in tags]
    assert [one.tokens for one in found[0]] == [pair for _, pair in sorted(pairs, reverse=True)[:3]]


def test_an_answer_that_cannot_be_is_in_no_list():
    made, text = reader("label"), row(7, 8, 9)
    search = Beam(width=N_TAGS, n_best=N_TAGS, limits=Limits(max_tokens=10))
    found = search(made, [Sentence(text[0].tolist())])[0]
    assert sorted(one.tokens for one in found) == [(label,) for label in range(UNK + 1, N_TAGS)]
    assert all(one.score > -50 for one in found)


def test_a_label_is_one_token():
    assert [len(said) for said in greedy(reader("label"), row(7, 8, 9), max_tokens=9)] == [1]


@torch.no_grad()
def test_a_vector_is_the_mean_of_all_real_states_at_length_one():
    made = reader("vectors")
    text = torch.nn.functional.pad(row(7, 8), (0, 3))
    states = made.encoder(row(7, 8))[0].mean(0)
    torch.testing.assert_close(made.vectors(text)[0], states / states.norm())


@torch.no_grad()
def test_logits_of_words_have_a_bias_each():
    made, text = reader(), row(7, MASK_NUMBER)
    table = made.encoder.embedding.E.weight
    head = made.network.norm[0](
        torch.nn.functional.gelu(made.network.dense(made.encoder(text)[:, 1:]))
    )
    torch.testing.assert_close(made.network(text), head @ table[:, :-1].T + table[:, -1])


def test_a_map_has_a_row_for_the_begin_token_and_each_token():
    made, text = reader(), row(7, 8, 9)
    maps = made.maps(text, text)["encoder"]
    assert [one.shape for one in maps] == [(1, 2, 5, 5)] * 2
    assert not made.reads_answers


@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "none"])
@pytest.mark.parametrize("pattern", [None, "sliding_window:size=2", "big_bird:block=2,n_random=1"])
@torch.no_grad()
def test_a_text_is_read_alike_whatever_else_is_in_the_batch(positions, pattern):
    chosen = None if pattern is None else Choice.parse(pattern)
    made = reader("tags", positions=Choice(positions), pattern=chosen)
    batch = torch.full((2, 14), PAD)
    batch[0, :6], batch[1] = row(7, 8, 9, 10, 11)[0], row(*range(5, 18))[0]
    alone = made.encoder(batch[:1, :6])
    torch.testing.assert_close(made.encoder(batch)[:1, :7], alone, atol=1e-5, rtol=1e-5)


def test_a_recipe_s_names_are_checked():
    with pytest.raises(UnknownChoice, match=r"model\.task"):
        EncoderSpec(task="word")
    with pytest.raises(UnknownChoice, match=r"model\.pattern"):
        EncoderSpec(pattern=Choice("causal"))
    with pytest.raises(SettingError, match="n_layers must lie between"):
        EncoderSpec(n_layers=0)
    with pytest.raises(SettingError, match="n_segments must be at least 0, got -1"):
        EncoderSpec(n_segments=-1)


def test_words_that_are_guessed_are_of_the_vocabulary_that_is_read():
    said = "encoder: what is read and what is said need one vocabulary, got 30 source and 9 target"
    with pytest.raises(SettingError, match=said):
        build_encoder(EncoderSpec(**SIZES), n_source_tokens=V, n_target_tokens=N_TAGS)
    tagging = EncoderSpec(task="tags", **SIZES)
    tagger = build_encoder(tagging, n_source_tokens=V, n_target_tokens=N_TAGS)
    assert tagger.output.out_features == N_TAGS - len(SPECIALS)


def test_shapes_are_known_without_making_a_number():
    spec = EncoderSpec(**SIZES)
    made = build_model(spec, n_source_tokens=V, n_target_tokens=V)
    shapes = shapes_of(spec, n_source_tokens=V, n_target_tokens=V)
    assert shapes == {name: tuple(one.shape) for name, one in made.named_parameters()}
