"""The drop-in for torch's own multi-head attention: outputs, weights, gradients, names, masks."""

import pytest
import torch
from torch import nn

import regard
from regard import Chain, MultiheadAttention
from regard.attention.capture import captured
from regard.attention.relations.shaw import ShawRelation
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.dims import Dims
from regard.errors import DimsError, SettingError, ShapeError
from tests.assertions import assert_close

B, L, S, M, H = 2, 5, 7, 12, 3


def _pair(**options):
    """Torch's module and ours with the same weights, in double precision."""
    torch.manual_seed(3)
    theirs = nn.MultiheadAttention(M, H, **options, dtype=torch.float64)
    for vector in (theirs.in_proj_bias, theirs.out_proj.bias):
        if vector is not None:
            nn.init.normal_(vector)
    ours = MultiheadAttention(M, H, **options, dtype=torch.float64)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def _inputs(*, kdim=M, vdim=M, batch_first=False, n_keys=S):
    inputs = [torch.randn(B, n, d, dtype=torch.float64) for n, d in ((L, M), (n_keys, kdim))]
    inputs.append(torch.randn(B, n_keys, vdim, dtype=torch.float64))
    return [one if batch_first else one.transpose(0, 1).contiguous() for one in inputs]


def _assert_same(theirs, ours, inputs, **asked):
    """Outputs, weights, and the gradients of inputs and parameters by name."""
    found = []
    for module in (theirs, ours):
        given = [one.clone().requires_grad_() for one in inputs]
        output, weights = module(*given, **asked)
        loss = output.square().sum() + (0.0 if weights is None else (weights**3).sum())
        module.zero_grad()
        loss.backward()
        named = {name: one.grad for name, one in module.named_parameters()}
        found.append(
            (output, weights, dict(zip("qkv", [one.grad for one in given], strict=True)) | named)
        )
    (output, weights, gradients), (output_2, weights_2, gradients_2) = found
    assert_close("output", output_2, output)
    assert (weights is None) == (weights_2 is None)
    if weights is not None:
        assert_close("weights", weights_2, weights)
    assert gradients.keys() == gradients_2.keys()
    for name, gradient in gradients.items():
        assert_close(name, gradients_2[name], gradient)


PADDING = torch.tensor([[False] * S, [False] * 4 + [True] * 3])
HIDING = torch.zeros(B, S).double().masked_fill(PADDING, -torch.inf)
CAUSAL = torch.ones(L, S, dtype=torch.bool).triu(1)
MASKS = {
    "none": {},
    "padding": {"key_padding_mask": PADDING},
    "padding in floats": {"key_padding_mask": HIDING},
    "padding that adds": {"key_padding_mask": torch.linspace(-1, 1, B * S).double().view(B, S)},
    "pairs": {"attn_mask": CAUSAL},
    "pairs of each head": {"attn_mask": CAUSAL.expand(B * H, L, S)},
    "pairs that add": {"attn_mask": torch.linspace(-1, 1, L * S).double().view(L, S)},
    "both": {"attn_mask": CAUSAL, "key_padding_mask": PADDING},
    "both, one in floats": {
        "attn_mask": torch.linspace(-1, 1, B * H * L * S).double().view(B * H, L, S),
        "key_padding_mask": HIDING,
    },
    "causal": {"attn_mask": CAUSAL, "is_causal": True},
    "causal and padding": {"attn_mask": CAUSAL, "is_causal": True, "key_padding_mask": PADDING},
}  # fmt: skip
OPTIONS = {
    "usual": {},
    "batch first": {"batch_first": True},
    "without bias": {"bias": False},
    "other widths": {"kdim": 4, "vdim": 5},
    "a bias as a key": {"add_bias_kv": True},
    "a zero as a key": {"add_zero_attn": True},
    "both as keys": {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True},
}


@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("options", OPTIONS)
def test_it_is_torch_s_own_in_outputs_weights_and_gradients(options, mask):
    settings = OPTIONS[options]
    theirs, ours = _pair(**settings)
    sizes = {key: settings[key] for key in ("kdim", "vdim", "batch_first") if key in settings}
    for need, average in ((True, True), (True, False), (False, True)):
        asked = {"need_weights": need, "average_attn_weights": average}
        _assert_same(theirs, ours, _inputs(**sizes), **_of_torch(MASKS[mask], settings), **asked)


def _of_torch(masks, settings):
    """The masks without torch's hint where it hides the keys that options append."""
    is_more = settings.get("add_bias_kv") or settings.get("add_zero_attn")
    return {k: v for k, v in masks.items() if not is_more or k != "is_causal"}


def test_a_key_that_is_appended_is_seen_under_the_hint_too():
    _, ours = _pair(add_bias_kv=True, add_zero_attn=True)
    inputs = _inputs()
    want = ours(*inputs, attn_mask=CAUSAL)
    for hinted in ({"attn_mask": CAUSAL, "is_causal": True}, {"is_causal": True}):
        got = ours(*inputs, **hinted)
        assert_close("output", got[0], want[0])
        assert_close("weights", got[1], want[1])


def test_names_and_first_weights_are_torch_s():
    for options in OPTIONS.values():
        torch.manual_seed(11)
        theirs = nn.MultiheadAttention(M, H, **options).state_dict()
        torch.manual_seed(11)
        ours = MultiheadAttention(M, H, **options).state_dict()
        assert list(ours) == list(theirs)
        for name, weight in theirs.items():
            assert_close(name, ours[name], weight)


def test_a_single_sentence_has_no_batch():
    theirs, ours = _pair()
    x = torch.randn(L, M, dtype=torch.float64)
    for average in (True, False):
        got, want = (each(x, x, x, average_attn_weights=average) for each in (ours, theirs))
        assert [one.shape for one in got] == [one.shape for one in want]
        assert_close("output", got[0], want[0])
        assert_close("weights", got[1], want[1])


def test_weights_are_the_map_where_no_gradient_is_kept():
    theirs, ours = _pair(batch_first=True)
    inputs = _inputs(batch_first=True)
    with torch.no_grad():
        assert_close("weights", ours(*inputs)[1], theirs(*inputs)[1])


def test_a_row_without_keys_is_zero_with_finite_gradients():
    _, ours = _pair(batch_first=True)
    q, k, v = (one.requires_grad_() for one in _inputs(batch_first=True))
    nothing = torch.ones(B, S, dtype=torch.bool)
    output, weights = ours(q, k, v, key_padding_mask=nothing)
    assert_close("output", output, ours.out_proj.bias.expand_as(output))
    assert not weights.any()
    output.sum().backward()
    assert torch.isfinite(q.grad).all()


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("is_training", [False, True])
def test_torch_s_encoder_layer_works_with_it_swapped_in(norm_first, is_training):
    torch.manual_seed(5)
    layer = nn.TransformerEncoderLayer(
        M, H, 16, dropout=0.0, batch_first=True, norm_first=norm_first, dtype=torch.float64
    ).train(is_training)
    x = torch.randn(B, S, M, dtype=torch.float64)
    causal = nn.Transformer.generate_square_subsequent_mask(S, dtype=torch.float64)
    asked = ({}, {"src_key_padding_mask": PADDING}, {"src_mask": causal, "is_causal": True})
    with torch.no_grad():
        want = [layer(x, **one) for one in asked]
    ours = MultiheadAttention(M, H, batch_first=True, dtype=torch.float64)
    ours.load_state_dict(layer.self_attn.state_dict())
    layer.self_attn = ours
    with torch.no_grad():
        for one, wanted in zip(asked, want, strict=True):
            seen = slice(None) if "src_key_padding_mask" not in one else ~PADDING
            assert_close("layer", layer(x, **one)[seen], wanted[seen])


def test_torch_s_decoder_and_stack_take_it_and_run_its_chain_in_evaluation():
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(M, H, 16, batch_first=True), 2, enable_nested_tensor=False
    ).eval()
    decoder = nn.TransformerDecoderLayer(M, H, 16, batch_first=True).eval()
    sparse = [layer.self_attn for layer in encoder.layers]
    for layer in encoder.layers:
        layer.self_attn = MultiheadAttention(
            M, H, batch_first=True, chain=Chain(select=SparsemaxSelection())
        ).eval()
        layer.self_attn.load_state_dict(sparse.pop(0).state_dict())
    decoder.multihead_attn = MultiheadAttention(M, H, batch_first=True).eval()
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    x, y = torch.randn(B, S, M), torch.randn(B, L, M)
    with torch.no_grad(), captured(model) as maps:
        decoder(y, encoder(x, src_key_padding_mask=PADDING))
    assert len(maps) == 3
    weights = maps["encoder.layers.1.self_attn.chain"].dense()
    assert (weights == 0).any()
    assert not weights[1, :, :, 4:].any()
    assert maps["decoder.multihead_attn.chain"].output.shape == (H, M // H, M)


def test_a_chain_of_links_replaces_torch_s():
    relation = ShawRelation(Dims(d_model=M, n_heads=H).head(), clip=2)
    ours = MultiheadAttention(M, H, batch_first=True, chain=Chain(relation=relation))
    plain = MultiheadAttention(M, H, batch_first=True)
    plain.load_state_dict({k: v for k, v in ours.state_dict().items() if "chain" not in k})
    x = torch.randn(B, S, M)
    assert {k for k in ours.state_dict() if "chain" in k} == {
        "chain.relation.wK", "chain.relation.wV",
    }  # fmt: skip
    output, weights = ours(x, x, x)
    assert not torch.allclose(output, plain(x, x, x)[0])
    weights.square().sum().backward()
    assert relation.wK.grad.abs().sum() > 0


def test_dropout_drops_in_training_alone():
    module = MultiheadAttention(M, H, dropout=0.5, batch_first=True)
    x = torch.randn(B, S, M)
    once, again = (module(x, x, x, need_weights=False)[0] for _ in range(2))
    assert not torch.equal(once, again)
    module.eval()
    once, again = (module(x, x, x, need_weights=False)[0] for _ in range(2))
    assert torch.equal(once, again)


X = torch.zeros(B, S, M)
WRONG = {
    "heads that do not divide": (
        lambda: MultiheadAttention(M, 5),
        DimsError,
        r"n_heads \(5\) must divide d_model \(12\)",
    ),
    "two dropouts": (
        lambda: MultiheadAttention(M, H, dropout=0.1, chain=Chain()),
        SettingError,
        r"chain holds the dropout of its weights, so dropout would change nothing\. Write "
        r"chain=Chain\(…, dropout=0\.1\)",
    ),
    "a link for the whole width": (
        lambda: MultiheadAttention(M, H, chain=Chain(relation=ShawRelation(Dims(d_model=M)))),
        ShapeError,
        r"MultiheadAttention: shaw is made for queries 12 wide, got queries 4 wide",
    ),
    "a key that stands nowhere under a window": (
        lambda: MultiheadAttention(M, H, add_bias_kv=True, chain=Chain(pattern="blocks:size=4")),
        SettingError,
        r"append keys that stand nowhere, but Chain\(score=scaled_dot, pattern=blocks:size=4, "
        r"select=soft\) has a link that reads positions",
    ),
    "another width": (
        lambda: MultiheadAttention(M, H, batch_first=True)(X[..., 1:], X, X),
        ShapeError,
        r"expected query, key and value of shape \(b, n, width\) or \(n, width\), with widths of "
        r"12, 12 and 12; got, batch first, \(2, 7, 11\)",
    ),
    "a padding mask of another shape": (
        lambda: MultiheadAttention(M, H, batch_first=True)(X, X, X, PADDING.T),
        ShapeError,
        r"key_padding_mask must be of shape \(2, 7\) for 2 sentences, 7 queries and 7 keys, got "
        r"\(7, 2\)\.",
    ),
    "a mask of whole numbers": (
        lambda: MultiheadAttention(M, H)(*[X] * 3, attn_mask=torch.ones(2, 2).long()),
        ShapeError,
        r"attn_mask must be boolean \(True hides\) or of floats that are added to the scores, got "
        r"torch\.int64\. Write mask\.bool\(\)",
    ),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_told_with_its_remedy(mistake):
    make, kind, said = WRONG[mistake]
    with pytest.raises(kind, match=said):
        make()


def test_it_is_public():
    assert regard.MultiheadAttention is MultiheadAttention
    assert "embed_dim=12, num_heads=3" in repr(MultiheadAttention(M, H))
