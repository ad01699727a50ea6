"""Folders for CTranslate2, read by that library alone: they hold all that their README uses."""

import json
import re

import ctranslate2
import numpy as np
import pytest
import torch

import regard
from regard.cli import main
from regard.decoding import Beam, Greedy, Limits, NoPenalty
from regard.errors import UnknownChoice
from regard.interop.exporting import export_ctranslate2
from tests.factories import ENCODER, make_run
from tests.interop.ctranslate2.families import ENCODER_DECODER, LANGUAGE_MODEL, TEXTS, made
from tests.interop.exporting.test_ctranslate2 import TEXTS as ALL_TEXTS
from tests.interop.exporting.test_ctranslate2 import taught


def answers_of_readme(folder, names, monkeypatch, capsys):
    """What the README's own lines print for the text among these names."""
    (block,) = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(folder.parent)
    capsys.readouterr()
    exec(block, names)
    return capsys.readouterr().out.strip()


def test_the_readme_s_lines_give_the_answer_of_predict(tmp_path, monkeypatch, capsys):
    run = taught(make_run(tmp_path / "run", *ALL_TEXTS, kind="words", model=ENCODER_DECODER))
    export_ctranslate2(run, tmp_path / "there")
    (wanted,) = regard.load(run, device="cpu").predict(
        [TEXTS[3]], search=Beam(width=5, penalty=NoPenalty(), limits=Limits(max_tokens=20))
    )
    names = {"text": TEXTS[3]}
    assert answers_of_readme(tmp_path / "there", names, monkeypatch, capsys) == wanted.text


@pytest.mark.parametrize("kind", ["characters", "bpe", "unigram"])
def test_the_readme_cuts_and_joins_pieces_of_every_kind(tmp_path, kind, monkeypatch, capsys):
    run = made(tmp_path / "run", ENCODER_DECODER, kind=kind)
    export_ctranslate2(run, tmp_path / "there")
    names = {"text": TEXTS[3]}
    answers_of_readme(tmp_path / "there", names, monkeypatch, capsys)
    source = regard.load(run, device="cpu").loaded.source
    assert names["cut"](TEXTS[3]) == [source.pieces[i] for i in source.encode(TEXTS[3])]
    assert names["joined"](names["cut"](TEXTS[3])) == TEXTS[3]


@pytest.mark.parametrize("rows", ["separated", "running", "continued"])
def test_a_language_model_s_readme_makes_the_prompt(tmp_path, rows, monkeypatch, capsys):
    run = made(tmp_path / "run", f'{LANGUAGE_MODEL}rows = "{rows}"')
    export_ctranslate2(run, tmp_path / "there")
    search = Greedy(limits=Limits(max_tokens=20))
    (wanted,) = regard.load(run, device="cpu").predict([TEXTS[3]], search=search)
    said = answers_of_readme(tmp_path / "there", {"text": TEXTS[3]}, monkeypatch, capsys)
    assert said.split()[: len(wanted.tokens)] == wanted.text.split()


def test_an_encoder_s_states_are_those_of_the_run(tmp_path):
    model = ENCODER.format(task="vectors") + "\nn_segments = 1\nnorm_eps = 1e-5"
    run = made(tmp_path / "run", model)
    done = export_ctranslate2(run, tmp_path / "there")
    assert "encoders without heads" in done.notes[0]
    trained = regard.load(run, device="cpu")
    ids = trained.loaded.source.encode(TEXTS[4])
    with torch.no_grad():
        wanted = trained.loaded.model.encoder(torch.tensor([[*ids, 2]]))
    pieces = ["<bos>", *(trained.loaded.source.pieces[i] for i in ids), "<eos>"]
    found = ctranslate2.Encoder(str(tmp_path / "there")).forward_batch([pieces])
    np.testing.assert_allclose(np.array(found.last_hidden_state), wanted.numpy(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("quantization", ["float16", "int8"])
def test_lower_precision_makes_a_smaller_model_and_says_how_it_answers(tmp_path, quantization):
    run = made(tmp_path / "run", ENCODER_DECODER)
    export_ctranslate2(run, tmp_path / "whole")
    done = export_ctranslate2(run, tmp_path / "there", quantization)
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("there", "whole")]
    assert sizes[0] < 0.8 * sizes[1]
    assert re.search(r"CTranslate2: \d of 4 answers .* are those of torch", done.notes[0])
    about = json.loads((tmp_path / "there" / "regard.json").read_text())
    assert about["quantization"] == quantization


def test_the_verb_names_the_files_and_what_ctranslate2_answered(tmp_path, capsys):
    run = made(tmp_path / "run", ENCODER_DECODER)
    out = tmp_path / "there"
    words = ["export", str(run), "--to", "ctranslate2", "--out", str(out)]
    assert main([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert sorted(said["files"]) == sorted(path.name for path in out.iterdir())
    assert "4 of 4 answers to texts of the run's own data are those of torch" in said["notes"][0]
    assert main(words) == 2
    assert "is not empty. Choose another --out" in capsys.readouterr().err


def test_padding_and_begin_are_never_written_by_others(tmp_path):
    run = made(tmp_path / "run", ENCODER_DECODER)
    export_ctranslate2(run, tmp_path / "there")
    model = ctranslate2.Translator(str(tmp_path / "there"))
    found = model.translate_batch(
        [text.split() for text in TEXTS], beam_size=4, num_hypotheses=4, max_decoding_length=8
    )
    written = {piece for one in found for row in one.hypotheses for piece in row}
    assert written
    assert not written & {"<pad>", "<bos>"}


def test_attention_of_the_last_layer_is_the_mean_of_its_heads(tmp_path):
    run = made(tmp_path / "run", ENCODER_DECODER)
    export_ctranslate2(run, tmp_path / "there")
    model = ctranslate2.Translator(str(tmp_path / "there"))
    (found,) = model.translate_batch(
        [TEXTS[4].split()], beam_size=1, return_attention=True, max_decoding_length=6
    )
    trained = regard.load(run, device="cpu")
    record = trained.look(TEXTS[4], " ".join(found.hypotheses[0]))
    wanted = record.attention["cross"].layers[-1].dense()[0].mean(0)
    count = len(found.hypotheses[0])
    np.testing.assert_allclose(
        np.array(found.attention[0])[:count], wanted[:count, : len(TEXTS[4].split())], atol=1e-4
    )


def test_quantization_is_for_ctranslate2_and_has_three_names(tmp_path):
    run = made(tmp_path / "run", ENCODER_DECODER)
    with pytest.raises(UnknownChoice, match="--quantization: There is no 'int3' here"):
        export_ctranslate2(run, tmp_path / "there", "int3")
