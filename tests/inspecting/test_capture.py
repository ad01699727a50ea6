"""Capture: the maps of the pass that ran, from the modules that ran, and nothing left behind."""

import threading

import pytest
import torch

from regard.attention.capture import captured
from regard.data.subword_kinds import BOS
from regard.errors import SettingError
from regard.inspecting.capture import attention_of, weights_of
from tests.assertions import assert_close
from tests.decoding.writers import WITHOUT_SELF_ATTENTION, other_model, transformer

SOURCE, TARGET = [5, 6, 7, 4, 2], [8, 9, 10]


def test_every_kind_has_a_map_for_each_layer_and_head():
    model = transformer("post_norm")
    maps = attention_of(model, SOURCE, TARGET)
    shapes = {kind: [layer.shape for layer in layers] for kind, layers in maps.items()}
    assert shapes == {
        "encoder": [(1, 2, 5, 5)],
        "decoder": [(1, 2, 4, 4)] * 2,
        "cross": [(1, 2, 4, 5)] * 2,
    }


@pytest.mark.parametrize("name", ["post_norm", "sparsemax", "shaw", "weighted_branches"])
def test_the_maps_are_those_by_which_the_answer_was_computed(name):
    model = transformer(name)
    maps = attention_of(model, SOURCE, TARGET)
    for layers in maps.values():
        rows = weights_of(layers).sum(-1)
        assert_close("sum of a row", rows, torch.ones_like(rows))
    assert not weights_of(maps["decoder"]).triu(1).any()
    # the first encoder layer, by hand
    heads = getattr(model.encoder[0], "attention", None) or model.encoder[0].branches.attention
    x = model.source(torch.tensor([SOURCE]))
    want = heads(x).map.dense()
    assert_close("weights", maps["encoder"][0].dense(), want.detach())


@pytest.mark.parametrize("name", sorted(WITHOUT_SELF_ATTENTION.keys() - {"sutskever"}))
def test_a_model_without_self_attention_has_its_cross_attention(name):
    model = other_model(name)
    maps = attention_of(model, SOURCE, TARGET)
    assert set(maps) == {"cross"}
    assert {layer.shape for layer in maps["cross"]} == {(1, 1, 4, 5)}


def test_a_model_that_looks_at_nothing_says_so():
    with pytest.raises(SettingError, match="looks at nothing, since one vector holds its whole"):
        attention_of(other_model("sutskever"), SOURCE, TARGET)


def test_a_row_is_the_step_that_predicts_its_token():
    model = transformer("post_norm")
    state = model.start(torch.tensor([SOURCE]))
    whole = weights_of(attention_of(model, SOURCE, TARGET)["cross"])
    for t, token in enumerate([BOS, *TARGET]):
        with captured(model) as maps:
            _, state = model.step(state, torch.tensor([[token]]))
        for layer in range(2):
            step = maps[f"decoder.{layer}.cross_attention.chain"].dense()[0, :, 0]
            assert_close("weights of the step", step.detach(), whole[layer, :, t])


def test_nothing_is_left_in_the_model_and_nothing_else_is_heard():
    model = transformer("post_norm").train()
    with captured(model) as maps:
        other = threading.Thread(target=lambda: model.encode(torch.tensor([SOURCE])))
        other.start()
        other.join()
        assert maps == {}
    attention_of(model, SOURCE, TARGET)
    assert model.training
    assert not any(part._forward_hooks for part in model.modules())


def test_a_pass_of_another_thread_outlives_the_block():
    model = transformer("post_norm")
    inside, ended = threading.Event(), threading.Event()
    chain = model.encoder[0].attention.chain

    def wait(*_):
        inside.set()
        ended.wait()

    held, found = chain.register_forward_hook(wait), []
    with captured(model) as maps:
        other = threading.Thread(target=lambda: found.append(model.encode(torch.tensor([SOURCE]))))
        other.start()
        # the pass has been told that somebody listens, who then goes away
        inside.wait()
    ended.set()
    other.join()
    held.remove()
    assert maps == {}
    assert len(found) == 1


def test_a_failing_pass_leaves_nothing_either():
    model = transformer("post_norm")
    with pytest.raises(IndexError), captured(model):
        model.encode(torch.tensor([[99]]))
    assert not any(part._forward_hooks for part in model.modules())
