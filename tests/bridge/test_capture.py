"""Captures of other people's models: transformers', and those that call torch's attention."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import regard
from regard.bridge import attach
from regard.errors import SettingError
from regard.inspecting import head_statistics, load_record, rollout, save_record
from regard.plots import plain_words, record_page
from tests.bridge.small_models import SMALL, inputs_of, model_of, text

CLOSE = {"atol": 5e-6, "rtol": 0}


def eager_weights(model, inputs):
    """Every weight of a pass by the model's own code, by kind."""
    output = model(**inputs, output_attentions=True)
    names = {
        "encoder": ("attentions", "encoder_attentions"),
        "decoder": ("attentions", "decoder_attentions"),
        "cross": ("cross_attentions",),
    }
    return {
        kind: next(found for name in known if (found := output.get(name)))
        for kind, known in names.items()
        if any(output.get(name) for name in known)
    }


@pytest.mark.parametrize("name", [name for name in SMALL if name not in ("clip", "albert")])
def test_a_record_holds_the_weights_that_the_model_itself_gives(name):
    model, inputs = model_of(name), inputs_of(name)
    with torch.no_grad():
        want = eager_weights(model, inputs)
        with regard.capture(model, example=1) as record:
            model(**inputs)
    assert set(record.attention) <= set(want)
    assert record.attention
    for kind, one in record.attention.items():
        assert len(one.layers) == len(want[kind])
        for layer, weights in enumerate(want[kind]):
            for head in range(weights.shape[1]):
                got = record.weights(kind, layer, head)
                torch.testing.assert_close(got, weights[1, head], **CLOSE)


def test_of_a_layer_that_runs_several_times_the_last_run_is_recorded():
    model, inputs = model_of("albert"), inputs_of("albert")
    with torch.no_grad(), regard.capture(model) as record:
        want = model(**inputs, output_attentions=True).attentions
    (one,) = record.attention["encoder"].layers
    torch.testing.assert_close(one.tile(slice(None), slice(None))[0], want[-1][0], **CLOSE)


def test_both_towers_of_a_model_are_recorded():
    model, inputs = model_of("clip"), inputs_of("clip")
    with torch.no_grad(), regard.capture(model) as record:
        output = model(**inputs, output_attentions=True)
    text_kind, vision_kind = (
        f"{side}_model.encoder.layers.self_attn" for side in ("text", "vision")
    )
    assert set(record.attention) == {text_kind, vision_kind}
    for kind, seen in (
        (text_kind, output.text_model_output),
        (vision_kind, output.vision_model_output),
    ):
        torch.testing.assert_close(record.weights(kind, 1, 2), seen.attentions[1][0, 2], **CLOSE)


def test_a_model_is_attached_for_the_time_of_the_capture_alone():
    model = model_of("bert")
    with torch.no_grad(), regard.capture(model):
        assert model.config._attn_implementation == "regard"
        model(input_ids=text())
    assert model.config._attn_implementation == "eager"
    assert not any("regard" in name for name, _ in model.named_modules())


@pytest.mark.parametrize(
    ("name", "kind", "place"),
    [
        ("llama", "decoder", "model.layers.1.self_attn.o_proj"),
        ("t5", "cross", "decoder.block.1.layer.1.EncDecAttention.o"),
        ("distilbert", "encoder", "distilbert.transformer.layer.1.attention.out_lin"),
    ],
)
def test_values_are_as_long_as_what_they_add_to_the_output(name, kind, place):
    model, inputs = model_of(name), inputs_of(name)
    with torch.no_grad(), regard.capture(model) as record:
        model(**inputs)
    value = record.attention[kind].layers[1].map.value[0, 2]
    joins = model.get_submodule(place).weight[:, 12:18].detach()
    got = record.value_norms(kind, 1, 2)
    torch.testing.assert_close(got, (value @ joins.T).norm(dim=-1), atol=1e-5, rtol=1e-5)


class Classifier(nn.Module):
    """A model of a user, around one of transformers, with an attention of its own."""

    def __init__(self):
        super().__init__()
        self.reader, self.joins = model_of("bert"), nn.MultiheadAttention(24, 3, batch_first=True)
        self.by_calls = Nano()

    def forward(self, ids):
        x = self.reader.bert(input_ids=ids).last_hidden_state
        return self.by_calls(self.joins(x, x, x)[0][..., :12])


def test_every_attention_of_a_mixed_model_is_in_one_record():
    model, ids = Classifier().eval(), text()
    with torch.no_grad():
        want = model.reader(input_ids=ids, output_attentions=True).attentions
        with regard.capture(model) as record:
            model(ids)
    assert set(record.attention) == {"encoder", "joins", "by_calls.h"}
    assert record.note is None
    torch.testing.assert_close(record.weights("encoder", 1, 2), want[1][0, 2], **CLOSE)
    assert model.reader.config._attn_implementation == "eager"


def test_an_attached_model_stays_attached():
    model = model_of("bert")
    with attach(model), torch.no_grad():
        with regard.capture(model):
            model(input_ids=text())
        assert model.config._attn_implementation == "regard"


def test_a_record_outlives_training_and_is_captured_with_gradients_on():
    model, ids = model_of("t5"), text()
    with regard.capture(model) as record:
        loss = model(input_ids=ids, labels=text()).loss
    before = record.weights("encoder", 1, 2)
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(parameter.grad if parameter.grad is not None else 0.0)
    assert torch.equal(record.weights("encoder", 1, 2), before)


def test_a_capture_of_a_long_text_holds_no_matrix():
    model, ids = model_of("llama", max_position_embeddings=4096), text(1, 3000)
    mask = torch.ones_like(ids)
    mask[:, :7] = 0
    with torch.no_grad(), regard.capture(model) as record:
        model(input_ids=ids, attention_mask=mask, use_cache=False)
    one = record.attention["decoder"].layers[0]
    held = [one.query, one.key, one.value, *one.rows, *vars(one.mask.parts[1]).values()]
    assert max(tensor.numel() for tensor in held) <= 4 * 3000 * 24
    assert record.weights("decoder", 1, 0, rows=slice(2990, 3000)).sum().item() == pytest.approx(10)


def test_a_record_of_another_model_is_drawn_counted_and_kept(tmp_path):
    model, ids = model_of("bert"), text(1)
    names = [[f"w{i}" for i in range(ids.shape[1])]]
    with torch.no_grad(), regard.capture(model, names=names) as record:
        model(input_ids=ids)
    view = regard.inspecting.View("encoder")
    assert "w3" in plain_words(record, view)
    assert "w3" in record_page(record, view)
    assert head_statistics(record, "encoder")
    assert rollout(record, "encoder").shape == (11, 11)
    save_record(record, tmp_path / "record.safetensors")
    again = load_record(tmp_path / "record.safetensors")
    torch.testing.assert_close(
        again.weights("encoder", 1, 2), record.weights("encoder", 1, 2), **CLOSE
    )


class NanoAttention(nn.Module):
    """Causal self-attention as small models of language write it."""

    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(12, 36), nn.Linear(12, 12)

    def forward(self, x):
        split = self.c_attn(x).unflatten(-1, (3, 4, 3)).permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(*split, is_causal=True)
        return self.c_proj(heads.transpose(1, 2).flatten(-2))


class Nano(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = nn.ModuleList(NanoAttention() for _ in range(2))

    def forward(self, x):
        for block in self.h:
            x = x + block(x)
        return x


def test_a_model_that_calls_torch_s_attention_itself_is_heard_and_unchanged():
    model, x = Nano(), torch.randn(2, 9, 12)
    with torch.no_grad():
        want = model(x)
        with regard.capture(model, example=1) as record:
            got = model(x)
    assert torch.equal(got, want)
    assert list(record.attention) == ["h"]
    assert len(record.attention["h"].layers) == 2
    query, key, _ = model.h[0].c_attn(x[1]).unflatten(-1, (3, 4, 3)).permute(1, 2, 0, 3)
    scores = (query[2] @ key[2].T / math.sqrt(3)).masked_fill(~torch.ones(9, 9).tril().bool(), -1e9)
    torch.testing.assert_close(record.weights("h", 0, 2), scores.softmax(-1), **CLOSE)


MASKS = {
    "none": None,
    "boolean": torch.tensor([True] * 6 + [False]).view(1, 1, 1, 7),
    "additive": torch.linspace(-2, 2, 35).view(5, 7),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("n_groups", [4, 2])
def test_each_argument_of_torch_s_attention_is_in_the_record(name, scale, n_groups):
    query, key = torch.randn(2, 4, 5, 3), torch.randn(2, n_groups, 7, 3)
    # the identity as values gives the weights
    value, settings = torch.eye(7).expand(2, n_groups, 7, 7), {"enable_gqa": n_groups < 4}

    class Caller(nn.Module):
        def forward(self, query):
            return functional.scaled_dot_product_attention(
                query, key, value, MASKS[name], scale=scale, **settings
            )

    model = Caller()
    with torch.no_grad(), regard.capture(model, example=1) as record:
        want = model(query)
    for head in range(4):
        torch.testing.assert_close(record.weights("self", 0, head), want[1, head], **CLOSE)


class Deaf(nn.Module):
    def forward(self, x):
        return (x @ x.mT).softmax(-1) @ x


def test_a_capture_that_heard_nothing_says_what_to_do():
    model = Deaf()
    said = r"this Deaf was called.*every call of F.scaled_dot_product_attention.*write F.scaled_dot"
    with pytest.raises(SettingError, match=said), regard.capture(model):
        model(torch.randn(1, 4, 3))


def test_a_call_outside_of_the_model_is_not_the_model_s():
    x = torch.randn(1, 2, 4, 3)
    with (
        pytest.raises(SettingError, match="no call of this Nano was heard"),
        regard.capture(Nano()),
    ):
        functional.scaled_dot_product_attention(x, x, x)


def test_torch_s_own_attention_is_heard_on_its_fast_path():
    layer = nn.TransformerEncoderLayer(12, 4, 8, batch_first=True).eval()
    x = torch.randn(1, 7, 12)
    calls, real = [], torch._transformer_encoder_layer_fwd
    with pytest.MonkeyPatch.context() as patched, torch.no_grad(), regard.capture(layer) as record:
        patched.setattr(
            torch, "_transformer_encoder_layer_fwd", lambda *args: calls.append(1) or real(*args)
        )
        layer(x)
    assert calls == [1]
    assert list(record.attention) == ["self_attn"]
