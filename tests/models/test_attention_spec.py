"""Each kind of attention may have its own chain and heads; T5's arrangement is made of these."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import transformers

from regard.attention.relations.bucketed import BucketedRelation
from regard.choices import Choice
from regard.cli import main
from regard.errors import NotPortable, RegardError
from regard.models import AttentionSpec, LanguageSpec, TransformerSpec, build_model
from regard.models.portable import tensor_functions
from regard.models.spec_choices import wrong_choices
from regard.models.stepper import PAD
from regard.recipes import read_recipe
from tests.assertions import assert_close
from tests.small_recipe import RECIPE

SIZES = TransformerSpec(
    d_model=12, n_heads=2, d_hidden=16, n_encoder_layers=2, n_decoder_layers=2, max_len=32
)
V = 17
FULL = (Choice("full"),)
OWN = replace(
    SIZES,
    score=Choice("general"),
    relation=Choice("linear_bias"),
    encoder=AttentionSpec(attends=(Choice("blocks", {"size": 3}), Choice("full")), n_heads=3),
    decoder=AttentionSpec(
        score=Choice("scaled_dot"), relation=Choice("shaw", {"clip": 2}), shares_relation=True,
        attends=(Choice("sliding_window", {"size": 2}),), n_heads=4, n_groups=2,
    ),
    cross=AttentionSpec(
        select=Choice("sparsemax"), attends=(Choice("linformer", {"slots": 3}),), n_groups=1
    ),
)  # fmt: skip


def built(spec):
    return build_model(spec, n_source_tokens=V, n_target_tokens=V)


def test_encoder_decoder_and_cross_attention_each_have_their_own_chain_and_heads():
    model = built(OWN)
    encoder, (first, second) = model.encoder, model.decoder
    assert [repr(layer.attention.chain) for layer in encoder] == [
        "Chain(score=general, relation=linear_bias, pattern=blocks:size=3, select=soft)",
        "Chain(score=general, relation=linear_bias, select=soft)",
    ]
    assert repr(first.attention.chain) == (
        "Chain(score=scaled_dot, relation=shaw:clip=2, pattern=sliding_window:size=2, select=soft)"
    )
    assert repr(first.cross_attention.chain) == (
        "Chain(score=general, select=sparsemax, memory=linformer:slots=3,sharing=key_value)"
    )
    heads = (encoder[0].attention, first.attention, first.cross_attention)
    assert [(each.dims.n_heads, each.n_groups) for each in heads] == [(3, 3), (4, 2), (2, 1)]
    assert first.attention.chain.relation is second.attention.chain.relation
    assert encoder[0].attention.chain.relation is not encoder[1].attention.chain.relation


def test_what_a_kind_does_not_say_is_the_model_s():
    whole, same = built(SIZES), built(replace(SIZES, decoder=AttentionSpec(n_heads=2)))
    assert str(same) == str(whole)
    plain = replace(
        SIZES, relation=Choice("bucketed"), decoder=AttentionSpec(relation=Choice("none"))
    )
    model = built(plain)
    assert not model.encoder[0].attention.chain.relation.is_zero
    assert model.decoder[0].attention.chain.relation.is_zero
    assert model.decoder[0].cross_attention.chain.relation.is_zero


FORGETFUL = {
    "window": OWN,
    "slots": replace(
        SIZES, decoder=AttentionSpec(attends=(Choice("memory_compressed", {"stride": 2}),))
    ),
    "mixed": replace(
        SIZES, decoder=AttentionSpec(attends=(Choice("blocks", {"size": 2}), Choice("full")))
    ),
}


@pytest.mark.parametrize("spec", FORGETFUL.values(), ids=FORGETFUL)
def test_a_decoder_that_forgets_writes_as_a_pass_over_the_whole_text(spec):
    model = built(spec).double().eval()
    source, target = torch.randint(4, V, (2, 3, 8))
    source[1, 5:] = PAD
    want = model(source, target)
    state = model.start(source)
    for at in range(8):
        if at == 4:
            state = model.branch(state, torch.tensor([[0], [0], [0]]))
        logits, state = model.step(state, target[:, at : at + 1])
        assert_close(f"step {at}", logits[:, 0], want[:, at])
    rows = torch.tensor([2, 0])
    again, _ = model.step(model.select(state, rows), target[rows, :1])
    assert_close("rows", again, model.step(state, target[:, :1])[0][rows])


def test_a_language_model_like_a_transformer_has_its_decoder_s_chain():
    spec = LanguageSpec.like(OWN)
    assert (spec.score.name, spec.n_heads, spec.n_groups) == ("scaled_dot", 4, 2)
    assert spec.relation == Choice("shaw", {"clip": 2})
    assert spec.shares_relation


REFUSED = {
    "groups": ({"n_groups": 3}, r"model\.n_groups \(3\) must divide the 2 heads"),
    "heads": ({"decoder": AttentionSpec(n_heads=5)}, r"n_heads \(5\) must divide d_model \(12\)"),
    "groups of a kind": (
        {"cross": AttentionSpec(n_heads=3, n_groups=2)},
        r"model\.cross\.n_groups \(2\) must divide the 3 heads",
    ),
    "future": (
        {"decoder": AttentionSpec(attends=(Choice("linformer"),))},
        r"model\.decoder\.attends: 'linformer' cannot write",
    ),
    "padding": (
        {"cross": AttentionSpec(attends=(Choice("big_bird"),))},
        r"model\.cross\.attends: what 'big_bird' shows depends on where the source ends",
    ),
    "twice": (
        {"encoder_attends": (Choice("blocks"),), "encoder": AttentionSpec(attends=FULL)},
        r"model\.encoder\.attends and model\.encoder_attends are two names of one setting",
    ),
    "nothing to share": (
        {"shares_relation": True}, r"model\.shares_relation: there is no relation",
    ),
    "nothing of a kind to share": (
        {"relation": Choice("shaw"), "cross": AttentionSpec(shares_relation=True)},
        r"model\.cross\.shares_relation: there is no relation",
    ),
    "branches": (
        {"layer": "weighted_branches", "feed_forward_has_bias": False},
        r"model\.feed_forward_has_bias: branches of layer = 'weighted_branches' have biases",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused(changes, said):
    with pytest.raises(RegardError, match=said):
        replace(SIZES, **changes)


def test_unknown_names_of_a_kind_are_told():
    with pytest.raises(
        RegardError, match=r"score: There is no 'generl' here\. Did you mean 'general'"
    ):
        AttentionSpec(score=Choice("generl"))


def test_links_of_a_kind_are_tried_with_their_settings_and_their_meetings():
    wrong = replace(
        SIZES,
        decoder=AttentionSpec(relation=Choice("shaw", {"clip": -1})),
        cross=AttentionSpec(score=Choice("additive"), relation=Choice("shaw")),
    )
    found = dict(wrong_choices(wrong))
    assert found["model.decoder.relation"] == "shaw: clip must be at least 0, got -1."
    assert "additive and shaw cannot meet" in found["model.cross"]


def test_a_recipe_says_the_chains_and_is_written_again_as_it_was_read(tmp_path):
    recipe = read_recipe(Path("dates-t5"))
    assert recipe.model.encoder == AttentionSpec(
        relation=Choice("bucketed", {"n_buckets": 32, "max_distance": 128})
    )
    table = recipe.as_table()["model"]
    assert table["decoder"] == {
        "relation": {"name": "bucketed", "n_buckets": 32, "max_distance": 128, "is_causal": True}
    }


T5 = transformers.T5Config(
    vocab_size=V, d_model=16, d_kv=4, d_ff=24, num_layers=3, num_decoder_layers=2, num_heads=4,
    relative_attention_num_buckets=8, relative_attention_max_distance=9, dropout_rate=0.0,
    pad_token_id=PAD, is_gated_act=False, decoder_start_token_id=1,
)  # fmt: skip


def as_t5(model, theirs):
    """Copy the weights of transformers' T5; ours multiplies the embeddings by the root of d."""
    model.source.E.weight.copy_(theirs.shared.weight / 16**0.5)
    for ours, stack in ((model.encoder, theirs.encoder), (model.decoder, theirs.decoder)):
        table = stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight
        ours[0].attention.chain.relation.t.copy_(table.mT)
        for layer, block in zip(ours, stack.block, strict=True):
            *attentions, last = block.layer
            parts = zip(("attention", "cross_attention"), attentions, strict=False)
            for name, part in parts:
                heads = part.SelfAttention if name == "attention" else part.EncDecAttention
                for letter in "qkvo":
                    mine = getattr(getattr(layer, name), f"W_{letter.upper()}")
                    mine.weight.copy_(getattr(heads, letter).weight)
                getattr(layer, f"around_{name}").norm.gain.copy_(part.layer_norm.weight)
            layer.feed_forward.inner.weight.copy_(last.DenseReluDense.wi.weight)
            layer.feed_forward.outer.weight.copy_(last.DenseReluDense.wo.weight)
            layer.around_feed_forward.norm.gain.copy_(last.layer_norm.weight)
    model.encoder_norm.gain.copy_(theirs.encoder.final_layer_norm.weight)
    model.decoder_norm.gain.copy_(theirs.decoder.final_layer_norm.weight)


@torch.no_grad()
def test_the_recipe_of_t5_s_arrangement_is_transformers_t5():
    recipe = read_recipe(
        Path("dates-t5"),
        [
            "model.d_model=16", "model.d_hidden=24", "model.n_encoder_layers=3",
            "model.encoder.relation.n_buckets=8", "model.encoder.relation.max_distance=9",
            "model.decoder.relation.n_buckets=8", "model.decoder.relation.max_distance=9",
        ],
    )  # fmt: skip
    theirs, model = transformers.T5ForConditionalGeneration(T5).eval(), built(recipe.model).eval()
    for weight in theirs.parameters():
        weight.copy_(torch.randn_like(weight) * 0.3)
    as_t5(model, theirs)
    relations = [part for part in model.modules() if isinstance(part, BucketedRelation)]
    assert [part.is_causal for part in relations] == [False, True]
    source, target = torch.randint(4, V, (2, 3, 13))
    source[1, 9:] = PAD
    want = theirs(input_ids=source, attention_mask=source != PAD, decoder_input_ids=target)
    here = model.encode(source)
    assert_close(
        "encoder", here[source != PAD], want.encoder_last_hidden_state[source != PAD], atol=1e-4
    )
    assert_close("logits", model(source, target), want.logits, atol=1e-4)


UNPORTABLE = {
    "heads": (AttentionSpec(n_groups=1), r"leave n_heads and n_groups out of model\.decoder"),
    "window": (
        AttentionSpec(attends=(Choice("sliding_window"),)),
        r'a decoder that forgets .* take model\.decoder\.attends = \["full"\]',
    ),
    "slots": (AttentionSpec(attends=(Choice("memory_compressed"),)), "a decoder that forgets"),
}


@pytest.mark.parametrize(("decoder", "said"), UNPORTABLE.values(), ids=UNPORTABLE)
def test_a_graph_has_one_shape_of_cache_that_keeps_all(decoder, said):
    with pytest.raises(NotPortable, match=said):
        tensor_functions(built(replace(SIZES, decoder=decoder)))


def test_a_recipe_s_mistake_in_a_kind_is_told_with_its_place(tmp_path, capsys):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE + "\n[model.decoder]\nn_groups = 3\n")
    assert main(["plan", str(recipe)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "model.decoder.n_groups (3) must divide the 4 heads, which share keys and values" in said
