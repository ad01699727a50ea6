"""Folders of transformers are opened as data: no code and no pickle of theirs is ever run."""

import json
import pickle
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import CheckpointError, DataError, LengthError, SettingError
from regard.interop.transformers_folder import open_folder
from regard.interop.transformers_texts import TextLook
from tests.bridge.folders import folder_of


class Marking:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def changed(folder, name, **settings):
    """A JSON file of the folder with other settings."""
    path = folder / name
    held = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**held, **settings}))


def refused(folder, said, error=CheckpointError):
    with pytest.raises(error, match=f"^look: --model: '{re.escape(str(folder))}.*{said}"):
        open_folder(folder)


@pytest.mark.parametrize(
    "name", ["config.json", "tokenizer_config.json", "preprocessor_config.json"]
)
def test_code_of_a_folder_is_refused_and_not_run(name, tmp_path):
    folder, marker = folder_of("bert", tmp_path), tmp_path / "marker"
    (folder / "modeling_own.py").write_text(f"open({str(marker)!r}, 'w')\n")
    changed(folder, name, auto_map={"AutoModel": "modeling_own.Model"})
    refused(folder, r"wants code of its own to be run \(auto_map: modeling_own.Model\)")
    assert not marker.exists()


def test_code_named_deeper_in_a_configuration_is_refused(tmp_path):
    folder = folder_of("bert", tmp_path)
    changed(folder, "config.json", text_config={"auto_map": {"AutoConfig": "own.Config"}})
    refused(folder, "auto_map: own.Config")


def test_a_pickle_is_refused_and_not_opened(tmp_path):
    folder, marker = folder_of("bert", tmp_path), tmp_path / "marker"
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Marking(marker)))
    refused(folder, "'pytorch_model.bin' is a pickle, which could run code and is never opened")
    assert not marker.exists()


def test_a_pickle_beside_safe_weights_is_not_opened(tmp_path):
    folder, marker = folder_of("bert", tmp_path), tmp_path / "marker"
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Marking(marker)))
    assert type(open_folder(folder).model).__name__ == "BertForMaskedLM"
    assert not marker.exists()


def test_weights_of_another_shape_are_refused(tmp_path):
    folder = folder_of("bert", tmp_path)
    changed(folder, "config.json", intermediate_size=44)
    refused(folder, r"has the shape \(40,\), and config.json says \(44,\)")


def test_missing_weights_are_refused_and_not_drawn_at_random(tmp_path):
    folder = folder_of("bert", tmp_path)
    weights = load_file(folder / "model.safetensors")
    del weights["bert.encoder.layer.1.attention.self.key.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    refused(folder, r"lacks the weights 'bert.encoder.layer.1.attention.self.key.weight'")


def test_an_adapter_and_quantised_weights_are_refused(tmp_path):
    folder = folder_of("bert", tmp_path)
    changed(folder, "config.json", quantization_config={"quant_method": "bitsandbytes"})
    refused(folder, "'quantization_config' says that the weights are quantised")
    changed(folder, "adapter_config.json", base_model_name_or_path="elsewhere")
    refused(folder, "is an adapter, whose other half is elsewhere. Merge it")


def test_more_layers_than_tensors_are_refused_before_they_are_made(tmp_path):
    folder = folder_of("bert", tmp_path)
    changed(folder, "config.json", num_hidden_layers=10**9)
    refused(folder, "'num_hidden_layers' is 1,000,000,000, and the folder has 42 tensors")


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    folder = folder_of("bert", tmp_path)
    weights = load_file(folder / "model.safetensors")
    weights["bert.encoder.layer.1.attention.self.key.weight"][3, 4] = torch.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    refused(folder, "self.key.weight' holds numbers that are NaN or infinite")


@pytest.mark.parametrize("name", ["OwnModel", None, 7, "AutoModel", "BertConfig", "logging"])
def test_an_architecture_that_transformers_lacks_is_refused(name, tmp_path):
    folder = folder_of("bert", tmp_path)
    changed(folder, "config.json", architectures=None if name is None else [name])
    refused(folder, f"'architectures' names {name!r}, which transformers .* does not have")


def test_a_kernel_that_would_be_fetched_is_not_taken(tmp_path):
    folder = folder_of("bert", tmp_path)
    changed(folder, "config.json", _attn_implementation="someone/kernel", attn_implementation="x/y")
    assert open_folder(folder).model.config._attn_implementation == "eager"


@pytest.mark.parametrize("damage", [b"", b"no json", b'{"architectures": ', b"[]"])
def test_a_damaged_configuration_is_refused(damage, tmp_path):
    folder = folder_of("bert", tmp_path)
    (folder / "config.json").write_bytes(damage)
    refused(folder, "")


def test_damaged_weights_are_refused(tmp_path):
    folder = folder_of("bert", tmp_path)
    (folder / "model.safetensors").write_bytes(b"\x00" * 64)
    with pytest.raises((CheckpointError, DataError), match=r"model\.safetensors"):
        open_folder(folder)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path):
    folder = folder_of("bert", tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    refused(folder, "does not say how its inputs are made .* such as tokenizer.json")


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    folder = folder_of("bert", tmp_path, vocab_size=9)
    said = "has a tokenizer with a token .* BertForMaskedLM knows 9: they are of different models"
    with pytest.raises(CheckpointError, match=said):
        TextLook(open_folder(folder)).record("the quick brown fox")


def test_a_folder_that_is_none_is_told_that_nothing_is_downloaded(tmp_path):
    said = "^look: --model: there is no folder .*Nothing is downloaded"
    with pytest.raises(CheckpointError, match=said):
        open_folder(tmp_path / "bert-base")


def test_a_model_of_sounds_is_told_what_can_be_looked_at(tmp_path):
    folder = folder_of("whisper", tmp_path)
    refused(folder, "WhisperForConditionalGeneration reads input_features")


def test_a_text_longer_than_the_model_reads_is_refused(tmp_path):
    look = TextLook(open_folder(folder_of("bert", tmp_path)))
    with pytest.raises(LengthError, match=r"the text has .* tokens, and the model reads 40"):
        look.record("the quick brown fox " * 20)


@pytest.mark.parametrize(("text", "error"), [("", DataError), ("  ", DataError)])
def test_an_empty_text_is_refused(text, error, tmp_path):
    with pytest.raises(error, match="the text is empty"):
        TextLook(open_folder(folder_of("bert", tmp_path))).record(text)


def test_a_model_that_reads_takes_no_target_and_writes_nothing(tmp_path):
    look = TextLook(open_folder(folder_of("bert", tmp_path)))
    with pytest.raises(SettingError, match="reads a text at once, so --target"):
        look.record("the fox", "a dog")
    with pytest.raises(SettingError, match="writes no words, so --max-tokens 3"):
        look.record("the fox", max_tokens=3)


def weights_by_eager(look, **inputs):
    with torch.no_grad():
        return look.published.model(**inputs, output_attentions=True)


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2"])
def test_a_text_is_shown_by_the_words_and_weights_of_the_model(name, tmp_path):
    look = TextLook(open_folder(folder_of(name, tmp_path)))
    record = look.record("the quick brown fox")
    (kind, one), *others = record.attention.items()
    assert not others
    words = [one.keys.names[i] for i in range(len(one.keys.names)) if i not in one.keys.specials]
    assert words == ["the", "quick", "brown", "fox"]
    ids = torch.tensor([look.published.reader("the quick brown fox")["input_ids"]])
    want = weights_by_eager(look, input_ids=ids).attentions[1][0, 2]
    torch.testing.assert_close(record.weights(kind, 1, 2), want, atol=5e-6, rtol=0)


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_an_answer_is_shown_over_its_source(name, tmp_path):
    look = TextLook(open_folder(folder_of(name, tmp_path)))
    record = look.record("the quick brown fox", "a lazy dog")
    assert list(record.attention) == ["encoder", "decoder", "cross"]
    cross = record.attention["cross"]
    assert record.target == "a lazy dog"
    assert cross.queries.names == ("a", "lazy", "dog", "</s>")
    assert cross.keys.names == ("the", "quick", "brown", "fox", "</s>")
    reader, model = look.published.reader, look.published.model
    source, answer = (
        torch.tensor([reader(text)["input_ids"]]) for text in ("the quick brown fox", "a lazy dog")
    )
    begin = torch.full((1, 1), model.config.decoder_start_token_id)
    given = torch.cat([begin, answer[:, :-1]], 1)
    want = weights_by_eager(look, input_ids=source, decoder_input_ids=given)
    torch.testing.assert_close(
        record.weights("cross", 1, 2), want.cross_attentions[1][0, 2], atol=5e-6, rtol=0
    )


def test_an_answer_of_its_own_is_what_generate_writes(tmp_path):
    look = TextLook(open_folder(folder_of("bart", tmp_path)))
    record = look.record("the quick brown fox", max_tokens=5)
    ids = torch.tensor([look.published.reader("the quick brown fox")["input_ids"]])
    written = look.published.model.generate(ids, max_new_tokens=5, do_sample=False)[0]
    assert len(record.attention["cross"].queries) == len(written) - 1
    assert record.target == look.published.reader.decode(written, skip_special_tokens=True).strip()


def test_a_language_model_may_write_on(tmp_path):
    record = TextLook(open_folder(folder_of("llama", tmp_path))).record("the quick", max_tokens=4)
    assert record.source.startswith("the quick")
    assert len(record.attention["decoder"].queries) > 3
