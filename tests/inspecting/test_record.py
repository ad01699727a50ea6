"""A record gives the model's own weights, merges them without losing any, and never changes."""

import dataclasses
import json
import reprlib

import pytest
import torch
from torch.testing import assert_close

from regard.attention import Chain
from regard.choices import Choice
from regard.errors import DataError, LengthError, SettingError, UnknownChoice
from regard.evaluating.attention_links import PieceWords, merge_pieces
from regard.inspecting import record as record_module
from regard.inspecting.capture import recorded
from regard.inspecting.panels import View
from regard.inspecting.record import Record
from regard.inspecting.token_labels import Tokens
from regard.models import LanguageSpec
from tests.inspecting.hand_made import ANSWER, TEXT, of_a, of_a_model, tokens, written_down

KINDS = ("encoder", "decoder", "cross")


@pytest.fixture(scope="module")
def made():
    torch.manual_seed(7)
    return of_a_model()


@pytest.fixture(scope="module")
def record(made):
    return made[0]


def test_it_holds_the_texts_and_the_tokens_of_both_sides(made):
    record, subwords = made
    assert (record.source, record.target) == (TEXT, ANSWER)
    cross, decoder = record.attention["cross"], record.attention["decoder"]
    assert cross.keys.pieces[-1] == cross.queries.pieces[-1] == "<eos>"
    assert decoder.keys.pieces[0] == "<bos>"
    assert decoder.keys.pieces[1:] == decoder.queries.pieces[:-1]
    assert len(cross.queries) == len(subwords.encode(ANSWER)) + 1
    assert cross.mechanism == "scaled_dot, soft"
    assert (cross.query_title, cross.key_title) == ("query (target)", "key (source)")


def test_it_says_on_one_line_what_it_holds(record):
    kinds = "encoder, decoder, cross"
    assert (
        repr(record) == f"Record({reprlib.repr(TEXT)} → {reprlib.repr(ANSWER)}, attention: {kinds})"
    )
    assert repr(record.attention["cross"]).startswith("Attention(")
    assert all("\n" not in repr(one) for one in (record, *record.attention.values()))


def test_layers_that_differ_are_named_by_their_numbers():
    attends = (Choice("sliding_window", {"size": 2}), Choice("memory_compressed"), Choice("full"))
    spec = LanguageSpec(d_model=12, n_heads=3, d_hidden=8, n_layers=3, attends=attends)
    seen = of_a(spec)[0].attention["decoder"]
    slots = "layer 2: scaled_dot, soft, among slots of 3 tokens"
    assert seen.mechanism == f"layers 1, 3: scaled_dot, soft; {slots}"
    masks = "layer 1: sliding_window, causal; layer 2: slots of tokens; layer 3: causal"
    assert seen.mask == masks
    assert seen.description == f"{seen.mechanism}. Who may see whom: {masks}"


@pytest.mark.parametrize("kind", KINDS)
def test_its_weights_are_the_maps_and_every_row_sums_to_one(record, kind):
    for layer, one in enumerate(record.attention[kind].layers):
        dense = one.dense()[0]
        for head in range(3):
            got = record.weights(kind, layer, head)
            assert_close(got, dense[head])
            assert_close(got.sum(dim=1), torch.ones(len(got)))


def test_the_first_row_of_the_decoder_sees_the_begin_token_alone(record):
    first = record.weights("decoder", 0, 0)[0]
    assert first[0] == 1.0
    assert first[1:].abs().max() == 0.0


def test_means_are_over_heads_then_over_layers(record):
    heads = [[record.weights("cross", i, j) for j in range(3)] for i in range(2)]
    assert_close(record.weights("cross", 1), torch.stack(heads[1]).mean(dim=0))
    assert_close(record.weights("cross", None, 2), torch.stack([heads[0][2], heads[1][2]]).mean(0))
    assert_close(record.mean("cross"), torch.stack(heads[0] + heads[1]).mean(dim=0))


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_summed_over_keys_and_averaged_over_queries(record, kind):
    one, weights = record.attention[kind], record.weights(kind, 1, 2)
    got = record.words(kind, 1, 2)
    for t, name in enumerate(one.queries.names):
        rows = [i for i, word in enumerate(one.queries.words) if word == t]
        for s in range(len(one.keys.names)):
            columns = [j for j, word in enumerate(one.keys.words) if word == s]
            want = sum(float(weights[i, j]) for i in rows for j in columns) / len(rows)
            assert float(got[t, s]) == pytest.approx(want, abs=1e-6), name
    assert_close(got, merge_pieces(weights, PieceWords(one.keys.words, one.queries.words)))
    assert_close(got.sum(dim=1), torch.ones(len(got)))


def test_pieces_and_words_differ_here(record):
    # else the merging above would prove nothing
    assert record.shape(View(unit="pieces")) > record.shape(View())


def test_a_few_rows_at_a_time_give_the_same_numbers(record, monkeypatch):
    whole, words = record.weights("encoder"), record.words("encoder")
    monkeypatch.setattr(record_module, "BLOCK_WEIGHTS", 1)
    assert_close(record.weights("encoder"), whole)
    assert_close(record.words("encoder"), words)


def test_a_rectangle_is_a_part_of_the_whole(record):
    part = record.weights("cross", 0, 1, rows=slice(2, 5), columns=slice(1, None))
    assert_close(part, record.weights("cross", 0, 1)[2:5, 1:])


def test_pooling_is_the_map_s_own(record):
    pooled = record.pooled(View("cross", 1, 0), 4)
    assert_close(pooled, record.attention["cross"].layers[1].pooled(4)[0, 0])
    assert_close(pooled.sum(dim=1), torch.ones(4))


def test_the_strongest_links_come_first_and_the_end_token_is_left_out():
    queries = Tokens(("x", "y", "<eos>"), (0, 1, 2), ("x", "y", "<eos>"), frozenset({2}))
    weights = [[[0.6, 0.4], [0.1, 0.9], [1.0, 0.0]]]
    panel = written_down(weights, queries=queries, keys=tokens("a", "b")).panel()
    assert [(link.query, link.key) for link in panel.strongest(5)] == [(1, 1), (0, 0)]
    assert panel.strongest(1)[0].weight == pytest.approx(0.9)


def test_titles_count_from_one_and_one_layer_is_no_mean(record):
    assert record.title(View("cross", 1, 2)) == "cross attention, layer 2, head 3"
    assert record.title(View("cross", 1)) == "cross attention, layer 2, mean of 3 heads"
    assert record.title(View("cross", None, 0)) == "cross attention, head 1, mean of 2 layers"
    assert record.title(View()) == "cross attention, mean of 2 layers × 3 heads"
    single = written_down([[[1.0]]], queries=tokens("x"), keys=tokens("a"))
    assert single.title(View()) == "cross attention, layer 1, head 1"


def test_json_holds_every_number_and_name(record):
    data = json.loads(json.dumps(record.as_json()))
    for kind in KINDS:
        held = data["attention"][kind]
        assert tuple(held["keys"]["pieces"]) == record.attention[kind].keys.pieces
        for layer in range(2):
            for head in range(3):
                want = record.weights(kind, layer, head)
                got = torch.tensor(held["weights"][layer][head])
                assert_close(got, want, atol=1e-6, rtol=0)


def test_too_many_numbers_are_refused_with_a_way_out(record, monkeypatch):
    monkeypatch.setattr(record_module, "MAX_JSON_WEIGHTS", 10)
    with pytest.raises(LengthError, match=r"weights are too many to write out; at most 10\."):
        record.as_json()
    monkeypatch.setattr(record_module, "MAX_MATRIX_WEIGHTS", 10)
    with pytest.raises(LengthError, match=r"rows=, columns=.*pooled"):
        record.weights("cross")
    assert record.weights("cross", rows=slice(0, 1), columns=slice(0, 2)).shape == (1, 2)


def test_a_layer_or_head_that_does_not_exist_names_the_range(record):
    with pytest.raises(SettingError, match=r"no layer 3: cross attention has 2 layers.* 1 to 2"):
        record.weights("cross", 2)
    with pytest.raises(SettingError, match=r"no head 4: cross attention has 3 heads.* 1 to 3"):
        record.words("cross", 0, 3)
    with pytest.raises(UnknownChoice, match=r"'crss' here. Did you mean 'cross'\?"):
        record.panel(View("crss"))


def test_layers_that_look_at_other_keys_are_not_shown_by_the_same_names(record):
    one, other = record.attention["cross"], record.attention["decoder"].layers[-1]
    assert other.shape[-1] != len(one.keys)
    mixed = dataclasses.replace(one, layers=(one.layers[0], other))
    record = dataclasses.replace(record, attention={**record.attention, "cross": mixed})
    said = (
        rf"layer 2 of cross attention looks at {other.shape[-1]} keys and layer 1 at "
        rf"{len(one.keys)}, .* Look at layer 1 alone, or at another kind\."
    )
    for view in (View("cross"), View("cross", layer=1)):
        with pytest.raises(SettingError, match=said):
            record.panel(view)
    assert record.panel(View("cross", layer=0)).weights.shape[0] > 0
    assert record.panel(View("decoder")).weights.shape[0] > 0


def test_a_record_never_changes(record):
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.target = "another"
    with pytest.raises(TypeError):
        record.attention["cross"] = None
    record.weights("cross").zero_()
    assert record.weights("cross").sum() > 1


def test_slots_of_a_shortened_memory_are_no_words():
    x = torch.randn(1, 2, 3, 4)
    lazy = dataclasses.replace(Chain()(x, x, x).map, columns="memory slots")
    three = tokens("a", "b", "c")
    one = recorded([lazy], three, three, ("source", "source"))
    assert one.keys.pieces == ("slot 1", "slot 2", "slot 3")
    assert one.key_title == "key (memory slots)"
    assert Record("a b c", "", {"encoder": one}).words("encoder").shape == (3, 3)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_text_is_refused(text):
    with pytest.raises(DataError, match=r"the text is empty"):
        of_a_model(text)


def test_a_layer_that_is_not_there_is_told_how_layers_are_counted(made):
    with pytest.raises(SettingError, match=r"no layer 10: .* In Python they are counted from 0\."):
        made[0].weights("cross", 9)
