"""Pegasus, GPT-2 and BERT folders: transformers and CTranslate2's converter answer as the run."""

import json
import re

import ctranslate2
import numpy as np
import pytest
import torch
import transformers
from ctranslate2.converters import TransformersConverter

import regard
from regard.data.subword_kinds import EOS
from regard.decoding import Beam, Greedy, Limits, NoPenalty
from regard.errors import SettingError
from regard.interop.exporting import export_huggingface
from tests.factories import ENCODER, make_run
from tests.interop.ctranslate2.families import ENCODER_DECODER, LANGUAGE_MODEL, TEXTS, made
from tests.interop.exporting.test_ctranslate2 import TEXTS as ALL_TEXTS
from tests.interop.exporting.test_ctranslate2 import taught

LONGEST = 8
PRE_NORM = ENCODER_DECODER + 'norm = "pre_norm"\n'
PEGASUS = {
    "waves": "",
    "learned positions": 'positions = "learned"',
    "no positions and GELU": 'positions = "none"\nfeed_forward = "gelu"',
    "a temperature": 'select = "soft:temperature=2.0"',
    "general": 'score = "general"',
}
GPT2 = {
    "separated": "",
    "running": 'rows = "running"',
    "continued, GELU": 'rows = "continued"\nfeed_forward = "gelu"\npositions = "learned"',
    "two tables": 'tied = "none"',
}


def ours(run, width):
    """Answers of the run in words, and their log-probabilities."""
    trained = regard.load(run, device="cpu")
    search = Beam(width=width, penalty=NoPenalty(), limits=Limits(max_tokens=LONGEST))
    return [one.text for one in trained.predict(TEXTS, search=search)]


@pytest.mark.parametrize("name", PEGASUS)
def test_a_pre_norm_transformer_gives_the_same_greedy_answers_in_all_three(tmp_path, name):
    run = made(tmp_path / "run", PRE_NORM + PEGASUS[name])
    done = export_huggingface(run, tmp_path / "there")
    assert "transformers: the answers to 4 texts of the run's own data are those" in done.notes[0]
    search = Greedy(limits=Limits(max_tokens=LONGEST))
    trained = regard.load(run, device="cpu")
    wanted = [list(one.tokens) for one in trained.predict(TEXTS, search=search)]
    cutting = transformers.AutoTokenizer.from_pretrained(tmp_path / "there")
    converted = TransformersConverter(str(tmp_path / "there")).convert(str(tmp_path / "converted"))
    found = ctranslate2.Translator(converted).translate_batch(
        [cutting.convert_ids_to_tokens(cutting.encode(text)) for text in TEXTS],
        beam_size=1, min_decoding_length=0, max_decoding_length=LONGEST,
    )  # fmt: skip
    # padding and begin may not be written there
    closed = [one for one in wanted if not {"<pad>", "<bos>"} & set(one)]
    assert len(closed) == len(wanted)
    assert [one.hypotheses[0] for one in found] == wanted


def test_a_trained_pre_norm_run_gives_the_same_answers_with_a_beam_of_four(tmp_path):
    run = taught(make_run(tmp_path / "run", *ALL_TEXTS, kind="words", model=PRE_NORM))
    export_huggingface(run, tmp_path / "there")
    cutting = transformers.AutoTokenizer.from_pretrained(tmp_path / "there")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "there").eval()
    converted = TransformersConverter(str(tmp_path / "there")).convert(str(tmp_path / "converted"))
    for width in (1, 4):
        wanted = ours(run, width)
        theirs = model.generate(
            **cutting(TEXTS, padding=True, return_tensors="pt"), num_beams=width, do_sample=False,
            length_penalty=0.0, max_new_tokens=LONGEST, forced_eos_token_id=None,
        )  # fmt: skip
        assert cutting.batch_decode(theirs, skip_special_tokens=True) == wanted
        found = ctranslate2.Translator(converted).translate_batch(
            [cutting.convert_ids_to_tokens(cutting.encode(text)) for text in TEXTS],
            beam_size=width, length_penalty=0.0, min_decoding_length=0,
            max_decoding_length=LONGEST,
        )  # fmt: skip
        assert [" ".join(one.hypotheses[0]) for one in found] == wanted
        assert len(set(wanted)) > len(TEXTS) // 2


@pytest.mark.parametrize("name", GPT2)
def test_a_language_model_gives_the_same_greedy_answers_in_all_three(tmp_path, name):
    run = made(tmp_path / "run", LANGUAGE_MODEL + GPT2[name])
    done = export_huggingface(run, tmp_path / "there")
    assert "transformers: the answers to 4 texts of the run's own data are those" in done.notes[0]
    trained = regard.load(run, device="cpu")
    search = Greedy(limits=Limits(max_tokens=LONGEST))
    wanted = [list(one.tokens) for one in trained.predict(TEXTS, search=search)]
    cutting = transformers.AutoTokenizer.from_pretrained(tmp_path / "there")
    for text in TEXTS:
        source = [*trained.loaded.source.encode(text), EOS]
        assert cutting(text)["input_ids"] == trained.loaded.model.prompt(source)
    converted = TransformersConverter(str(tmp_path / "there")).convert(str(tmp_path / "converted"))
    generator = ctranslate2.Generator(converted)
    for text, answer in zip(TEXTS, wanted, strict=True):
        (found,) = generator.generate_batch(
            [cutting.convert_ids_to_tokens(cutting.encode(text))], max_length=LONGEST,
            include_prompt_in_result=False, suppress_sequences=[["<pad>"], ["<bos>"]],
        )  # fmt: skip
        assert found.sequences[0] == answer


def test_a_guesser_of_hidden_words_gives_the_same_logits_in_a_bert_folder(tmp_path):
    run = made(tmp_path / "run", ENCODER.format(task="words"))
    export_huggingface(run, tmp_path / "there")
    trained = regard.load(run, device="cpu")
    guess = transformers.pipeline("fill-mask", model=str(tmp_path / "there"), device="cpu")
    text = TEXTS[4].replace("mat", "[MASK]", 1)
    assert "[MASK]" in text
    (said,) = trained.predict([text])
    wanted = said.text.split()[text.split().index("[MASK]")]
    said = [one["token_str"] for one in guess(text, top_k=8)]
    special = ("<pad>", "<bos>", "<eos>", "<unk>", "[MASK]")
    assert next(word for word in said if word not in special) == wanted
    model = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "there").eval()
    ids = trained.loaded.source.encode(text)
    with torch.no_grad():
        there = model(torch.tensor([[1, *ids, EOS]])).logits[:, 1:]
        here = trained.loaded.model.network(torch.tensor([[*ids, EOS]]))
    torch.testing.assert_close(there, here, atol=1e-4, rtol=0)


def test_an_encoder_without_a_head_goes_to_ctranslate2_by_its_converter_too(tmp_path):
    run = made(tmp_path / "run", ENCODER.format(task="vectors"))
    export_huggingface(run, tmp_path / "there")
    trained = regard.load(run, device="cpu")
    ids = trained.loaded.source.encode(TEXTS[4])
    with torch.no_grad():
        wanted = trained.loaded.model.encoder(torch.tensor([[*ids, EOS]]))
    converted = TransformersConverter(str(tmp_path / "there")).convert(str(tmp_path / "converted"))
    found = ctranslate2.Encoder(converted).forward_batch([[1, *ids, EOS]])
    np.testing.assert_allclose(np.array(found.last_hidden_state), wanted.numpy(), atol=1e-4, rtol=0)


def test_a_folder_has_a_card_with_the_hub_s_metadata_and_lines_that_run(
    tmp_path, monkeypatch, capsys
):
    run = taught(make_run(tmp_path / "run", *ALL_TEXTS, kind="words", model=PRE_NORM))
    export_huggingface(run, tmp_path / "there")
    card = (tmp_path / "there" / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\npipeline_tag: translation\n")
    (block,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    monkeypatch.chdir(tmp_path / "there")
    capsys.readouterr()
    exec(block.replace('"…"', repr(TEXTS[3])), {})
    assert capsys.readouterr().out.strip() == ours(run, 1)[3]
    config = json.loads((tmp_path / "there" / "config.json").read_text())
    assert config["architectures"] == ["PegasusForConditionalGeneration"]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (PRE_NORM + 'feed_forward = "gated"', "no gates; take .*or regard export --to ctranslate2"),
        (PRE_NORM + 'tied = "output"', "source, target and output have one table"),
        (PRE_NORM + 'score = "additive"', "additive is no dot product"),
        (LANGUAGE_MODEL + 'norm = "post_norm"', "GPT-2's layout has no norms in that place"),
        (LANGUAGE_MODEL + 'positions = "rotary"', "GPT-2's layout has no rotary positions"),
        (
            LANGUAGE_MODEL + 'positions = "none"\nrelation = "linear_bias"',
            "GPT-2's layout has no relations by distance",
        ),
        (ENCODER.format(task="words") + '\nnorm = "pre_norm"', "BERT's layout has no norms"),
        (ENCODER.format(task="label"), "the model gives labels"),
    ],
)
def test_a_model_that_no_layout_holds_is_refused_with_the_reason(tmp_path, model, reason):
    run = made(tmp_path / "run", model)
    wanted = f"export: Hugging Face's layouts cannot hold the run .*{reason}"
    with pytest.raises(SettingError, match=wanted):
        export_huggingface(run, tmp_path / "there")
    assert not (tmp_path / "there").exists()
