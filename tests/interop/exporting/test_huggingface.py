"""Exported folders: another library reads them, and says what we say."""

import json

import pytest
import torch
import transformers

import regard
from regard.cli import main
from regard.data.subword_kinds import BOS, EOS, UNK
from regard.errors import RunError, SettingError
from regard.interop.exporting import export_huggingface
from regard.interop.importing import import_run
from regard.training.checkpoints import read_tensors
from tests.factories import make_run
from tests.interop.importing.published import gpt2, marian

TRANSFORMER = """\
d_model = 24
n_heads = 3
d_hidden = 40
n_encoder_layers = 2
n_decoder_layers = 2"""
TEXTS = ("the cat sat on a mat", "a dog ran home")


def scores_of_both(run, folder, text):
    """Log-probabilities of the pieces that are ever written, here and there, column by column."""
    trained = regard.load(run, device="cpu")
    theirs = transformers.MarianMTModel.from_pretrained(folder).eval()
    order = [EOS, UNK, *range(4, len(trained.loaded.source)), BOS]
    places = {ours: number for number, ours in enumerate(order)}
    ids = trained.loaded.source.encode(text)
    source, target = torch.tensor([[*ids, EOS]]), torch.tensor([[BOS, *ids[:4]]])
    there = [
        torch.tensor([[places[i] for i in row] for row in x.tolist()]) for x in (source, target)
    ]
    with torch.no_grad():
        mine = trained.loaded.model(source, target)[..., order[:-1]]
        their = theirs(input_ids=there[0], decoder_input_ids=there[1]).logits[..., :-1]
    return mine.log_softmax(-1), their.log_softmax(-1), there


@pytest.mark.parametrize("kind", ["bpe", "words", "unigram"])
def test_a_transformer_gives_the_same_probabilities_there(tmp_path, kind):
    run = make_run(tmp_path / "run", *TEXTS, kind=kind, model=TRANSFORMER)
    export_huggingface(run, tmp_path / "there")
    mine, their, _ = scores_of_both(run, tmp_path / "there", TEXTS[0])
    torch.testing.assert_close(mine, their, atol=1e-5, rtol=0)


def test_the_exported_vocabulary_cuts_texts_as_ours(tmp_path):
    run = make_run(tmp_path / "run", *TEXTS, kind="bpe", model=TRANSFORMER)
    export_huggingface(run, tmp_path / "there")
    cutting = transformers.AutoTokenizer.from_pretrained(tmp_path / "there")
    _, _, there = scores_of_both(run, tmp_path / "there", TEXTS[1])
    assert cutting(TEXTS[1])["input_ids"] == there[0][0].tolist()
    assert cutting.decode(there[0][0], skip_special_tokens=True) == TEXTS[1]


def test_a_translation_is_the_same_there(tmp_path):
    run = make_run(tmp_path / "run", *TEXTS, kind="words", model=TRANSFORMER)
    export_huggingface(run, tmp_path / "there")
    theirs = transformers.MarianMTModel.from_pretrained(tmp_path / "there").eval()
    _, _, there = scores_of_both(run, tmp_path / "there", TEXTS[0])
    want = theirs.generate(
        there[0], num_beams=1, do_sample=False, max_new_tokens=6, forced_eos_token_id=None
    )[0, 1:]
    trained = regard.load(run, device="cpu")
    search = regard.decoding.Greedy(limits=regard.decoding.Limits(max_tokens=6))
    (said,) = trained.predict([TEXTS[0]], search=search)
    pieces = json.loads((tmp_path / "there" / "tokenizer.json").read_text())["model"]["vocab"]
    names = {number: piece for piece, number in pieces.items()}
    written = [names[i] for i in want.tolist() if names[i] not in ("</s>", "<pad>")]
    assert said.text.split() == [word for word in written if word != "<unk>"]


def test_what_was_imported_comes_out_as_it_went_in(tmp_path, capsys):
    folder, theirs = marian(tmp_path / "marian")
    import_run(folder, tmp_path / "run")
    out = tmp_path / "there"
    words = ["export", str(tmp_path / "run"), "--to", "huggingface", "--out", str(out), "--json"]
    assert main(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["out"] == str(out)
    assert sorted(said["files"]) == sorted(path.name for path in out.iterdir())
    there = transformers.MarianMTModel.from_pretrained(tmp_path / "there").eval()
    before, after = theirs.state_dict(), there.state_dict()
    assert before.keys() == after.keys()
    for name, weight in before.items():
        torch.testing.assert_close(after[name], weight, atol=0, rtol=0, msg=name)


def test_what_was_exported_is_read_again_and_means_the_same(tmp_path):
    run = make_run(tmp_path / "run", *TEXTS, kind="bpe", model=TRANSFORMER)
    export_huggingface(run, tmp_path / "there")
    import_run(tmp_path / "there", tmp_path / "again")
    first, again = (regard.load(path, device="cpu").loaded for path in (run, tmp_path / "again"))
    assert again.recipe.model.kind == "marian"
    ids = first.source.encode(TEXTS[0])
    assert again.source.encode(TEXTS[0]) == ids
    source, target = torch.tensor([[*ids, EOS]]), torch.tensor([[BOS, *ids[:4]]])
    with torch.no_grad():
        want, got = (one.model(source, target)[..., EOS:] for one in (first, again))
    torch.testing.assert_close(got.log_softmax(-1), want.log_softmax(-1), atol=1e-5, rtol=0)


def test_marian_begins_from_zeros_and_never_writes_padding(tmp_path):
    run = make_run(tmp_path / "run", *TEXTS, kind="words", model=TRANSFORMER)
    export_huggingface(run, tmp_path / "there")
    held = read_tensors(tmp_path / "there" / "model.safetensors")
    assert not held["model.shared.weight"][-1].any()
    assert held["final_logits_bias"][0, -1] == -1e4
    assert not held["final_logits_bias"][0, :-1].any()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("positions", '"learned"'),
        ("tied", '"output"'),
        ("feed_forward", '"gated"'),
        ("select", '"soft:temperature=4.0"'),
    ],
)
def test_a_model_that_marian_cannot_hold_is_refused_with_the_reason(tmp_path, setting, value):
    model = f"{TRANSFORMER}\n{setting} = {value}"
    run = make_run(tmp_path / "run", *TEXTS, kind="bpe", model=model)
    with pytest.raises(SettingError, match=f"needs model.{setting} = "):
        export_huggingface(run, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_a_word_that_has_the_name_of_a_special_piece_there_is_refused(tmp_path):
    run = make_run(tmp_path / "run", "a </s> b", kind="words", model=TRANSFORMER)
    with pytest.raises(SettingError, match=r"export: the vocabulary has the word '</s>', which is"):
        export_huggingface(run, tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_every_layer_in_its_own_words_may_look_at_everything(tmp_path):
    model = f'{TRANSFORMER}\nencoder_attends = ["full", "full"]'
    run = make_run(tmp_path / "run", *TEXTS, kind="words", model=model)
    assert "model.safetensors" in export_huggingface(run, tmp_path / "there").files


def test_folders_that_hold_something_are_refused(tmp_path):
    folder, _ = gpt2(tmp_path / "gpt2")
    import_run(folder, tmp_path / "run")
    with pytest.raises(RunError, match="is not empty"):
        export_huggingface(tmp_path / "run", folder)
    with pytest.raises(RunError, match=r"export: '.*config.json' is a file, so that"):
        export_huggingface(tmp_path / "run", folder / "config.json" / "there")
