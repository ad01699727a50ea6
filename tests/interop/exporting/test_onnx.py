"""ONNX graphs: searches over them by onnxruntime answer as the run, at any batch and length."""

import json
import re
import subprocess
import sys

import pytest
import torch

import regard
from regard.cli import main
from regard.data.subword_kinds import EOS
from regard.decoding import Beam, Greedy, Limits, Sentence
from regard.errors import SettingError
from regard.interop.exporting import export_onnx
from regard.interop.onnx import OnnxStepper
from regard.models.portable import tensor_functions
from tests.interop.ctranslate2.families import ENCODER_DECODER, LANGUAGE_MODEL, SIZES, TEXTS, made

SMALL = f"{SIZES}n_encoder_layers = 1\nn_decoder_layers = 1\n"
LIMITS = Limits(max_tokens=7)
LINKS = {
    "additive": 'score = "additive"',
    "sparsemax": 'select = "sparsemax"',
    "window": 'encoder_attends = ["sliding_window:size=2"]',
    "linformer": 'encoder_attends = ["linformer:slots=4"]',
    "Shaw": 'relation = "shaw"',
    "T5": 'relation = "bucketed"',
    "rotary": 'positions = "rotary"\nnorm = "pre_norm"\nfeed_forward = "gated"',
    "branches": 'layer = "weighted_branches"\nfeed_forward = "relu"',
}


def exported(run, out):
    """What the verb prints: in a process without checks of types, which make sizes constants."""
    words = ["export", str(run), "--to", "onnx", "--out", str(out), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "regard", *words], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def assert_answers_are_the_run_s(run, folder):
    trained = regard.load(run, device="cpu")
    functions = tensor_functions(trained.loaded.model)
    stepper = OnnxStepper(folder, n_heads=functions.n_heads, d_head=functions.d_head)
    asked = [Sentence([*trained.loaded.source.encode(text), EOS]) for text in TEXTS]
    for search in (Greedy(limits=LIMITS), Beam(width=4, n_best=2, limits=LIMITS)):
        wanted = search(trained.loaded.model, asked)
        found = search(stepper, asked)
        for theirs, ours in zip(found, wanted, strict=True):
            assert [one.tokens for one in theirs] == [one.tokens for one in ours]
            assert [one.score for one in theirs] == pytest.approx(
                [one.score for one in ours], abs=1e-4
            )


@pytest.mark.parametrize("name", LINKS)
@torch.no_grad()
def test_two_functions_of_tensors_give_the_logits_of_the_model(tmp_path, name):
    own = LINKS[name]
    sizes = SMALL.replace("40", "48") if "branches" in own else SMALL
    model = regard.load(made(tmp_path / "run", sizes + own), device="cpu").loaded.model
    functions = tensor_functions(model)
    source = torch.tensor([[5, 6, 7, EOS], [8, EOS, 0, 0]])
    valid, *sources = functions.read(source)
    pasts = [torch.zeros(2, functions.n_heads, 0, functions.d_head) for _ in sources]
    state = model.start(source)
    for token in (1, 5, 9):
        tokens = torch.tensor([[token], [token]])
        wanted, state = model.step(state, tokens)
        logits, *pasts = functions.step(tokens, valid, sources, pasts)
        torch.testing.assert_close(logits, wanted[:, -1], atol=1e-4, rtol=0)
    assert [part.shape[2] for part in pasts] == [3] * len(pasts)


@pytest.mark.slow
def test_graphs_answer_as_the_run_and_their_readme_too(tmp_path, monkeypatch, capsys):
    run = made(tmp_path / "run", SMALL)
    said = exported(run, tmp_path / "there")
    assert re.match(r"onnxruntime: 4 of 4 answers .* are those of torch", said["notes"][0])
    assert sorted(said["files"]) == sorted(path.name for path in (tmp_path / "there").iterdir())
    assert_answers_are_the_run_s(run, tmp_path / "there")
    (block,) = re.findall(r"```python\n(.*?)```", (tmp_path / "there/README.md").read_text(), re.S)
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(block.replace("< 63", "< 7"), {"text": TEXTS[3]})
    (wanted,) = regard.load(run, device="cpu").predict([TEXTS[3]], search=Greedy(limits=LIMITS))
    assert capsys.readouterr().out.strip() == wanted.text


@pytest.mark.slow
@pytest.mark.parametrize("name", LINKS)
def test_a_graph_holds_any_link_of_a_chain(tmp_path, name):
    own = LINKS[name]
    sizes = SMALL.replace("40", "48") if "branches" in own else SMALL
    run = made(tmp_path / "run", sizes + own)
    exported(run, tmp_path / "there")
    assert_answers_are_the_run_s(run, tmp_path / "there")


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (LANGUAGE_MODEL, "kind LanguageModel is not written as a graph"),
        ('kind = "recurrent"\nd_embedding = 8\nd_hidden = 8', "kind Recurrent is not written"),
        (
            ENCODER_DECODER + 'encoder_attends = ["big_bird:block=2"]',
            "depends on where the text ends, which a graph does not know",
        ),
    ],
)
def test_what_no_graph_is_made_of_is_refused_with_the_reason(tmp_path, model, reason):
    run = made(tmp_path / "run", model)
    with pytest.raises(SettingError, match=f"export: no graph is made of the run .*{reason}"):
        export_onnx(run, tmp_path / "there")
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("target", ["onnx", "huggingface"])
def test_quantization_is_for_ctranslate2_alone(tmp_path, capsys, target):
    run = made(tmp_path / "run", SMALL)
    words = ["export", str(run), "--to", target, "--out", str(tmp_path / "there")]
    assert main([*words, "--quantization", "int8"]) == 2
    assert "--quantization is for CTranslate2" in capsys.readouterr().err
