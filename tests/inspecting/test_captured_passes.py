"""Capture: a record of whatever ran, ours or torch's, that equals what ran and changes nothing."""

import pickle
import warnings

import pytest
import torch
from torch import nn

from regard.attention.chain import Chain
from regard.choices import Choice
from regard.errors import SettingError
from regard.inspecting import capture
from regard.models import EncoderSpec, build_encoder
from regard.models.recurrent.attention import SourceAttention
from tests.decoding.writers import (
    SPECS,
    WITHOUT_SELF_ATTENTION,
    language_model,
    other_model,
    transformer,
)
from tests.models.captioner.small import SPECS as CAPTIONERS
from tests.models.captioner.small import annotations, build, read

SOURCE, TARGET = torch.tensor([[5, 6, 7, 4, 2], [5, 8, 2, 0, 0]]), torch.tensor([[1, 9], [1, 8]])
WHOLE = slice(None), slice(None)


def contexts_of(model):
    """What every chain of a model gives out from now on, by its place."""
    seen = {}
    for name, part in model.named_modules():
        if isinstance(part, Chain):
            part.register_forward_hook(
                lambda _, __, out, name=name: seen.__setitem__(name, out.context)
            )
    return seen


def densely(model):
    """The same model; its chains take no fast path any more."""
    for part in model.modules():
        if isinstance(part, Chain):
            part.path = "dense"
    return model


def assert_the_record_gives_what_the_layers_gave(model, *given, example=1, count):
    """Weights rebuilt from the record, times values, are what every chain gave out."""
    seen = contexts_of(model)
    with torch.no_grad(), capture(model, example=example) as record:
        model(*given)
    layers = [layer for one in record.attention.values() for layer in one.layers]
    assert len(layers) == len(seen) == count
    for context in seen.values():
        apart = [float((one.context()[0] - context[example]).abs().max()) for one in layers
                 if one.context()[0].shape == context[example].shape]  # fmt: skip
        assert min(apart) < 1e-6


@pytest.mark.parametrize("form", [lambda model: model, densely], ids=["as it is", "dense"])
@pytest.mark.parametrize("name", sorted(SPECS))
def test_weights_times_values_are_what_every_layer_of_a_transformer_gave_out(name, form):
    model = form(transformer(name).eval())
    assert_the_record_gives_what_the_layers_gave(model, SOURCE, TARGET, count=5)


SMALL = {"d_model": 16, "n_heads": 2, "d_hidden": 24, "n_layers": 2, "max_len": 20}
READERS = {
    "words": EncoderSpec(task="words", **SMALL),
    "label": EncoderSpec(task="label", **SMALL, norm="pre_norm"),
    "tags": EncoderSpec(task="tags", **SMALL, positions=Choice("rotary")),
}


@pytest.mark.parametrize("form", [lambda model: model, densely], ids=["as it is", "dense"])
@pytest.mark.parametrize("name", READERS)
def test_weights_times_values_are_what_every_layer_of_a_reader_gave_out(name, form):
    built = build_encoder(READERS[name], n_source_tokens=11, n_target_tokens=11)
    model = form(built.network.double().eval())
    n_layers = sum(isinstance(part, Chain) for part in model.modules())
    assert_the_record_gives_what_the_layers_gave(model, SOURCE, count=n_layers)


@pytest.mark.parametrize("form", [lambda model: model, densely], ids=["as it is", "dense"])
@pytest.mark.parametrize("name", sorted(SPECS))
def test_weights_times_values_are_what_every_layer_of_a_language_model_gave_out(name, form):
    model = form(language_model(name).eval())
    n_layers = sum(isinstance(part, Chain) for part in model.modules())
    assert_the_record_gives_what_the_layers_gave(model, SOURCE, count=n_layers)


@pytest.mark.parametrize("name", sorted(WITHOUT_SELF_ATTENTION.keys() - {"sutskever"}))
def test_weights_times_states_are_what_every_other_model_read(name):
    model, read = other_model(name).eval(), []
    for part in model.modules():
        if isinstance(part, SourceAttention):
            part.register_forward_hook(lambda _, __, out: read.append(out[0].squeeze(1)))
    seen = contexts_of(model)
    with torch.no_grad(), capture(model) as record:
        model(SOURCE[:1], TARGET[:1])
    # the record's own pass asks again
    stepped = [torch.stack(read[: TARGET.shape[1]], 1)] if read else []
    contexts = stepped or [context[:, 0] for context in seen.values()]
    layers = record.attention["cross"].layers
    assert len(layers) == len(contexts)
    for layer, context in zip(layers, contexts, strict=True):
        states = (
            layer.value if layer.value is not None else model.encode(SOURCE[:1]).states[:, None]
        )
        got = layer.tile(*WHOLE) @ states.detach()
        torch.testing.assert_close(got[:, 0].reshape(context.shape), context)


@pytest.mark.parametrize("name", sorted(CAPTIONERS))
def test_a_captioner_s_looks_at_its_picture_are_recorded(name):
    model, picture, words = build(CAPTIONERS[name]), annotations(1), read(1, 4)
    seen = contexts_of(model)
    with torch.no_grad(), capture(model) as record:
        model(picture, words)
    layers = record.attention["cross"].layers
    with torch.no_grad():
        want = model.maps(picture, words)["cross"]
    assert len(layers) == len(want)
    for layer, one in zip(layers, want, strict=True):
        torch.testing.assert_close(layer.tile(*WHOLE), one.dense().detach())
    # an LSTM keeps no chain: its looks are checked where it takes its steps
    for context in seen.values():
        apart = [float((one.context() - context).abs().max()) for kind in record.attention.values()
                 for one in kind.layers if one.context().shape == context.shape]  # fmt: skip
        assert min(apart) < 1e-6


def test_kinds_are_named_and_sides_too():
    with torch.no_grad(), capture(model := transformer("post_norm").eval()) as record:
        assert dict(record.attention) == {}
        model(SOURCE, TARGET)
    assert list(record.attention) == ["encoder", "decoder", "cross"]
    cross = record.attention["cross"]
    assert (cross.query_title, cross.key_title) == ("query (target)", "key (source)")
    assert (cross.mechanism, cross.mask) == ("scaled_dot, soft", "padding")
    assert record.attention["decoder"].mask == "causal, padding"
    assert [one.is_self for one in record.attention.values()] == [True, True, False]
    assert cross.keys.pieces[0] == "token 1"
    assert set(record.versions) == {"regard", "torch"}


@pytest.mark.parametrize("name", sorted(WITHOUT_SELF_ATTENTION.keys() - {"sutskever"}))
def test_models_that_step_are_recorded_as_well(name):
    model = other_model(name).eval()
    with torch.no_grad(), capture(model) as record:
        model(SOURCE, TARGET)
    assert list(record.attention) == ["cross"]
    want = model.maps(SOURCE, TARGET)["cross"]
    for layer, one in enumerate(want):
        got = record.weights("cross", layer, 0)
        torch.testing.assert_close(got, one.dense()[0, 0].float().detach())


def test_a_language_model_has_its_own_attention():
    model = language_model("post_norm").eval()
    with torch.no_grad(), capture(model) as record:
        model(SOURCE)
    (one,) = record.attention.values()
    assert one.is_self
    assert not record.weights(next(iter(record.attention)), 0, 0).triu(1).any()


def test_a_record_of_a_pickled_model_names_the_same_links():
    model = transformer("post_norm").eval()
    records = []
    for one in (model, pickle.loads(pickle.dumps(model))):
        with torch.no_grad(), capture(one) as record:
            one(SOURCE, TARGET)
        records.append(record)
    for kind, first in records[0].attention.items():
        again = records[1].attention[kind]
        assert (again.mechanism, again.mask) == (first.mechanism, first.mask), kind


def test_names_are_given_to_the_sides_that_have_as_many_places():
    names = ["a", "dog", "ate", "food", "<eos>"]
    with (
        torch.no_grad(),
        capture(model := transformer("post_norm").eval(), names=[names]) as record,
    ):
        model(SOURCE, TARGET)
    assert record.attention["cross"].keys.pieces == tuple(names)
    assert record.attention["cross"].queries.pieces == ("token 1", "token 2")


def test_what_is_learned_later_does_not_change_a_record():
    model = other_model("bahdanau").eval()
    with torch.no_grad(), capture(model) as record:
        model(SOURCE, TARGET)
    before = record.weights("cross")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0).add_(0.3)
    torch.testing.assert_close(record.weights("cross"), before, rtol=0, atol=0)


def test_the_pass_computes_the_same_and_nothing_stays_attached():
    model = transformer("post_norm").eval()
    with torch.no_grad():
        want = model(SOURCE, TARGET)
        with capture(model):
            got = model(SOURCE, TARGET)
    assert torch.equal(got, want)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_values_have_lengths_and_what_arrives_is_weighed_by_them():
    model = transformer("post_norm").eval()
    with torch.no_grad(), capture(model) as record:
        model(SOURCE[:1], TARGET[:1])
    layer = record.attention["encoder"].layers[0]
    heads = model.encoder[0].attention
    for head in range(2):
        part = heads.W_O.weight.detach()[
            :, head * heads.dims.d_head : (head + 1) * heads.dims.d_head
        ]
        want = (layer.value[0, head] @ part.T).norm(dim=-1).float()
        torch.testing.assert_close(record.value_norms("encoder", 0, head), want)
        arriving = record.arriving("encoder", 0, head)
        torch.testing.assert_close(arriving, record.weights("encoder", 0, head) * want)


def test_a_record_without_values_says_so():
    with torch.no_grad():
        x = torch.randn(1, 2, 3, 4)
        lazy = Chain()(x, x, x).map
    with pytest.raises(SettingError, match="this map has no values"):
        lazy.value_norms()
    with pytest.raises(SettingError, match="this map has no values"):
        lazy.context()


# torch's own attention


class Theirs(nn.Module):
    """Somebody's block: attention and, in place, what it adds to."""

    def __init__(self, **settings):
        super().__init__()
        self.attention = nn.MultiheadAttention(12, 3, **settings)

    def forward(self, x, key=None, **masks):
        key = x if key is None else key
        x += self.attention(x, key, key, need_weights=False, **masks)[0]
        return x


def true_weights(module, x, key=None, **masks):
    key = x if key is None else key
    with torch.no_grad():
        asked = {"need_weights": True, "average_attn_weights": False}
        return module.attention(x, key, key, **asked, **masks)[1]


CAUSAL = torch.ones(7, 7, dtype=torch.bool).triu(1)
PADDED = torch.tensor([[False] * 7, [False] * 5 + [True] * 2])


@pytest.mark.parametrize(
    ("settings", "masks"),
    [
        ({}, {}),
        ({"bias": False}, {}),
        ({"add_bias_kv": True, "add_zero_attn": True}, {"key_padding_mask": PADDED}),
        ({}, {"attn_mask": CAUSAL}),
        ({}, {"attn_mask": torch.zeros(7, 7).masked_fill(CAUSAL, float("-inf"))}),
        ({}, {"attn_mask": torch.randn(6, 7, 7)}),
        ({}, {"attn_mask": CAUSAL, "key_padding_mask": PADDED}),
    ],
    ids=["plain", "no bias", "added keys", "causal", "float causal", "added numbers", "both"],
)
@pytest.mark.parametrize("is_batch_first", [True, False])
def test_a_stranger_s_attention_has_the_weights_that_torch_says(settings, masks, is_batch_first):
    module = Theirs(batch_first=is_batch_first, **settings).eval()
    x = torch.randn(2, 7, 12) if is_batch_first else torch.randn(7, 2, 12)
    want = true_weights(module, x.clone(), **masks)
    for example in range(2):
        with torch.no_grad(), capture(module, example=example) as record:
            module(x.clone(), **masks)
        layer = record.attention["attention"].layers[0]
        torch.testing.assert_close(layer.tile(*WHOLE)[0], want[example])


def test_a_stranger_s_weights_times_values_are_its_output():
    module = Theirs(batch_first=True, kdim=5, vdim=5).eval()
    x, key = torch.randn(1, 4, 12), torch.randn(1, 6, 5)
    with torch.no_grad(), capture(module) as record:
        out = module.attention(x, key, key, need_weights=False)[0]
    one = record.attention["attention"]
    assert not one.is_self
    with torch.no_grad():
        joined = one.layers[0].context().transpose(1, 2).flatten(2)
        torch.testing.assert_close(module.attention.out_proj(joined), out)


def test_a_sentence_without_a_batch_is_one_too():
    module = Theirs().eval()
    x = torch.randn(5, 12)
    want = true_weights(module, x.clone())
    with torch.no_grad(), capture(module) as record:
        module(x)
    torch.testing.assert_close(record.attention["attention"].layers[0].tile(*WHOLE)[0], want)


@pytest.mark.parametrize("is_first", [False, True])
def test_torch_s_fast_path_stays_on_and_is_still_seen(is_first, monkeypatch):
    layer = nn.TransformerEncoderLayer(12, 4, 8, batch_first=True, norm_first=is_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = torch.randn(2, 7, 12)
    with torch.no_grad():
        inputs, want = [x, model.layers[0](x)], model(x)
    calls = []
    real = torch._transformer_encoder_layer_fwd
    monkeypatch.setattr(
        torch, "_transformer_encoder_layer_fwd", lambda *args: calls.append(1) or real(*args)
    )
    with torch.no_grad(), capture(model) as record:
        assert torch.equal(model(x), want)
    assert len(calls) == 2
    (one,) = record.attention.values()
    for layer, lazy, given in zip(model.layers, one.layers, inputs, strict=True):
        read = layer.norm1(given) if is_first else given
        asked = {"need_weights": True, "average_attn_weights": False}
        with torch.no_grad():
            truth = layer.self_attn(read, read, read, **asked)[1]
        torch.testing.assert_close(lazy.tile(*WHOLE)[0], truth[0])


def test_torch_s_nested_sentences_are_padded_again():
    layer = nn.TransformerEncoderLayer(12, 4, 8, batch_first=True)
    model = nn.TransformerEncoder(layer, 1).eval()
    x = torch.randn(2, 7, 12)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with capture(model, example=1) as record:
            model(x, src_key_padding_mask=PADDED)
        layer = model.layers[0]
        asked = {"need_weights": True, "average_attn_weights": False}
        truth = layer.self_attn(x, x, x, key_padding_mask=PADDED, **asked)[1][1]
    got = record.attention["layers.self_attn"].layers[0].tile(*WHOLE)[0]
    # rows of padding are nobody's
    torch.testing.assert_close(got[:, :5], truth[:, :5])


def test_a_record_of_the_whole_of_torch_s_transformer_has_three_kinds():
    model = nn.Transformer(12, 4, 1, 1, 8, batch_first=True).eval()
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    with torch.no_grad(), capture(model) as record:
        model(torch.randn(1, 6, 12), torch.randn(1, 4, 12), tgt_mask=mask)
    shapes = {kind: one.layers[0].shape for kind, one in record.attention.items()}
    assert shapes == {
        "encoder.layers.self_attn": (1, 4, 6, 6),
        "decoder.layers.self_attn": (1, 4, 4, 4),
        "decoder.layers.multihead_attn": (1, 4, 4, 6),
    }
    assert not record.weights("decoder.layers.self_attn", 0, 1).triu(1).any()
