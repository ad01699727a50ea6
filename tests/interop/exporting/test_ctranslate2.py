"""Exported folders in CTranslate2, by its own converter: it says what we and transformers say."""

import ctranslate2
import pytest
import torch
import transformers
from ctranslate2.converters import TransformersConverter

import regard
from regard.data.subword_kinds import BOS, EOS, SPECIALS, UNK
from regard.decoding import Beam, Limits, NoPenalty, Sentence
from regard.interop.exporting import export_huggingface
from regard.interop.importing import import_run
from regard.training.checkpoints import distinct_tensors, write_tensors
from tests.factories import make_run
from tests.interop.importing.published import WORDS, marian

MODEL = """\
d_model = 24
n_heads = 3
d_hidden = 40
n_encoder_layers = 2
n_decoder_layers = 2"""
TEXTS = [" ".join(WORDS[i : i + 2 + i % 4]) for i in range(12)]
LONGEST = 8


def taught(path):
    """The same run after it learned a little of saying words from the last to the first."""
    model = regard.load(path, device="cpu").loaded.model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(80):
        words = torch.randint(4, 4 + len(set(WORDS)), (32, 2 + step % 4))
        begin, end = words.new_full((32, 1), BOS), words.new_full((32, 1), EOS)
        logits = model(torch.cat([words, end], 1), torch.cat([begin, words.flip(1)], 1))
        wanted = torch.cat([words.flip(1), end], 1)
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten()).backward()
        optimiser.step()
    write_tensors(path / "model.safetensors", distinct_tensors(model))
    return path


def ours(path, width):
    """Our answers as numbers of the exported vocabulary."""
    loaded = regard.load(path, device="cpu").loaded
    search = Beam(width=width, penalty=NoPenalty(), limits=Limits(max_tokens=LONGEST))
    asked = [Sentence([*loaded.source.encode(text), EOS]) for text in TEXTS]
    # the end and unknown come first there, and the four special pieces here
    places = {UNK: 1, **{i: i - len(SPECIALS) + 2 for i in range(4, len(loaded.target))}}
    return [[places[i] for i in best[0].tokens] for best in search(loaded.model, asked)]


def by_transformers(folder, width, model=None):
    cutting = transformers.AutoTokenizer.from_pretrained(folder)
    model = model or transformers.MarianMTModel.from_pretrained(folder).eval()
    found = model.generate(
        **cutting(TEXTS, padding=True, return_tensors="pt"), num_beams=width, do_sample=False,
        length_penalty=0.0, max_new_tokens=LONGEST, forced_eos_token_id=None,
        bad_words_ids=[[cutting.pad_token_id]],
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    scores = model.compute_transition_scores(
        found.sequences, found.scores, found.get("beam_indices"), normalize_logits=width == 1
    )
    silent = (cutting.pad_token_id, cutting.eos_token_id)
    said = [[i for i in row if i not in silent] for row in found.sequences.tolist()]
    return said, scores.where(scores.isfinite(), 0.0).sum(1).tolist()


def by_ctranslate2(folder, width):
    cutting = transformers.AutoTokenizer.from_pretrained(folder)
    out = str(folder.with_name(f"converted-{width}"))
    converted = TransformersConverter(str(folder)).convert(out)
    found = ctranslate2.Translator(converted, intra_threads=1).translate_batch(
        [cutting.convert_ids_to_tokens(cutting.encode(text)) for text in TEXTS],
        beam_size=width, length_penalty=0.0, return_scores=True,
        # it forbids empty answers unless told
        min_decoding_length=0, max_decoding_length=LONGEST,
    )  # fmt: skip
    said = [cutting.convert_tokens_to_ids(one.hypotheses[0]) for one in found]
    return said, [one.scores[0] for one in found]


def test_a_trained_run_gives_the_same_answers_in_all_three(tmp_path):
    run = taught(make_run(tmp_path / "run", *TEXTS, kind="words", model=MODEL))
    export_huggingface(run, tmp_path / "there")
    for width in (1, 4):
        mine = ours(run, width)
        theirs, scores = by_transformers(tmp_path / "there", width)
        converted, converted_scores = by_ctranslate2(tmp_path / "there", width)
        assert theirs == mine
        assert converted == mine
        assert len({tuple(answer) for answer in mine}) > len(TEXTS) // 2
        assert converted_scores == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters"])
def test_pieces_of_every_kind_have_the_same_numbers_in_all_three(tmp_path, kind):
    run = make_run(tmp_path / "run", *TEXTS, kind=kind, model=MODEL)
    export_huggingface(run, tmp_path / "there")
    mine = ours(run, width=1)
    assert by_transformers(tmp_path / "there", width=1)[0] == mine
    assert by_ctranslate2(tmp_path / "there", width=1)[0] == mine


@pytest.mark.parametrize("begins_from_zeros", [True, False])
def test_an_imported_model_answers_there_as_it_did_before(tmp_path, begins_from_zeros):
    folder, theirs = marian(tmp_path / "marian")
    with torch.no_grad():
        # what transformers leaves to padding CTranslate2 shares out among the other pieces
        theirs.final_logits_bias[0, -1] = -1e4
        if not begins_from_zeros:
            theirs.model.shared.weight[-1] = torch.randn(theirs.config.d_model)
    theirs.save_pretrained(folder)
    import_run(folder, tmp_path / "run")
    export_huggingface(tmp_path / "run", tmp_path / "there")
    for width in (1, 4):
        before, scores = by_transformers(tmp_path / "there", width, model=theirs)
        for answered in (by_transformers, by_ctranslate2):
            after, scores_after = answered(tmp_path / "there", width)
            assert after == before
            assert scores_after == pytest.approx(scores, abs=1e-4)
