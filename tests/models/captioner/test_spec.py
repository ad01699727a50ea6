"""What a captioner is built of: every mistake has its sentence, and nothing is said in vain."""

import re

import pytest

from regard.choices import Choice
from regard.errors import SettingError, ShapeError, UnknownChoice
from regard.models.captioner.focus import FOCUSES
from regard.models.captioner.network import DECODERS, build_captioner
from regard.models.captioner.spec import NO_USE, PAPERS, CaptionerSpec

MISTAKES = {
    "model.kind must be 'captioner' here, got 'recurrent'": {"kind": "recurrent"},
    "model.picture_size must lie between 1 and 16,384, got 0": {"picture_size": 0},
    "model.d_hidden must lie between 1 and 262,144, got 0": {"d_hidden": 0},
    "model.d_attention must lie between 0 and 65,536, got -1": {"d_attention": -1},
    "model.n_samples must lie between 1 and 1,024, got 0": {"select": "hard", "n_samples": 0},
    "model.dropout must lie in [0, 1), got 1.0": {"dropout": 1.0},
    "model.penalty must be at least 0, got -0.5": {"penalty": -0.5},
    "model.entropy must be at least 0, got nan": {"select": "hard", "entropy": float("nan")},
    "model.expected_share must lie in [0, 1], got 1.5": {"select": "hard", "expected_share": 1.5},
    "model.n_samples = 3 would do nothing: select = 'soft' has no use for it. Leave it out, or "
    "choose another select.": {"n_samples": 3},
    "model.at_test = 'argmax' would do nothing: select = 'soft'": {"at_test": "argmax"},
    "model.learns_from_expected = True would do nothing": {"learns_from_expected": True},
    "model.n_layers = 2 would do nothing: decoder = 'lstm'": {"n_layers": 2},
    "model.penalty = 1.0 would do nothing: decoder = 'transformer'": {
        "decoder": "transformer",
        "penalty": 1.0,
    },
    "model.state_dropout must lie in [0, 1], got -0.1": {"state_dropout": -0.1},
    "model.state_dropout = 0.5 would do nothing: readout = 'seen' has no use for it.": {
        "readout": "seen",
        "state_dropout": 0.5,
    },
    "model.look = 'after' would do nothing: decoder = 'transformer'": {
        "decoder": "transformer",
        "look": "after",
    },
    "model.select = 'hard' would do nothing: decoder = 'transformer'": {
        "decoder": "transformer",
        "select": "hard",
    },
    "model.d_embedding (15) must be even, for sines and cosines, and a multiple of n_heads (4). "
    "Take 16.": {"decoder": "transformer", "d_embedding": 15, "n_heads": 4},
}
UNKNOWN = {
    "model.encoder: There is no 'resnet' here": {"encoder": Choice("resnet")},
    "model.decoder: There is no 'lstn' here. Did you mean 'lstm'?": {"decoder": "lstn"},
    "model.select: There is no 'hart' here. Did you mean 'hard'?": {"select": "hart"},
    "model.look: There is no 'afterwards' here": {"look": "afterwards"},
    "model.readout: There is no 'sean' here. Did you mean 'seen'?": {"readout": "sean"},
    "model.tied: There is no 'all' here": {"tied": "all"},
    "model.credit: There is no 'letter' here": {"select": "hard", "credit": "letter"},
    "model.activation: There is no 'tahn' here. Did you mean 'tanh'?": {"activation": "tahn"},
    "model.at_test: There is no 'max' here. Did you mean 'argmax'?": {"at_test": "max"},
}


@pytest.mark.parametrize("said", MISTAKES)
def test_a_mistake_says_what_is_wrong_and_what_to_do(said):
    with pytest.raises(SettingError, match=re.escape(said)):
        CaptionerSpec(**MISTAKES[said])


@pytest.mark.parametrize("said", UNKNOWN)
def test_a_name_that_nobody_knows_is_met_with_the_nearest(said):
    with pytest.raises(UnknownChoice, match=re.escape(said)):
        CaptionerSpec(**UNKNOWN[said])


@pytest.mark.parametrize("name", PAPERS)
def test_a_named_model_can_be_changed_and_is_what_it_is_called(name):
    spec = CaptionerSpec(**{**PAPERS[name], "dropout": 0.2})
    assert name in (spec.select, spec.decoder)
    assert spec.d_model == (1800 if spec.decoder == "lstm" else 512)


def test_every_name_has_a_part_that_is_made_for_it():
    assert DECODERS.keys() == NO_USE["decoder"].keys()
    assert FOCUSES.keys() == NO_USE["select"].keys()


def test_a_picture_smaller_than_one_cell_is_refused():
    with pytest.raises(ShapeError, match="residual: a picture must be at least 8 x 8 pixels"):
        build_captioner(CaptionerSpec(picture_size=4), n_source_tokens=1, n_target_tokens=9)


def test_a_setting_that_the_encoder_does_not_have_is_refused():
    spec = CaptionerSpec(encoder=Choice("residual", {"depth": 3}))
    with pytest.raises(SettingError, match="'residual' has no setting 'depth'; it takes width"):
        build_captioner(spec, n_source_tokens=1, n_target_tokens=9)
