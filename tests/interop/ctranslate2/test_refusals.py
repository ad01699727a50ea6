"""What CTranslate2 cannot hold is refused with the reason, and with what to take instead."""

import pytest

import regard
from regard.cli import main
from regard.errors import SettingError
from regard.interop.ctranslate2 import CTranslate2
from regard.interop.exporting import export_ctranslate2
from tests.factories import ENCODER
from tests.interop.ctranslate2.families import ENCODER_DECODER, LANGUAGE_MODEL, SIZES, TEXTS, made

RECURRENT = 'kind = "recurrent"\nd_embedding = 8\nd_hidden = 8'

REFUSED = {
    "additive": (ENCODER_DECODER + 'score = "additive"', "additive is no dot product.*scaled_dot"),
    "sparsemax": (ENCODER_DECODER + 'select = "sparsemax"', "sparsemax is no softmax.*'soft'"),
    "window": (
        ENCODER_DECODER + 'encoder_attends = ["sliding_window:size=2"]',
        "pattern sliding_window hides keys.*'full'",
    ),
    "past": (ENCODER_DECODER + 'encoder_attends = ["causal"]', "pattern causal hides keys"),
    "memory": (
        ENCODER_DECODER + 'encoder_attends = ["linformer:slots=4"]',
        "linformer shortens keys",
    ),
    "branches": (
        f'{SIZES}n_encoder_layers = 1\nn_decoder_layers = 1\nlayer = "weighted_branches"'.replace(
            "40", "48"
        ),
        "kind BranchedEncoderLayer, which other runtimes lack; take model.layer = 'plain'",
    ),
    "no norm": (ENCODER_DECODER + 'norm = "no_norm"', "kind NoNorm, .*pre_norm"),
    "recurrent": (RECURRENT, "kind Recurrent is no Transformer.*model.kind = 'transformer'"),
    "rotary and a source": (
        ENCODER_DECODER + 'positions = "rotary"',
        "rotary positions turn queries and keys of attention to the source",
    ),
    "waves and Shaw": (
        ENCODER_DECODER + 'relation = { name = "shaw", is_shared = true }',
        "adds no positions to token vectors.*model.positions = 'none'",
    ),
    "Shaw for every head": (
        ENCODER_DECODER + 'positions = "none"\nrelation = "shaw"',
        "every head has vectors of its own.*is_shared = true",
    ),
    "T5 in a language model": (
        LANGUAGE_MODEL + 'positions = "none"\nrelation = "bucketed"',
        "no biases by distance in a language model but ALiBi's.*linear_bias",
    ),
    "experts": (LANGUAGE_MODEL + "experts = { count = 2, used = 1 }", "kind Experts"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_export_is_refused_with_the_reason_and_writes_nothing(tmp_path, name):
    model, reason = REFUSED[name]
    run = made(tmp_path / "run", model)
    with pytest.raises(SettingError, match=f"export: CTranslate2 cannot hold the run .*{reason}"):
        export_ctranslate2(run, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_an_engine_that_cannot_hold_a_model_is_refused_with_the_reason(tmp_path, capsys):
    run = made(tmp_path / "run", ENCODER_DECODER + 'score = "additive"')
    words = ["predict", str(run), "--text", TEXTS[0], "--engine", "ctranslate2"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "--engine ctranslate2: the run" in said
    assert "additive is no dot product" in said
    assert not (run / "engines").exists() or not list((run / "engines").iterdir())


def test_an_encoder_answers_nothing_in_ctranslate2(tmp_path):
    run = made(tmp_path / "run", ENCODER.format(task="words"))
    with pytest.raises(SettingError, match="encoders without heads, which answer nothing"):
        regard.load(run, device="cpu", engine=CTranslate2(cache="temporary"))


@pytest.mark.parametrize(
    ("option", "value"),
    [("--sample", None), ("--prefix", "the"), ("--ensemble", "other"), ("--vectors", "x.npy")],
)
def test_options_that_only_torch_has_are_refused_at_once(tmp_path, capsys, option, value):
    words = ["predict", "run", "--text", "a", "--engine", "ctranslate2", option]
    assert main([*words, *([] if value is None else [value])]) == 2
    said = capsys.readouterr().err
    assert f"{option} is for torch alone, got --engine ctranslate2" in said


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("ctranslat2", "--engine: There is no 'ctranslat2' here. Did you mean 'ctranslate2'?"),
        ("ctranslate2:bits=8", "'ctranslate2' has no setting 'bits'; it takes quantization"),
        ("ctranslate2:quantization=int9", "Did you mean 'int8'?"),
        ("torch:threads=2", "'torch' has no setting 'threads'; it takes no settings"),
    ],
)
def test_a_mistyped_engine_is_an_error_that_says_what_there_is(tmp_path, capsys, engine, message):
    run = made(tmp_path / "run", ENCODER_DECODER)
    assert main(["predict", str(run), "--text", "a", "--engine", engine]) == 2
    assert message in capsys.readouterr().err
