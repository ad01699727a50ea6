"""Mechanisms swapped in published models: layer by layer, explained, trained by a plain loop."""

import pytest
import torch

import regard
from regard.attention import Chain, attend
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.scores.additive import AdditiveScore
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.attention.selections.top_k import TopKSelection
from regard.bridge import attach
from regard.dims import Dims
from tests.bridge.small_models import inputs_of, model_of, text


def weights_of(model, inputs):
    with torch.no_grad():
        return model(**inputs, output_attentions=True).attentions


def test_sparsemax_in_llama_gives_most_words_nothing():
    model, inputs = model_of("llama"), inputs_of("llama")
    with attach(model, chain=Chain(select=SparsemaxSelection())):
        for weights in weights_of(model, inputs):
            torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 11))
            seen = torch.ones(11, 11).tril().bool()
            assert not weights[..., ~seen].any()
            assert (weights[..., seen] == 0).any()


def test_the_swapped_mechanism_is_the_law_s_over_the_model_s_own_queries_and_keys():
    model, inputs = model_of("bert"), inputs_of("bert")
    select = SparsemaxSelection()
    with attach(model, chain=Chain(select=select)), torch.no_grad():
        first = model.bert.encoder.layer[0].attention.self
        x = model.bert.embeddings(input_ids=inputs["input_ids"])
        heads = [
            part(x).unflatten(-1, (4, 6)).transpose(1, 2)
            for part in (first.query, first.key, first.value)
        ]
        want = attend(*heads, select=select)
        got = first(x)[0].unflatten(-1, (4, 6)).transpose(1, 2)
    torch.testing.assert_close(got, want.context)


def test_a_window_in_gpt2_is_the_same_text_by_text_and_step_by_step():
    model, ids = model_of("gpt2"), text(1)
    chain = Chain(pattern=SlidingWindowPattern(size=2))
    with attach(model, chain=chain), torch.no_grad():
        for weights in weights_of(model, {"input_ids": ids}):
            far = torch.arange(11)[:, None] - torch.arange(11) > 2
            assert not weights[..., far].any()
        settings = {"max_new_tokens": 6, "do_sample": False}
        whole = model.generate(input_ids=ids, use_cache=False, **settings)
        assert torch.equal(model.generate(input_ids=ids, **settings), whole)


def test_top_k_in_vit_looks_at_k_patches():
    model, inputs = model_of("vit"), inputs_of("vit")
    with attach(model, chain=Chain(select=TopKSelection(count=3))):
        for weights in weights_of(model, inputs):
            assert ((weights > 0).sum(-1) == 3).all()


SPARSE = Chain(select=SparsemaxSelection())
WAYS = {
    "by number": {1: SPARSE},
    "by kind and number": {("encoder", 1): SPARSE},
    "by place": {"bert.encoder.layer.1.attention.self": SPARSE},
    "by a function": lambda layer: SPARSE if layer.number == 1 else None,
}


@pytest.mark.parametrize("way", WAYS)
def test_one_layer_may_have_a_chain_of_its_own(way):
    model, inputs = model_of("bert"), inputs_of("bert")
    want = weights_of(model, inputs)
    with attach(model, chain=WAYS[way]) as attached:
        got = weights_of(model, inputs)
        mechanisms = [type(chain.select).__name__ for chain in attached.chains.values()]
    assert mechanisms == ["SoftSelection", "SparsemaxSelection"]
    torch.testing.assert_close(got[0], want[0])
    assert (got[1] == 0).any()


def test_one_kind_of_a_translator_may_have_a_chain_of_its_own():
    model = model_of("bart")
    with attach(model, chain={"cross": SPARSE}) as attached:
        found = {
            layer.kind: type(attached.chains[layer.path].select).__name__
            for layer in attached.layers
        }
    assert found == {
        "encoder": "SoftSelection", "decoder": "SoftSelection", "cross": "SparsemaxSelection",
    }  # fmt: skip


def test_the_path_of_each_layer_is_explained():
    model = model_of("mistral")
    with attach(model, chain={0: Chain(select=SparsemaxSelection())}) as attached:
        first, second = attached.explain(4096).values()
    assert first.path == "streamed"
    assert second.path == "sparse"
    assert "not fused" in str(second)


def test_layers_share_no_weights_of_their_chains_and_a_plain_loop_trains_them():
    model, ids = model_of("bert"), text()
    chain = Chain(AdditiveScore(Dims(d_model=24, n_heads=4).head()))
    attached = attach(model, chain=chain)
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    before = [one.score.v.detach().clone() for one in attached.chains.values()]
    losses = []
    for _ in range(8):
        loss = model(input_ids=ids, labels=ids).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    after = [one.score.v for one in attached.chains.values()]
    assert all(not torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert not torch.equal(*after)


def test_a_detached_model_is_as_it_was():
    model, inputs = model_of("bert"), inputs_of("bert")
    names, want = list(model.state_dict()), weights_of(model, inputs)
    attached = attach(model, chain=Chain(AdditiveScore(Dims(d_model=24, n_heads=4).head())))
    assert len(model.state_dict()) > len(names)
    attached.detach()
    attached.detach()
    assert list(model.state_dict()) == names
    assert model.config._attn_implementation == "eager"
    for got, before in zip(weights_of(model, inputs), want, strict=True):
        assert torch.equal(got, before)


def test_attachments_may_be_nested():
    model, inputs = model_of("bert"), inputs_of("bert")
    with attach(model, chain=SPARSE):
        outer = weights_of(model, inputs)
        with attach(model):
            assert not (weights_of(model, inputs)[0] == 0).any()
        assert torch.equal(weights_of(model, inputs)[0], outer[0])


def test_an_error_inside_leaves_the_model_as_it_was():
    model = model_of("bert")
    with pytest.raises(KeyError), attach(model):
        raise KeyError
    assert model.config._attn_implementation == "eager"


def test_an_attached_model_is_saved_and_loaded_as_any_other(tmp_path):
    model, inputs = model_of("bert"), inputs_of("bert")
    with attach(model), torch.no_grad():
        want = model(**inputs).logits
        model.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    with torch.no_grad():
        torch.testing.assert_close(again(**inputs).logits, want)


def test_dropped_weights_are_the_model_s_own():
    model, inputs = model_of("bert", attention_probs_dropout_prob=0.4), inputs_of("bert")
    model.train()
    torch.manual_seed(3)
    want = model(**inputs).logits
    with attach(model):
        torch.manual_seed(3)
        torch.testing.assert_close(model(**inputs).logits, want, atol=1e-4, rtol=1e-4)


def test_a_swapped_mechanism_is_named_in_the_record():
    model, inputs = model_of("gpt2"), inputs_of("gpt2")
    with (
        attach(model, chain={1: SPARSE}),
        torch.no_grad(),
        regard.capture(model) as record,
    ):
        model(**inputs)
    said = record.attention["decoder"].mechanism
    assert said == "layer 1: scaled_dot, soft; layer 2: scaled_dot, sparsemax"
