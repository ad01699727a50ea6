"""A captioner as a model: what it is shown, how it is taught, saved, searched and compiled."""

import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy

from regard.choices import Choice
from regard.decoding import Beam, Greedy, Limits, Sampling, Sentence, fast_model
from regard.errors import ShapeError
from regard.models import Stepper, Trainable
from regard.models.captioner.network import Album, build_captioner
from regard.models.captioner.spec import CaptionerSpec
from regard.models.mask_checks import check_future
from regard.models.stepper import BOS, EOS, PAD
from regard.models.trainable import shifted
from regard.training.checkpoints import Progress, load_checkpoint, save_checkpoint
from regard.training.losses import Objective
from tests.assertions import assert_close
from tests.decoding.writers import decided, decode_all
from tests.models.captioner.small import (
    HARD,
    SOFT,
    SPECS,
    D,
    V,
    annotations,
    build,
    captions,
    read,
)

ROOT = Path(__file__).parents[3]
LIMITS = Limits(max_tokens=4)
SEARCHES = {
    "greedy": Greedy(limits=LIMITS),
    "beam": Beam(width=3, n_best=3, limits=LIMITS),
    "sampling": Sampling(n_samples=2, top_p=0.9, limits=LIMITS),
}


def pictures(n=3, size=8):
    return torch.randint(0, 256, (n, 3, size, size), dtype=torch.uint8)


def loss(model, source, target):
    hidden, gold = model.loss_inputs(source, target)
    return cross_entropy(model.output(hidden).flatten(0, 1), gold.flatten(), ignore_index=PAD)


@pytest.mark.parametrize("name", SPECS)
def test_a_picture_says_what_its_annotations_say(name):
    model, shown, target = build(SPECS[name]), pictures(), read()
    source = model.encoder(shown)
    assert source.shape == (3, 4, D)
    assert_close("logits", model(shown, target), model(source, target))
    here, there = (model.maps(s, target)["cross"][-1].dense() for s in (shown, source))
    assert_close("weights", here, there)
    assert here.shape[-1] == 4, "a column for each cell"
    assert model.maps(shown, target)["cross"][0].columns == "keys"


def test_annotations_may_have_been_kept_in_half_precision():
    model, source, target = build(SOFT).float(), annotations().half(), read()
    assert_close("logits", model(source, target), model(source.float(), target), atol=1e-6)


@pytest.mark.parametrize(
    ("source", "got"),
    [
        (torch.zeros(2, 7, dtype=torch.int64), r"got \(2, 7\) of torch.int64"),
        (torch.zeros(2, 6, 15), r"got \(2, 6, 15\) of torch.float32"),
        (torch.zeros(2, 6, 16, dtype=torch.int64), r"got \(2, 6, 16\) of torch.int64"),
    ],
)
def test_what_is_no_picture_is_refused(source, got):
    said = r"expected pictures \(b, 3, y, x\) or annotations \(b, l, 16\) of real numbers, " + got
    with pytest.raises(ShapeError, match=said):
        build(SOFT).annotations(source)


@pytest.mark.parametrize("name", SPECS)
def test_every_parameter_learns(name):
    spec = replace(SPECS[name], d_embedding=12, dropout=0.1)
    model = build_captioner(spec, n_source_tokens=1, n_target_tokens=V)
    assert isinstance(model, Trainable)
    assert isinstance(model, Stepper)
    assert model.output.bias is None
    assert all(part.training for part in model.modules())
    target = captions((5, 2, 4, 5, 5, 3))
    got = Objective(0.1)(model.loss_inputs, model.output, pictures(6), target, scale=0.1)
    got.total.backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


@pytest.mark.parametrize("tied", ["none", "output"])
@pytest.mark.parametrize("name", SPECS)
def test_the_loss_begins_near_log_v(name, tied):
    spec = replace(SPECS[name], d_embedding=64, d_hidden=64, tied=tied)
    model = build_captioner(spec, n_source_tokens=1, n_target_tokens=2000).eval()
    assert (model.output.weight is next(model.decoder.embedding.parameters())) == (tied != "none")
    with torch.no_grad():
        began = float(loss(model, pictures(16), torch.randint(4, 2000, (16, 9))))
    assert began == pytest.approx(math.log(2000), rel=0.1)


@pytest.mark.parametrize("name", ["soft", "hard", "transformer"])
def test_every_kind_learns_a_few_captions(name):
    more = {"learns_from_expected": True} if name == "hard" else {"penalty": 0.0}
    spec = replace(SPECS[name], d_embedding=24, d_hidden=32, **more)
    model = build_captioner(spec, n_source_tokens=1, n_target_tokens=V)
    shown, target = pictures(4), captions((5, 3, 4, 5))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    before = float(loss(model.eval(), shown, target).detach())
    for _ in range(40):
        optimiser.zero_grad()
        Objective()(
            model.train().loss_inputs, model.output, shown, target, scale=0.1
        ).total.backward()
        optimiser.step()
    assert float(loss(model.eval(), shown, target).detach()) < 0.3 * before


def test_shapes_are_those_of_the_model_without_a_number_made():
    for spec in SPECS.values():
        with torch.device("meta"):
            model = build_captioner(spec, n_source_tokens=1, n_target_tokens=V)
        wanted = build_captioner(spec, n_source_tokens=1, n_target_tokens=V)
        assert {n: p.shape for n, p in model.named_parameters()} == {
            n: p.shape for n, p in wanted.named_parameters()
        }


def test_a_frozen_encoder_has_nothing_to_learn_and_is_saved_all_the_same():
    encoder = Choice("efficientnet_lite0", {"grid": "fine"})
    spec = replace(SOFT, encoder=encoder, picture_size=32)
    model = build_captioner(spec, n_source_tokens=1, n_target_tokens=V)
    assert model.encoder.is_frozen
    assert not [name for name, _ in model.named_parameters() if name.startswith("encoder.")]
    assert any(name.startswith("encoder.") for name in model.state_dict())
    assert not model.annotations(pictures(1, 32)).requires_grad


def trained(model, optimiser, steps):
    for _ in range(steps):
        optimiser.zero_grad()
        source, target = pictures(), captions()
        Objective()(model.loss_inputs, model.output, source, target, scale=0.1).total.backward()
        optimiser.step()


def test_a_training_that_was_interrupted_goes_on_to_the_bit(tmp_path):
    spec = replace(HARD, dropout=0.3, n_samples=2)

    def begun():
        model = build_captioner(spec, n_source_tokens=1, n_target_tokens=V).train()
        return model, torch.optim.AdamW(model.parameters(), lr=0.01)

    model, optimiser = begun()
    trained(model, optimiser, 2)
    saved = save_checkpoint(tmp_path, model, optimiser, Progress(step=2))
    # what is validated in between leaves no trace
    model.eval().loss_inputs(pictures(), captions())
    load_checkpoint(saved, model, optimiser)
    trained(model.train(), optimiser, 2)
    other, another = begun()
    load_checkpoint(saved, other, another)
    trained(other, another, 2)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
    assert float(model.decoder.cell.focus.baseline) != 0.0


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("name", SPECS)
def test_what_a_search_says_of_its_answer_is_what_a_whole_pass_says(name, search):
    model, source = decided(build(SPECS[name])), annotations(5)
    album = Album(model, source.__getitem__)
    assert isinstance(album, Stepper)
    asked = [Sentence([i], seed=i) for i in range(5)]
    together = SEARCHES[search](album, asked)
    apart = decode_all(album, asked, SEARCHES[search], batch_tokens=2)
    for i, (found, alone) in enumerate(zip(together, apart, strict=True)):
        assert [h.tokens for h in found] == [h.tokens for h in alone]
        assert [h.score for h in found] == pytest.approx([h.score for h in alone], abs=1e-5)
        for h in found:
            own = model(source[i : i + 1], torch.tensor([[BOS, *h.tokens]]))[0].log_softmax(-1)
            written = [*h.tokens, *([EOS] if h.has_ended else [])]
            want = own[torch.arange(len(written)), torch.tensor(written)]
            if search != "sampling":
                got = torch.tensor(h.token_log_probabilities, dtype=torch.float64)
                assert_close("log-probabilities", got, want.detach(), atol=2e-6)


@pytest.mark.parametrize("name", SPECS)
def test_a_fast_model_is_the_same_model(name):
    model, source = decided(build(SPECS[name]).float()), annotations(4).float()
    ours = fast_model(model, torch.device("cpu"))
    target = read(4)
    assert_close("logits", ours(source, target), model(source, target), atol=1e-5)
    asked = [Sentence([i]) for i in range(4)]
    fast, slow = (SEARCHES["beam"](Album(m, source.__getitem__), asked) for m in (ours, model))
    assert [[h.tokens for h in row] for row in fast] == [[h.tokens for h in row] for row in slow]


def test_the_self_check_notices_a_future_that_is_seen():
    model, source = build(SOFT), annotations(2)
    with pytest.raises(AssertionError, match="a later token changes earlier states by"):
        check_future(model, lambda tokens: model.hidden(source, tokens.flip(1)).flip(1), V)


@pytest.mark.parametrize("name", SPECS)
def test_what_repeats_is_a_step_or_the_layers(name):
    model = build(SPECS[name])
    repeated = list(model.repeated())
    assert len(repeated) == (SPECS[name].n_layers if name == "transformer" else 1)
    assert all(part in set(model.decoder.modules()) for part in repeated)


# the type checks of the tests would break the graph, so the cases run in a process without them
COMPILED = """
from tests.models.captioner.small import SPECS, annotations, build, read
import torch

torch.set_num_threads(1)
for name, spec in SPECS.items():
    model, source, target = build(spec), annotations(), read(n_tokens=3)
    with torch.no_grad():
        want = model.hidden(source, target)
        for part in model.repeated():
            part.compile(backend="eager", fullgraph=True, dynamic=True)
        torch.testing.assert_close(model.hidden(source, target), want, atol=1e-12, rtol=1e-12)
    model.train().hidden(source, target).sum().backward()
print("the same")
"""


@pytest.mark.slow
def test_what_repeats_can_be_compiled_whole():
    ran = subprocess.run(
        [sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert ran.stdout.strip() == "the same", ran.stderr


def test_a_lesson_reads_the_begin_token_first():
    model, source, target = build(SOFT), annotations(), captions()
    hidden, gold = model.loss_inputs(source, target)
    assert torch.equal(gold, target)
    assert_close("hidden", hidden, model.hidden(source, shifted(target)))


def test_the_default_is_a_model_of_its_own():
    spec = CaptionerSpec(picture_size=16, d_embedding=8, d_hidden=8)
    model = build_captioner(spec, n_source_tokens=1, n_target_tokens=V)
    # the score is as wide as an annotation unless something is said
    assert model.decoder.cell.score.v.shape == (1, model.encoder.d_annotation)
