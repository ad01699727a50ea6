"""What the bridge cannot honour is refused by name, and a model it cannot reach is left alone."""

import subprocess
import sys

import pytest
import torch
import transformers
from torch import nn

import regard
from regard.attention import Chain
from regard.attention.memories.linformer import LinformerMemory
from regard.attention.scores.additive import AdditiveScore
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.bridge import SoftCappedScore, attach
from regard.bridge.interface import attention
from regard.dims import Dims
from regard.errors import MeetingError, SettingError
from tests.bridge.small_models import model_of, text


def test_a_made_up_argument_is_refused_by_name():
    model = model_of("llama")
    said = (
        "^bridge: LlamaAttention passes moon_phase to its attention, which our chains do not know; "
        "they know dropout, is_causal, position_bias, s_aux, scaling, softcap. Leave it out"
    )
    with attach(model), pytest.raises(SettingError, match=said):
        model(input_ids=text(), moon_phase=0.25)


def test_an_argument_without_a_value_asks_for_nothing():
    model, ids = model_of("llama"), text()
    with torch.no_grad(), attach(model):
        assert torch.equal(
            model(input_ids=ids, moon_phase=None).logits, model(input_ids=ids).logits
        )


def test_sinks_that_the_chain_lacks_are_refused():
    x = torch.randn(1, 2, 5, 4)
    said = r"^bridge: Module passes sinks \(s_aux\) to its attention, and its chain has none"
    with pytest.raises(SettingError, match=said):
        attention(nn.Module(), x, x, x, s_aux=torch.zeros(2))


def test_only_a_softmax_keeps_the_sinks_of_a_model():
    with pytest.raises(MeetingError, match=r"has sinks, .* the chain has sparsemax. Take soft"):
        attach(model_of("gpt_oss"), chain=Chain(select=SparsemaxSelection()))


def test_the_blocks_that_a_model_chooses_for_itself_are_refused_by_name():
    x = torch.randn(1, 2, 5, 4)
    with pytest.raises(SettingError, match="Module passes indices to its attention"):
        attention(nn.Module(), x, x, x, indices=torch.zeros(2))


@pytest.mark.parametrize("cap", [None, 3.0])
def test_a_soft_cap_that_the_chain_lacks_is_refused(cap):
    x, module = torch.randn(1, 2, 5, 4), nn.Module()
    if cap is not None:
        module.regard_chain = Chain(SoftCappedScore(cap))
    said = rf"^bridge: Module passes softcap=2.0 to its attention, and its chain caps its .* {cap}"
    with pytest.raises(SettingError, match=said):
        attention(module, x, x, x, softcap=2.0)


def test_a_cap_of_a_chain_that_the_model_does_not_ask_for_is_refused():
    model = model_of("llama")
    with (
        attach(model, chain=Chain(SoftCappedScore(2.0))),
        pytest.raises(SettingError, match="=None"),
    ):
        model(input_ids=text())


def test_only_a_scaled_dot_product_keeps_the_cap_of_a_model():
    chain = Chain(AdditiveScore(Dims(d_model=24, n_heads=4).head()))
    with pytest.raises(
        MeetingError, match=r"caps its scores at 2.0.*has additive. Take scaled_dot"
    ):
        attach(model_of("gemma2"), chain=chain)


def test_a_soft_cap_below_zero_is_refused():
    with pytest.raises(SettingError, match="soft cap: the cap must be above 0, got -1"):
        SoftCappedScore(-1.0)


def test_an_architecture_with_its_own_attention_is_refused_and_left_alone():
    config = transformers.BigBirdConfig(
        vocab_size=61, hidden_size=24, num_hidden_layers=1, num_attention_heads=4,
        intermediate_size=40, attention_type="original_full",
    )  # fmt: skip
    model = transformers.BigBirdModel(config)
    said = "^bridge: BigBirdModel computes its attention by itself.*regard import says"
    with pytest.raises(SettingError, match=said):
        attach(model)
    assert model.config._attn_implementation != "regard"


def test_an_architecture_with_some_attention_of_its_own_is_refused():
    # its encoder adds masks of floats by hand, its decoder goes through the interface
    config = transformers.BigBirdPegasusConfig(
        vocab_size=61, d_model=24, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, block_size=2,
    )  # fmt: skip
    model = transformers.BigBirdPegasusForConditionalGeneration(config)
    with pytest.raises(SettingError, match=r"^bridge: BigBirdPegasusBlockSparse"):
        attach(model)


def test_a_record_says_which_attention_is_not_in_it():
    config = transformers.MiniMaxConfig(
        vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, head_dim=6,
        num_key_value_heads=2, intermediate_size=20, num_local_experts=2, num_experts_per_tok=1,
        layer_types=["linear_attention", "full_attention"], block_size=4,
    )  # fmt: skip
    model = transformers.MiniMaxForCausalLM(config).eval()
    with torch.no_grad(), regard.capture(model) as record:
        model(input_ids=text())
    assert len(record.attention["decoder"].layers) == 1
    assert record.note == (
        "MiniMaxLightningAttention computes its attention by hand, and is not in this record."
    )


def test_what_is_no_model_of_transformers_is_told_what_to_do():
    with pytest.raises(SettingError, match=r"got Linear, in which no.*regard.capture\(model\)"):
        attach(nn.Linear(2, 2))


def test_a_memory_cannot_stand_in_a_layer_that_writes():
    chain = Chain(memory=LinformerMemory(Dims(d_model=24, n_heads=4, max_len=16).head()))
    with pytest.raises(MeetingError, match=r"model.layers.0.self_attn writes from left to right"):
        attach(model_of("llama"), chain=chain)


@pytest.mark.parametrize("name", [7, "layers.9", ("encoder", 5)])
def test_a_mapping_that_names_no_layer_is_refused(name):
    with pytest.raises(SettingError, match=r"^attach: the mapping has a chain for .*Known: "):
        attach(model_of("bert"), chain={name: Chain()})


def test_a_missing_package_is_named_with_its_extra():
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "import torch, regard\n"
        "class Model(torch.nn.Module):\n"
        "    def set_attn_implementation(self, name): pass\n"
        "try:\n    regard.attach(Model())\nexcept regard.RegardError as error:\n    print(error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Install regard[transformers]" in ran.stdout


@pytest.mark.parametrize("chain", [SparsemaxSelection(), Chain])
def test_what_is_no_chain_is_refused_and_the_model_left_alone(chain):
    model = model_of("gpt2")
    with pytest.raises(SettingError, match=r"^attach: chain must be a Chain, got .* Write chain=C"):
        attach(model, chain=chain)
    assert model.config._attn_implementation == "eager"


def test_the_later_of_two_attachments_goes_first():
    model = model_of("gpt2")
    first, second = attach(model), attach(model)
    with pytest.raises(SettingError, match=r"^attach: .* was attached again since.*Call its det"):
        first.detach()
    second.detach()
    first.detach()
    first.detach()
    assert model.config._attn_implementation == "eager"
    assert repr(first).startswith("Attachment(GPT2LMHeadModel: 2 layers")
