"""A Transformer's decoder over cells: it is a Transformer that was given them as its source."""

import torch

from regard.models import TransformerSpec, build_transformer
from regard.models.stepper import PAD
from tests.assertions import assert_close, assert_same_gradients
from tests.models.captioner.small import SPECS, V, annotations, build, read

SPEC = SPECS["transformer"]


def as_transformer(model, cells):
    """The same weights in a Transformer that reads these cells instead of words."""
    spec = TransformerSpec(
        d_model=SPEC.d_embedding, n_heads=SPEC.n_heads, d_hidden=SPEC.d_hidden, n_encoder_layers=1,
        n_decoder_layers=SPEC.n_layers, dropout=0.0, norm="pre_norm", tied="none",
    )  # fmt: skip
    other = build_transformer(spec, n_source_tokens=V, n_target_tokens=V).double().eval()
    other.target, other.decoder = model.decoder.embedding, model.decoder.layers
    other.decoder_norm, other.output = model.decoder.norm, model.output
    other.encoder, other.encode = torch.nn.ModuleList(), lambda *_: cells
    return other


def test_it_is_a_transformer_that_reads_cells():
    model, source, target = build(SPEC), annotations(), read()
    target[1, 3:] = PAD
    cells = model.decoder._cells(source)
    words = torch.full((3, source.shape[1]), 5)
    other = as_transformer(model, cells)
    got, want = model.hidden(source, target), other.hidden(words, target)
    assert_close("hidden", got, want)
    assert_same_gradients(got, want, dict(model.decoder.named_parameters()))
    found, wanted = model.maps(source, target), other.maps(words, target)
    for kind in ("decoder", "cross"):
        for here, there in zip(found[kind], wanted[kind], strict=True):
            assert_close(kind, here.dense(), there.dense())
    assert model.gates(source, target) is None


def test_a_cell_is_known_by_its_number():
    model, source, target = build(SPEC), annotations(), read()
    other = model(source[:, torch.randperm(6)], target)
    assert not torch.allclose(other, model(source, target), atol=1e-3)
    first, second = model.decoder._cells(torch.zeros_like(source))[0, :2]
    codes = model.decoder.positions(torch.arange(2))
    assert_close("what tells two blank cells apart", second - first, codes[1] - codes[0])
