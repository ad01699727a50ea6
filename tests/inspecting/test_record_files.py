"""A saved record is the record: texts, tokens and weights, and a file that can run nothing."""

import json
import os
from dataclasses import replace
from threading import Thread

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.choices import Choice
from regard.errors import DataError, SettingError
from regard.inspecting import capture, load_record, save_record
from regard.inspecting import record_files as saving_module
from regard.inspecting.plain_data import CLASSES, Tensors, as_plain, from_plain
from regard.models import LanguageSpec
from tests.decoding.writers import SPECS, WITHOUT_SELF_ATTENTION
from tests.inspecting.hand_made import of_a, of_a_model, tokens, written_down
from tests.inspecting.mechanisms import recorded


@pytest.fixture
def path(tmp_path):
    return tmp_path / "look.safetensors"


def metadata(path):
    with saving_module.safe_open(str(path), framework="pt") as file:
        return json.loads(file.metadata()["record"])


def rewritten(path, told):
    save_file(load_file(path), path, metadata={"record": json.dumps(told)})


def test_everything_comes_back(path):
    record = replace(of_a_model()[0], note="it was cut")
    save_record(record, path)
    kept = load_record(path)
    assert (kept.source, kept.target) == (record.source, record.target)
    assert kept.note == "it was cut"
    assert dict(kept.versions) == dict(record.versions)
    assert list(kept.attention) == list(record.attention)
    for kind, one in record.attention.items():
        other = kept.attention[kind]
        assert (other.queries, other.keys) == (one.queries, one.keys)
        assert (other.mechanism, other.mask) == (one.mechanism, one.mask)
        assert (other.query_title, other.key_title) == (one.query_title, one.key_title)
        for layer in range(2):
            want = record.weights(kind, layer, 1)
            torch.testing.assert_close(kept.weights(kind, layer, 1), want, rtol=0, atol=0)
            norms = record.value_norms(kind, layer, 2)
            torch.testing.assert_close(kept.value_norms(kind, layer, 2), norms)


LANGUAGE = LanguageSpec(d_model=12, n_heads=3, d_hidden=8, n_layers=2, max_len=64)
WAYS = {
    **{f"language model, {name}": replace(LANGUAGE, attends=(Choice.parse(name),)) for name in (
        "full", "sliding_window:size=3", "blocks:size=4", "big_bird:block=2",
        "memory_compressed:stride=2",
    )},
    **{f"encoder, {name}": replace(SPECS["pre_norm"], encoder_attends=(Choice.parse(name),))
       for name in ("sliding_window:size=3", "big_bird:block=2", "linformer:slots=4")},
}  # fmt: skip
EVERYONE = {**SPECS, **WITHOUT_SELF_ATTENTION, **WAYS}
del EVERYONE["sutskever"]  # it looks nowhere


@pytest.mark.parametrize("name", EVERYONE)
def test_what_any_model_looks_at_comes_back(name, path):
    record, _ = of_a(EVERYONE[name])
    save_record(record, path)
    kept = load_record(path)
    assert list(kept.attention) == list(record.attention)
    for kind in record.attention:
        torch.testing.assert_close(kept.weights(kind), record.weights(kind), rtol=0, atol=0)


def test_a_stranger_s_attention_comes_back(path):
    layer = torch.nn.TransformerEncoderLayer(12, 4, 8, batch_first=True).eval()
    x, mask = torch.randn(2, 6, 12), torch.randn(6, 6)
    for example in range(2):
        with torch.no_grad(), capture(layer, example=example) as record:
            layer(x, src_mask=mask)
        save_record(record, path)
        kept = load_record(path)
        torch.testing.assert_close(kept.weights("self_attn"), record.weights("self_attn"))


def test_weights_that_are_no_chain_s_are_kept_one_by_one(path):
    record = written_down([[[0.25, 0.75]]], queries=tokens("chien"), keys=tokens("a", "dog"))
    save_record(record, path)
    assert load_record(path).weights("cross").tolist() == [[0.25, 0.75]]


def test_halves_take_half_the_room_and_change_no_weight_much(tmp_path):
    chain = saving_module.AttentionMap
    whole, half = tmp_path / "whole.safetensors", tmp_path / "half.safetensors"
    record, layer, _ = recorded("scaled_dot", 200, 64)
    save_record(record, whole)
    save_record(record, half, is_half=True)
    assert half.stat().st_size < 0.6 * whole.stat().st_size
    kept = load_record(half).attention["self"].layers[0]
    assert isinstance(kept, chain)
    assert (kept.query.dtype, kept.tile(slice(0, 1), slice(0, 1)).dtype) == (
        torch.float16, torch.float32,
    )  # fmt: skip
    assert float((kept.dense() - layer.dense()).abs().max()) < 1e-3


def test_a_layer_that_halves_would_change_is_kept_whole(path):
    record, layer, _ = recorded("dot", 60, 64)
    save_record(record, path, is_half=True)
    kept = load_record(path).attention["self"].layers[0]
    assert kept.query.dtype == torch.float32
    torch.testing.assert_close(kept.dense(), layer.dense())


def test_nothing_half_written_is_left(path, monkeypatch):
    record, _ = of_a_model()
    save_record(record, path)
    before = path.read_bytes()
    monkeypatch.setattr(saving_module, "save_file", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_record(record, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ({"form": "regard record 9"}, "is no record that this version reads"),
        ({"score": {"class": "Popen", "fields": {}}}, "there is no part 'Popen'"),
        ({"score": {"class": "ScaledDotScore", "fields": {"__class__": 3}}}, "has no '__class__'"),
        ({"score": {"function": "system"}}, "there is no function 'system'"),
        ({"score": {"tensor": "t999"}}, "lacks the numbers 't999'"),
        ({"score": {"import": "os"}}, "expected a number, a text or a known part"),
    ],
)
def test_a_file_can_name_nothing_but_links(spoilt, said, path):
    record, _ = of_a_model()
    save_record(record, path)
    told = metadata(path)
    if "form" in spoilt:
        told |= spoilt
    else:
        told["attention"]["cross"]["layers"][0] |= spoilt
    rewritten(path, told)
    with pytest.raises(DataError, match=said):
        load_record(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 something else"])
def test_another_file_is_refused(content, path):
    path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read as a record"):
        load_record(path)


@pytest.mark.parametrize("told", [[], None, {"attention": None}, {"attention": {"cross": []}}])
def test_data_of_another_shape_are_refused(told, path):
    save_record(of_a_model()[0], path)
    rewritten(path, {**metadata(path), **told} if told else told)
    with pytest.raises(
        DataError, match=r"look\.safetensors' is .*(made by|again with) save_record"
    ):
        load_record(path)


def test_a_number_of_thousands_of_digits_is_refused(path):
    save_file({}, path, metadata={"record": "9" * 5000})
    with pytest.raises(DataError, match=r"is not JSON \(a number has thousands of digits"):
        load_record(path)


def test_a_fifo_is_refused_and_not_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(DataError, match="is a FIFO; a file was expected"):
        load_record(path)


def test_an_object_that_is_no_link_cannot_be_written():
    with pytest.raises(SettingError, match="a Thread cannot be written as plain data"):
        as_plain(Thread(), Tensors())


def test_plain_data_comes_back_as_it_was():
    tensors = Tensors()
    one = (1, 2.5, "text", None, True, float("inf"), (3, torch.ones(2)))
    back = from_plain(json.loads(json.dumps(as_plain(one, tensors))), tensors.named.__getitem__)
    assert back[:6] == one[:6]
    assert back[6][0] == 3
    assert torch.equal(back[6][1], torch.ones(2))
    assert "SoftSelection" in CLASSES


def test_a_record_is_kept_only_in_a_folder_that_is_there(tmp_path):
    with pytest.raises(DataError, match=r"^record: there is no folder '.*nope' for 'look.*Make it"):
        save_record(of_a_model()[0], tmp_path / "nope" / "look.safetensors")
    assert not list(tmp_path.iterdir())
