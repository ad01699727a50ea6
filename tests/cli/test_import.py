"""regard import, and what the other verbs do with an imported run."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

import regard
from regard.cli import main
from regard.decoding import Beam, GnmtPenalty, Limits
from tests.interop.importing.published import bert, gpt2, marian

TEXT = "Paris is the [MASK] of France."


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One run of each family."""
    place = tmp_path_factory.mktemp("runs")
    for name, make in {"bert": bert, "marian": marian, "gpt2": gpt2}.items():
        folder, _ = make(place / f"{name}-published")
        assert main(["import", str(folder), "--out", str(place / name)]) == 0
    folder, _ = bert(place / "plain-published", has_head=False)
    assert main(["import", str(folder), "--out", str(place / "plain")]) == 0
    return place


def said(capsys, *words):
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    return code, out, err


def filled_in(word):
    """The text with a word for the hidden one, or with a part of the word before it."""
    is_part = word.startswith("##")
    return TEXT.replace(" [MASK]" if is_part else "[MASK]", word.removeprefix("##"))


def test_an_import_says_what_it_made(tmp_path, capsys):
    folder, _ = bert(tmp_path / "bert")
    code, out, _ = said(capsys, "import", folder, "--out", tmp_path / "run", "--json")
    row = json.loads(out)
    assert (code, row["kind"], row["source_pieces"]) == (0, "encoder", 30)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "recipe.toml", "model.safetensors", "tokenizer.json", "card.md",
    }  # fmt: skip


def test_a_mistake_is_two_lines_and_exit_code_2(tmp_path, capsys):
    code, out, err = said(capsys, "import", tmp_path, "--out", tmp_path / "run")
    assert (code, out) == (2, "")
    assert "has no config.json" in err
    assert not (tmp_path / "run").exists()


def test_what_is_no_folder_is_told_from_a_folder_without_a_model(tmp_path, capsys):
    (tmp_path / "config.json").write_text("{}")
    for name, told in {
        "bert-base-uncased": "import: there is no folder '{}'. Nothing is downloaded: give the "
        "folder of a model that is already here.",
        "config.json": f"import: '{{}}' is a file; give its folder: '{tmp_path}'.",
    }.items():
        code, out, err = said(capsys, "import", tmp_path / name, "--out", tmp_path / "run")
        assert (code, out) == (2, "")
        # a long address may be broken where it is shown
        assert "".join(told.format(tmp_path / name).split()) in "".join(err.split())
        assert "has no" not in err
        assert not (tmp_path / "run").exists()


def test_hidden_words_are_filled_in_with_the_likeliest(runs, capsys):
    code, out, _ = said(capsys, "predict", runs / "bert", "--text", TEXT, "--n-best", "4", "--json")
    row = json.loads(out)
    (candidates,) = row["candidates"]
    assert code == 0
    assert len(candidates) == len(row["n_best"]) == 4
    chances = [one["probability"] for one in candidates]
    assert chances == sorted(chances, reverse=True)
    assert 0 < sum(chances) <= 1
    assert row["text"] == filled_in(candidates[0]["text"])
    assert np.isclose(np.exp(row["n_best"][2]["score"]), chances[2])


def test_probabilities_are_those_of_the_whole_vocabulary_without_special_pieces(runs, capsys):
    _, out, _ = said(capsys, "predict", runs / "bert", "--text", TEXT, "--n-best", "25", "--json")
    (candidates,) = json.loads(out)["candidates"]
    assert np.isclose(sum(one["probability"] for one in candidates), 1.0, atol=1e-5)
    assert not {"[MASK]", "<pad>", "<unk>", "<eos>"} & {one["text"] for one in candidates}


def test_two_hidden_words_are_guessed_each_and_together(runs, capsys):
    text = "the [MASK] sat on a [MASK]"
    _, out, _ = said(capsys, "predict", runs / "bert", "--text", text, "--n-best", "3", "--json")
    row = json.loads(out)
    first, second = ([one["probability"] for one in words] for words in row["candidates"])
    together = sorted((a * b for a in first for b in second), reverse=True)[:3]
    assert np.allclose(np.exp([one["score"] for one in row["n_best"]]), together)


def test_a_line_of_text_has_its_candidates_after_a_tab(runs, capsys):
    _, out, _ = said(capsys, "predict", runs / "bert", "--text", TEXT, "--n-best", "2")
    filled, candidates = out.rstrip("\n").split("\t")
    word, chance = candidates.split(", ")[0].split(" ")
    assert filled == filled_in(word)
    assert 0 < float(chance) < 1


def test_a_text_without_a_hidden_word_is_given_back_with_a_note(runs, capsys):
    code, out, err = said(capsys, "predict", runs / "bert", "--text", "the cat sat")
    assert (code, out) == (0, "the cat sat\n")
    assert "no word is hidden" in err


def test_what_has_no_meaning_for_hidden_words_is_refused(runs, capsys):
    code, _, err = said(capsys, "predict", runs / "bert", "--text", TEXT, "--prefix", "the")
    assert code == 2
    assert "a prefix has no meaning" in err


@pytest.mark.parametrize("name", ["bert", "plain"])
@pytest.mark.parametrize("verb", [("look",), ("predict", "--text")])
def test_who_writes_no_answers_cannot_be_told_where_they_end(runs, name, verb, capsys):
    verb, *option = verb
    code, _, err = said(capsys, verb, runs / name, *option, TEXT, "--max-tokens", "3")
    assert code == 2
    assert f"{verb}: this run writes no answers of a length of its own, so --max-tokens" in err


def test_hidden_words_are_guessed_by_one_run(runs, capsys):
    words = ("--text", TEXT, "--ensemble", runs / "bert")
    code, _, err = said(capsys, "predict", runs / "bert", *words)
    assert (code, "an ensemble has no meaning" in err) == (2, True)


@pytest.mark.parametrize("ending", ["npy", "safetensors"])
def test_vectors_are_written_in_the_order_of_the_texts(runs, capsys, tmp_path, ending):
    texts = ["the cat sat", "", "a dog run home and saw the cat", "the cat sat"]
    (tmp_path / "texts").write_text("\n".join(texts) + "\n")
    out = tmp_path / f"rows.{ending}"
    code, *_ = said(capsys, "predict", runs / "plain", tmp_path / "texts", "--vectors", out)
    rows = np.load(out) if ending == "npy" else load_file(out)["vectors"]
    assert code == 0
    assert rows.shape == (4, 24)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    assert np.array_equal(rows[0], rows[3])
    alone = regard.load(runs / "plain").vectors(texts[2:3]).numpy()
    assert np.allclose(alone, rows[2:3], atol=1e-5)


@pytest.mark.parametrize(
    "words",
    [
        ("--ensemble", "other"),
        ("--prefix", "a"),
        ("--constraints", "some"),
        ("--sample",),
        ("--alignments",),
        ("--json",),
        ("--replace-unknown",),
        ("--n-best", "2"),
        ("--on-long", "skip"),
        ("--beam", "1"),
        ("--length-penalty", "0"),
        ("--max-tokens", "3"),
    ],
    ids=lambda words: words[0],
)
def test_what_has_no_meaning_beside_vectors_is_refused_by_name(runs, capsys, tmp_path, words):
    out = tmp_path / "x.npy"
    code, _, err = said(capsys, "predict", runs / "plain", "--text", "a", "--vectors", out, *words)
    assert code == 2
    told = " ".join(err.split())
    assert f"so {words[0]} would change nothing" in told or f"Leave {words[0]} out" in told
    assert not out.exists()


def test_vectors_need_an_encoder_and_a_known_ending(runs, capsys, tmp_path):
    code, _, err = said(capsys, "predict", runs / "plain", "--text", "a", "--vectors", "x.csv")
    assert (code, "ends in .npy or .safetensors" in err) == (2, True)
    out = tmp_path / "x.npy"
    code, _, err = said(capsys, "predict", runs / "gpt2", "--text", "a", "--vectors", out)
    assert (code, "has none for whole texts" in err) == (2, True)


def test_a_run_without_a_head_says_what_to_ask_for(runs, capsys):
    code, _, err = said(capsys, "predict", runs / "plain", "--text", "the cat")
    assert code == 2
    assert "--vectors" in err


def test_a_byte_of_the_weights_that_changed_is_noticed(tmp_path, capsys):
    folder, _ = bert(tmp_path / "bert")
    run = tmp_path / "run"
    assert main(["import", str(folder), "--out", str(run)]) == 0
    assert main(["verify", str(run)]) == 0
    weights = bytearray((run / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (run / "model.safetensors").write_bytes(weights)
    capsys.readouterr()
    code, out, _ = said(capsys, "verify", run)
    assert code == 1
    assert "model.safetensors" in out


@pytest.mark.parametrize("name", ["marian", "gpt2"])
def test_a_translation_and_a_continuation_are_those_of_the_run(runs, capsys, name):
    text = "the cat sat"
    code, out, _ = said(
        capsys, "predict", runs / name, "--text", text, "--max-tokens", "5", "--n-best", "3",
        "--json",
    )  # fmt: skip
    search = Beam(width=5, n_best=3, penalty=GnmtPenalty(0.6), limits=Limits(max_tokens=5))
    (want,) = regard.load(runs / name).predict([text], search=search)
    answers = json.loads(out)["n_best"]
    assert (code, len(answers)) == (0, 3)
    assert [(one["text"], tuple(one["tokens"])) for one in answers] == [
        (one.text, tuple(one.tokens)) for one in want.n_best
    ]
    assert [one["score"] for one in answers] == pytest.approx([one.score for one in want.n_best])
    # random weights may end one answer at once, but not all of them
    assert any(one["tokens"] for one in answers)


@pytest.mark.parametrize("name", ["bert", "plain"])
def test_a_look_shows_the_whole_row(runs, capsys, name):
    code, out, _ = said(capsys, "look", runs / name, "the cat sat on a mat", "--json", "--pieces")
    shown = json.loads(out)["shown"]
    weights = np.array(shown["weights"])
    assert code == 0
    assert list(json.loads(out)["attention"]) == ["encoder"]
    assert weights.shape == (len(shown["queries"]), len(shown["keys"]))
    assert np.allclose(weights.sum(1), 1.0, atol=1e-4)
    assert (shown["keys"][0], shown["keys"][-1]) == ("[CLS]", "[SEP]")


@pytest.mark.parametrize("text", [TEXT, "The Cat saw Paris"])
def test_a_look_keeps_a_text_as_it_was_written_and_fills_it_in(runs, capsys, text):
    _, out, _ = said(capsys, "predict", runs / "bert", "--text", text, "--json")
    want = json.loads(out)
    code, out, err = said(capsys, "look", runs / "bert", text, "--json")
    got = json.loads(out)
    assert (code, got["source"], got["target"]) == (0, text, want["text"])
    assert got["note"] == want["note"]
    assert ("no word is hidden" in err) == (text != TEXT)


@pytest.mark.parametrize(("name", "more"), [("marian", set()), ("gpt2", {"sequence"})])
def test_a_look_at_a_translation_or_a_continuation_shows_cross_attention(runs, capsys, name, more):
    code, out, _ = said(capsys, "look", runs / name, "the cat sat", "--json")
    assert code == 0
    assert set(json.loads(out)["attention"]) == {"encoder", "decoder", "cross"} | more


def test_a_translation_is_evaluated_and_a_missing_split_is_explained(runs, capsys, tmp_path):
    (tmp_path / "source").write_text("the cat sat\na dog run home\n")
    (tmp_path / "target").write_text("a cat saw\nthe dog\n")
    files = ("--source", tmp_path / "source", "--reference", tmp_path / "target")
    code, out, _ = said(capsys, "evaluate", runs / "marian", *files, "--metrics", "loss", "--json")
    assert code == 0
    assert "loss" in out
    code, _, err = said(capsys, "evaluate", runs / "marian", "--split", "valid")
    assert code == 2
    assert "the data that it learned from are not here" in err
