"""What cannot be imported is refused, and the message names the tensor, the file or the setting."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import CheckpointError, RunError, UnknownChoice
from regard.interop.importing import import_run, read_published
from tests.interop.importing.published import bert, change, gpt2, marian, rewrite


@pytest.fixture
def folder(tmp_path):
    return bert(tmp_path / "bert")[0]


@pytest.mark.parametrize(
    ("name", "architecture", "said"),
    [
        ("distilbert", "DistilBertForMaskedLM",
         "an encoder; of those, bert, roberta, xlm-roberta and big_bird"),
        ("electra", "ElectraModel",
         "an encoder; of those, bert, roberta, xlm-roberta and big_bird"),
        ("pegasus", "PegasusForConditionalGeneration",
         "an encoder-decoder; of those, marian, bart, mbart, m2m_100 and t5"),
        ("opt", "OPTForCausalLM",
         "a language model; of those, gpt2, llama, qwen2 and qwen3"),
        ("gpt_bigcode", "GPTBigCodeLMHeadModel",
         "a language model; of those, gpt2, llama, qwen2 and qwen3"),
    ],
)  # fmt: skip
def test_an_unknown_architecture_is_named_with_those_that_are_nearest(
    folder, name, architecture, said
):
    rewrite(folder / "config.json", model_type=name, architectures=[architecture])
    with pytest.raises(CheckpointError) as caught:
        read_published(folder)
    assert str(caught.value) == (
        f"import: '{folder}' holds a model of type '{name}', which is not read here. It is {said} "
        f"are read. It can be looked at as it is: regard look --model {folder}."
    )


@pytest.mark.parametrize("name", [None, ["bert"]])
def test_an_architecture_is_a_word(folder, name):
    rewrite(folder / "config.json", model_type=name)
    with pytest.raises(CheckpointError, match="'model_type' must be a str, got "):
        read_published(folder)


def test_a_missing_tensor_is_named(folder):
    change(folder, lambda held: held.pop("bert.encoder.layer.1.output.dense.bias"))
    with pytest.raises(CheckpointError, match=r"lacks 'encoder\.layer\.1\.output\.dense\.bias'"):
        read_published(folder)


def test_a_tensor_left_over_is_named(folder):
    change(folder, lambda held: held.update({"bert.adapter.weight": torch.zeros(2)}))
    with pytest.raises(CheckpointError, match=r"has besides 'bert\.adapter|has besides 'adapter"):
        read_published(folder)


def test_a_head_that_has_no_place_here_says_what_can_be_done(tmp_path):
    folder, _ = bert(tmp_path / "headless", has_head=False)
    change(folder, lambda held: held.update({"classifier.weight": torch.zeros(2, 24)}))
    with pytest.raises(
        CheckpointError, match=r"besides 'classifier\.weight'\. .*save it so .*Auto"
    ):
        read_published(folder)


def test_weights_that_are_missing_are_of_another_model(folder):
    change(folder, lambda held: held.pop("bert.encoder.layer.1.output.dense.bias"))
    with pytest.raises(
        CheckpointError, match=r"Take config\.json and all weights from one model\."
    ):
        read_published(folder)


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int64, torch.bool])
def test_weights_that_are_no_floating_point_numbers_are_named(folder, kind):
    name = "encoder.layer.1.output.dense.weight"
    change(folder, lambda held: held.update({f"bert.{name}": held[f"bert.{name}"].to(kind)}))
    said = str(kind).removeprefix("torch.")
    with pytest.raises(CheckpointError, match=f"'{name}' must hold floating-point .* got {said}: "):
        read_published(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e300])
def test_weights_that_are_not_finite_are_named_and_counted(folder, value):
    name = "encoder.layer.0.attention.self.query.weight"

    def spoil(held):
        spoilt = held[f"bert.{name}"].double()
        spoilt[3, :2] = value
        held[f"bert.{name}"] = spoilt

    change(folder, spoil)
    with pytest.raises(CheckpointError, match=f"'{name}': 2 of 576 numbers are NaN or infinite"):
        read_published(folder)


def test_a_spoilt_table_is_named_before_its_copy_is_looked_at(tmp_path):
    folder, _ = gpt2(tmp_path / "gpt2")

    def spoil(held):
        held["transformer.wte.weight"][0, 0] = float("nan")
        held["lm_head.weight"] = held["transformer.wte.weight"].clone()

    change(folder, spoil)
    with pytest.raises(CheckpointError, match=r"'wte\.weight': 1 of "):
        read_published(folder)


def test_a_layer_more_than_the_configuration_says_is_left_over(folder):
    rewrite(folder / "config.json", num_hidden_layers=1)
    with pytest.raises(CheckpointError, match="and 11 more"):
        read_published(folder)


def test_a_wrong_shape_is_named_with_both_shapes(folder):
    rewrite(folder / "config.json", intermediate_size=48)
    with pytest.raises(
        CheckpointError, match=r"intermediate\.dense\.weight' \(40, 24\).*\(48, 24\)"
    ):
        read_published(folder)


def test_a_vocabulary_of_another_model_is_refused(folder):
    change(folder, lambda held: held.update(_fewer_rows(held)))
    with pytest.raises(
        CheckpointError, match=r"number 29, but 'embeddings\.word_embeddings\.weight'"
    ):
        read_published(folder)


@pytest.mark.parametrize("length", [29, 31])
def test_a_bias_of_another_length_than_its_table_is_named(folder, length):
    change(folder, lambda held: held.update({"cls.predictions.bias": torch.zeros(length)}))
    with pytest.raises(
        CheckpointError, match=rf"'cls\.predictions\.bias' must have a number for .* got {length}"
    ):
        read_published(folder)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (bert, "bert.embeddings.word_embeddings.weight"),
        (bert, "bert.encoder.layer.0.output.dense.weight"),
        (gpt2, "transformer.h.0.attn.c_attn.weight"),
        (gpt2, "transformer.h.1.mlp.c_fc.weight"),
    ],
)
@pytest.mark.parametrize("shape", [(), (24,), (2, 2, 6)])
def test_a_tensor_with_another_number_of_dimensions_is_named(tmp_path, make, name, shape):
    folder, _ = make(tmp_path / "published")
    change(folder, lambda held: held.update({name: torch.zeros(shape)}))
    said = name.removeprefix("bert.").removeprefix("transformer.")
    with pytest.raises(CheckpointError, match=f"'{said}' must have 2 dimensions, got {len(shape)}"):
        read_published(folder)


def test_a_row_of_three_tensors_that_is_too_narrow_is_named(tmp_path):
    folder, _ = gpt2(tmp_path / "gpt2")
    change(folder, lambda held: held.update({"transformer.h.0.attn.c_attn.bias": torch.zeros(2)}))
    with pytest.raises(CheckpointError, match=r"'h\.0\.attn\.c_attn\.bias' \(2,\) does not fit"):
        read_published(folder)


def _fewer_rows(held):
    name, bias = "bert.embeddings.word_embeddings.weight", "cls.predictions.bias"
    return {name: held[name][:20].clone(), bias: held[bias][:20].clone()}


def test_an_output_layer_that_is_not_the_embedding_is_refused(tmp_path):
    folder, _ = gpt2(tmp_path / "gpt2")
    change(folder, lambda held: held.update({"lm_head.weight": held["transformer.wte.weight"] + 1}))
    with pytest.raises(CheckpointError, match=r"'lm_head\.weight' must be equal to 'wte\.weight'"):
        read_published(folder)


@pytest.mark.parametrize(
    ("make", "setting", "value"),
    [
        (bert, "position_embedding_type", "relative_key"),
        (bert, "is_decoder", True),
        (bert, "hidden_act", "mish"),
        (marian, "normalize_before", True),
        (marian, "normalize_embedding", True),
        (marian, "decoder_ffn_dim", 44),
        (gpt2, "scale_attn_by_inverse_layer_idx", True),
    ],
)
def test_a_switch_that_does_not_work_here_is_an_error(tmp_path, make, setting, value):
    folder, _ = make(tmp_path / "published")
    rewrite(folder / "config.json", **{setting: value})
    with pytest.raises(CheckpointError, match=f"'{setting}'"):
        read_published(folder)


def test_a_size_that_is_no_number_is_an_error(folder):
    rewrite(folder / "config.json", hidden_size="24")
    with pytest.raises(CheckpointError, match="'hidden_size' must be a int, got '24'"):
        read_published(folder)


def test_a_pickle_is_never_opened(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"pytorch_model\.bin' is a pickle"):
        read_published(folder)
    (folder / "pytorch_model.bin").unlink()
    said = r"has no model\.safetensors\. Fetch the model's weights into the folder too"
    with pytest.raises(CheckpointError, match=said):
        read_published(folder)


def test_a_folder_without_a_vocabulary_or_a_configuration_is_an_error(folder):
    (folder / "tokenizer.json").unlink()
    with pytest.raises(CheckpointError, match="has no vocabulary"):
        read_published(folder)
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        read_published(folder)


def test_a_tokenizer_that_cuts_otherwise_is_refused(folder):
    content = json.loads((folder / "tokenizer.json").read_text())
    rewrite(folder / "tokenizer.json", pre_tokenizer={"type": "Whitespace"})
    with pytest.raises(CheckpointError, match="'pre_tokenizer' must be 'BertPreTokenizer'"):
        read_published(folder)
    content["model"]["type"] = "WordPeace"
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(UnknownChoice, match="WordPiece"):
        read_published(folder)


def test_weights_in_several_files_are_one_model(folder):
    whole = read_published(folder).weights
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, some in parts.items():
        save_file({name: tensors[name] for name in some}, folder / file)
    (folder / "model.safetensors").unlink()
    places = {name: file for file, some in parts.items() for name in some}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    again = read_published(folder).weights
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_names_of_an_older_habit_are_read(folder):
    whole = read_published(folder).weights

    def older(held):
        for name in [name for name in held if "LayerNorm" in name]:
            new = name.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta")
            held[new] = held.pop(name)

    change(folder, older)
    again = read_published(folder).weights
    assert all(torch.equal(whole[name], again[name]) for name in whole)


def test_a_run_is_never_overwritten(folder, tmp_path):
    import_run(folder, tmp_path / "run")
    with pytest.raises(RunError, match="is not empty"):
        import_run(folder, tmp_path / "run")
