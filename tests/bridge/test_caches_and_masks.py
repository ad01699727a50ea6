"""Attached models under every cache, a caller's own masks, and checkpoints of gradients."""

import copy

import pytest
import torch

from regard.bridge import attach
from tests.bridge.small_models import inputs_of, model_of, text

CLOSE = {"atol": 3e-5, "rtol": 1e-5}

CACHES = {
    "static": {"cache_implementation": "static"},
    "static with beams": {"cache_implementation": "static", "num_beams": 3},
    "several words at a time": {"prompt_lookup_num_tokens": 2},
}


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "gpt2"])
def test_every_cache_writes_the_same_text(name, cache):
    model, ids = model_of(name), text(1, 9)
    settings = {"max_new_tokens": 10, "do_sample": False, **CACHES[cache]}
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.no_grad():
        want = model.generate(**given, **settings)
        with attach(model):
            assert torch.equal(model.generate(**given, **settings), want)


@pytest.mark.parametrize("form", ["boolean", "lowest number", "minus infinity", "numbers"])
def test_a_mask_that_the_caller_made_is_taken_as_it_is(form):
    model, ids = model_of("llama"), text(2, 9)
    shown = torch.rand(2, 1, 9, 9) > 0.4
    shown |= torch.eye(9, dtype=torch.bool)
    added = torch.zeros(2, 1, 9, 9).masked_fill(~shown, torch.finfo(torch.float32).min)
    if form == "numbers":
        added = added + torch.where(shown, torch.randn(2, 1, 9, 9), 0.0)
    given = {
        "boolean": shown,
        "lowest number": added,
        "minus infinity": added.masked_fill(~shown, -torch.inf),
        "numbers": added,
    }[form]
    with torch.no_grad():
        want = model(input_ids=ids, attention_mask=added).logits
        with attach(model):
            got = model(input_ids=ids, attention_mask=given).logits
    torch.testing.assert_close(got, want, **CLOSE)


@pytest.mark.parametrize(("name", "settings"), [("llama", {}), ("t5", {"dropout_rate": 0.0})])
def test_checkpoints_of_gradients_change_no_gradient(name, settings):
    model, inputs = model_of(name, **settings), inputs_of(name)
    model.train().gradient_checkpointing_enable()

    def gradients():
        model.zero_grad()
        model(**inputs, use_cache=False).logits.square().sum().backward()
        return {path: one.grad.clone() for path, one in model.named_parameters()}

    want = gradients()
    with attach(model):
        got = gradients()
    scale = max(float(grad.abs().max()) for grad in want.values())
    for path, grad in want.items():
        torch.testing.assert_close(got[path] / scale, grad / scale, atol=2e-5, rtol=0, msg=path)


def test_a_copy_of_an_attached_model_is_attached():
    model, inputs = model_of("bert"), inputs_of("bert")
    with attach(model), torch.no_grad():
        copied = copy.deepcopy(model)
        assert torch.equal(copied(**inputs).logits, model(**inputs).logits)
    assert copied.config._attn_implementation == "regard"


def test_models_that_share_a_config_do_not_share_a_mechanism():
    first, inputs = model_of("bert"), inputs_of("bert")
    second = type(first)(first.config).eval()
    second.load_state_dict(first.state_dict())
    with torch.no_grad():
        want = second(**inputs).logits
        with attach(first, chain=lambda layer: None):
            torch.testing.assert_close(second(**inputs).logits, want, **CLOSE)
