"""Attached models say what they said before: logits, weights, gradients, and what they write."""

import pytest
import torch

from regard.bridge import attach
from tests.bridge.small_models import (
    LENGTH,
    READERS,
    SMALL,
    TRANSLATORS,
    WRITERS,
    inputs_of,
    model_of,
    text,
)

CLOSE = 5e-6
"""How far a number may be off, as a share of the largest one beside it."""
PADDED = torch.arange(LENGTH) < torch.tensor([[LENGTH], [LENGTH - 4]])


def numbers(output):
    """Every tensor of an output by its name, but caches."""
    found = {}
    for name, value in output.items():
        several = value if isinstance(value, tuple) else (value,)
        found |= {
            f"{name} {i}": one for i, one in enumerate(several) if isinstance(one, torch.Tensor)
        }
    return found


def assert_near(name, got, want, *, share=CLOSE, least=1e-3):
    scale = want.abs().max().clamp(min=least)
    torch.testing.assert_close(
        got / scale, want / scale, atol=share, rtol=0, msg=lambda said: f"{name}: {said}"
    )


def assert_same(got, want):
    got, want = numbers(got), numbers(want)
    assert got.keys() == want.keys()
    for name in want:
        assert_near(name, got[name], want[name])


@pytest.mark.parametrize("name", SMALL)
def test_an_attached_model_gives_its_own_numbers_and_weights(name):
    model, inputs = model_of(name), inputs_of(name)
    with torch.no_grad():
        want = model(**inputs, output_attentions=True)
        with attach(model) as attached:
            got = model(**inputs, output_attentions=True)
            plain = model(**inputs)
    assert_same(got, want)
    assert_same(plain, {key: value for key, value in want.items() if "attentions" not in key})
    assert attached.layers


@pytest.mark.parametrize("name", SMALL)
def test_an_attached_model_learns_as_before(name):
    model, inputs = model_of(name), inputs_of(name)

    def gradients():
        model.zero_grad()
        output = model(**inputs, output_attentions=True)
        pieces = [one for one in numbers(output).values() if one.is_floating_point()]
        weights = torch.Generator().manual_seed(1)
        sum((one * torch.randn(one.shape, generator=weights)).sum() for one in pieces).backward()
        return {
            path: torch.zeros_like(one) if one.grad is None else one.grad.clone()
            for path, one in model.named_parameters()
        }

    want = gradients()
    with attach(model):
        got = gradients()
    largest = max(float(grad.abs().max()) for grad in want.values())
    assert largest > 0
    for path, grad in want.items():
        # the gradient of a key's bias is zero but for rounding
        assert_near(path, got[path], grad, share=5e-5, least=largest / 100)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_is_seen_by_no_word(name, side):
    model, ids = model_of(name), text()
    mask = (PADDED if side == "right" else PADDED.flip(-1)).long()
    with torch.no_grad():
        want = model(input_ids=ids, attention_mask=mask).logits
        with attach(model):
            got = model(input_ids=ids, attention_mask=mask).logits
    assert_near("logits", got[mask.bool()], want[mask.bool()])


@pytest.mark.parametrize("name", TRANSLATORS)
def test_padding_of_a_source_is_seen_by_no_word(name):
    model, inputs = model_of(name), inputs_of(name) | {"attention_mask": PADDED.long()}
    with torch.no_grad():
        want = model(**inputs).logits
        with attach(model):
            got = model(**inputs).logits
    assert_near("logits", got, want)


@pytest.mark.parametrize("name", [*WRITERS, *TRANSLATORS, "whisper"])
@pytest.mark.parametrize("n_beams", [1, 3])
def test_an_attached_model_writes_the_same_text(name, n_beams):
    model, inputs = model_of(name), inputs_of(name)
    inputs.pop("decoder_input_ids", None)
    settings = {"max_new_tokens": 8, "num_beams": n_beams, "do_sample": False}
    if "input_ids" in inputs:
        inputs["attention_mask"] = PADDED.flip(-1).long()
    with torch.no_grad():
        want = model.generate(**inputs, **settings)
        with attach(model):
            got = model.generate(**inputs, **settings)
            without = model.generate(**inputs, **settings, use_cache=False)
    assert got.tolist() == want.tolist()
    assert without.tolist() == want.tolist()


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "gpt2", "qwen3"])
def test_packed_texts_do_not_see_each_other(name):
    model, ids = model_of(name), text(1)
    places = torch.tensor([[*range(4), *range(LENGTH - 4)]])
    with torch.no_grad(), attach(model):
        packed = model(input_ids=ids, position_ids=places, use_cache=False).logits
        apart = [model(input_ids=part).logits for part in (ids[:, :4], ids[:, 4:])]
    assert_near("logits", packed, torch.cat(apart, 1))


def test_an_attachment_says_in_a_line_which_chains_the_model_has():
    with attach(model_of("gpt2")) as attached:
        said = repr(attached)
    assert said.startswith("Attachment(GPT2LMHeadModel: 2 layers of Chain(score=scaled_dot")
    assert "\n" not in said
