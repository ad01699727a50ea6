"""The convolutional model's sizes and choices: what is refused, and how far windows see."""

import pytest

from regard.choices import Choice
from regard.errors import SettingError, UnknownChoice
from regard.models.convolutional.spec import DILATIONS, ConvolutionalSpec

MISTAKES = {
    "model.d_model must lie between 1 and 65,536, got 0": (SettingError, {"d_model": 0}),
    "model.n_decoder_layers must lie between 1 and 1,000, got 1001": (
        SettingError,
        {"n_decoder_layers": 1001},
    ),
    "model.max_len must lie between 1 and 16,777,216, got 0": (SettingError, {"max_len": 0}),
    "model.kernel must be odd and lie between 3 and 1,024, got 4": (SettingError, {"kernel": 4}),
    "model.kernel must be odd and lie between 3 and 1,024, got 1": (SettingError, {"kernel": 1}),
    "model.dropout must lie in [0, 1), got 1.0": (SettingError, {"dropout": 1.0}),
    "model.kind must be 'convolutional' here, got 'transformer'": (
        SettingError,
        {"kind": "transformer"},
    ),
    "Did you mean 'doubling'": (UnknownChoice, {"dilations": "dubling"}),
    "Did you mean 'output'": (UnknownChoice, {"tied": "outputs"}),
    "Did you mean 'additive'": (UnknownChoice, {"score": Choice("aditive")}),
    "Did you mean 'soft'": (UnknownChoice, {"select": Choice("sof")}),
    "Did you mean 'learned'": (UnknownChoice, {"positions": Choice("learnt")}),
    "model.positions = 'rotary' cannot be added to the embeddings: it turns queries and keys": (
        SettingError,
        {"positions": Choice("rotary")},
    ),
    "it needs a tree of the target too, which does not exist before it is written. Take learned": (
        SettingError,
        {"positions": Choice("tree_depth")},
    ),
    "more than max_len (16) apart from layer 6 on, got 7 layers. Take at most 5, or dilations": (
        SettingError,
        {"dilations": "doubling", "n_encoder_layers": 7, "max_len": 16},
    ),
}


@pytest.mark.parametrize(("text", "case"), MISTAKES.items(), ids=MISTAKES)
def test_a_wrong_setting_is_refused_by_its_full_name(text, case):
    kind, settings = case
    with pytest.raises(kind) as said:
        ConvolutionalSpec(**settings)
    assert text in str(said.value)


def test_the_receptive_field_is_counted_for_each_side():
    spec = ConvolutionalSpec(kernel=5, n_encoder_layers=3, n_decoder_layers=6)
    assert spec.receptive_field == (1 + 3 * 4, 1 + 6 * 4)
    grown = ConvolutionalSpec(
        kernel=3, n_encoder_layers=4, n_decoder_layers=2, dilations="doubling"
    )
    assert grown.receptive_field == (1 + 2 * 15, 1 + 2 * 3)


@pytest.mark.parametrize("dilations", DILATIONS)
@pytest.mark.parametrize("kernel", [3, 7])
def test_two_words_meet_at_the_first_layer_whose_windows_reach(dilations, kernel):
    spec = ConvolutionalSpec(kernel=kernel, dilations=dilations)
    at = DILATIONS[dilations].at
    for distance in range(40):
        for found, reach in zip(
            spec.layers_to_meet(distance), ((kernel - 1) // 2, kernel - 1), strict=True
        ):
            far = [sum(reach * at(layer) for layer in range(n)) for n in (found - 1, found)]
            assert far[1] >= distance
            assert found == 0 or far[0] < distance


def test_a_total_of_dilations_is_their_sum():
    for grows in DILATIONS.values():
        assert [grows.total(n) for n in range(9)] == [
            sum(grows.at(layer) for layer in range(n)) for n in range(9)
        ]


def test_a_distance_is_not_negative():
    with pytest.raises(SettingError, match="distance must be at least 0, got -1"):
        ConvolutionalSpec().layers_to_meet(-1)
