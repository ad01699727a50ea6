"""regard evaluate: scores with signatures, several references, alignments, files, mistakes."""

import json

import pytest

import regard
from regard.cli import main
from regard.cli.evaluate import alignment_text
from regard.data import Example
from regard.decoding import Beam, Limits
from regard.evaluating import AlignmentCounts, DecoderRow, Gold, HeadView, best_head, score_all
from regard.runs import evaluation
from regard.runs.alignment import AlignmentErrors
from regard.runs.evaluation import EVALUATE_METRICS, ScoredAnswers, score, search_for
from regard.tasks.task import METRICS_WITHOUT_ANSWERS
from tests.factories import make_run

CUT = "the answer was cut at the longest allowed"
SOURCES = ["a b", "c d e", "", "e"]
REFERENCES = ["b a", "c d e", "", "a"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    make_run(folder / "run", max_len=20)
    (folder / "source").write_text("".join(f"{text}\n" for text in SOURCES))
    (folder / "wanted").write_text("".join(f"{text}\n" for text in REFERENCES))
    (folder / "other").write_text("a b\nc d\n\ne\n")
    (folder / "short").write_text("a b\n")
    (folder / "empty").touch()
    (folder / "blank").write_text("\n")
    (folder / "long").write_text("a\n" + "b" * 99 + "\n")
    (folder / "longer").write_text(("b" * 99 + "\n") * 2)
    (folder / "gold").write_text("0-1 1p0\n0-0 1-1 2-2\n\n0-0\n")
    (folder / "wrong").write_text("0-1 1p0\n0-0 9-1\n\n0-0\n")
    return folder


def _says(capsys, *words, code=0):
    assert main(["evaluate", *map(str, words)]) == code
    return capsys.readouterr()


def _given(files, *references):
    wanted = [word for name in references for word in ("--reference", files / name)]
    return [files / "run", "--source", files / "source", *wanted, "--beam", "2"]


def test_every_score_comes_with_its_signature(files, capsys):
    report = json.loads(_says(capsys, *_given(files, "wanted"), "--json").out)
    names = [score["name"] for score in report["scores"]]
    assert names == ["BLEU", "chrF2", "TER", "exact match", "length ratio", "loss", "perplexity"]
    assert all(score["signature"] for score in report["scores"])
    assert report["scores"][0]["signature"].startswith("nrefs:1|case:mixed")
    assert report["sentences"] == 4
    assert report["search"] == "beam 2, length penalty 0.6"
    assert report["speed"]["tokens_per_second"] > 0
    assert report["alignment"] is None
    text = _says(capsys, *_given(files, "wanted")).out
    assert f"loss           {report['scores'][5]['value']:.4f}" in text
    assert "sentences and" in text


def test_the_hypotheses_are_written_and_have_these_scores(files, tmp_path, capsys):
    out = tmp_path / "deep" / "evaluated"
    words = [*_given(files, "wanted", "other"), "--out", out, "--json"]
    report = json.loads(_says(capsys, *words).out)
    texts = (out / "hypotheses.txt").read_text().split("\n")[:-1]
    assert texts[2] == ""
    trained = regard.load(files / "run")
    search = search_for(trained, beam=2, length_penalty=0.6)
    assert texts[1] == trained.predict([SOURCES[1]], search=search)[0].text
    other = ["a b", "c d", "", "e"]
    scores = score_all(texts, list(zip(REFERENCES, other, strict=True)))
    assert [row["value"] for row in report["scores"]][:5] == pytest.approx(
        [score.value for score in scores]
    )
    assert report["scores"][0]["signature"].startswith("nrefs:2")
    assert json.loads((out / "scores.json").read_text()) == report
    err = _says(capsys, *words, code=2).err
    assert "is there already, and is never overwritten. Choose another --out." in err


def test_a_split_of_the_recipe_is_evaluated_by_the_scores_asked_for(files, capsys):
    words = [files / "run", "--split", "valid", "--beam", "1", "--metrics", "exact,loss"]
    text = _says(capsys, *words).out
    assert text.startswith(f"{files / 'run'} on split valid: 5 sentences, greedy\n")
    assert "exact match" in text
    assert "BLEU" not in text


def test_answers_are_no_longer_than_was_asked_for(files, tmp_path, capsys):
    words, texts = [*_given(files, "wanted"), "--metrics", "exact", "--json"], {}
    for most in ("1", "2"):
        out = tmp_path / most
        report = json.loads(_says(capsys, *words, "--max-tokens", most, "--out", out).out)
        assert report["search"] == f"beam 2, length penalty 0.6, at most {most} tokens"
        assert f"3 of 4 texts: {CUT}" in report["notes"]
        texts[most] = (out / "hypotheses.txt").read_text().split("\n")[:-1]
        search = Beam(width=2, limits=Limits(max_tokens=int(most)))
        said = regard.load(files / "run").predict([SOURCES[1]], search=search)[0]
        assert texts[most][1] == said.text
    assert texts["1"] != texts["2"]


def test_nothing_is_decoded_where_nothing_needs_the_answers(files, tmp_path, capsys, monkeypatch):
    words, out = _given(files, "wanted"), tmp_path / "kept"
    full = json.loads(_says(capsys, *words, "--json").out)
    kept = json.loads(_says(capsys, *words, "--metrics", "loss", "--out", out, "--json").out)
    assert len((out / "hypotheses.txt").read_text().splitlines()) == len(SOURCES)
    assert kept["speed"]["tokens"] == full["speed"]["tokens"]

    def decodes(*_, **__):
        raise AssertionError("there was no need to decode")

    monkeypatch.setattr(evaluation, "answer", decodes)
    words = [*words[:-2], "--metrics", "loss", "--alignment", files / "gold"]
    bare = json.loads(_says(capsys, *words, "--json").out)
    assert bare["scores"] == kept["scores"] == full["scores"][5:]
    assert (bare["search"], bare["speed"]) == (None, None)
    text = _says(capsys, *words).out
    assert "4 sentences, nothing decoded\n" in text
    assert "\nspeed" not in text
    assert "best head" in text


def test_answers_are_kept_though_nothing_can_be_scored(files, tmp_path, capsys):
    texts = [files / "run", "--source", files / "longer", "--reference", files / "longer"]
    words = [*texts, "--metrics", "loss"]
    assert (
        "evaluate: there is nothing to score: no text of 2 has a token that is asked for and "
        "fits into the 20 that the model reads (model.max_len, the end token counted). Give texts "
        "that are neither empty nor longer."
    ) in _says(capsys, *words, code=2).err
    words += ["--on-long", "skip", "--out", tmp_path / "out", "--json"]
    report = json.loads(_says(capsys, *words).out)
    assert report["scores"] == []
    assert (tmp_path / "out" / "hypotheses.txt").exists()
    assert (
        "loss: no text has a token that is asked for and fits into the 20 that the model reads"
    ) in report["notes"]


def test_references_are_read_once_for_all_scores(files, monkeypatch):
    pairs = [Example(*pair) for pair in zip(SOURCES, [(text,) for text in REFERENCES], strict=True)]
    asked, read = [], evaluation.row_losses

    def counted(*given, **named):
        asked.append(given)
        return read(*given, **named)

    monkeypatch.setattr(evaluation, "row_losses", counted)
    judged = ScoredAnswers(regard.load(files / "run"), pairs, REFERENCES)
    names = [one.name for one in score(judged, ["loss", "words", "lengths"])]
    assert names[:4] == ["loss", "perplexity", "loss", "perplexity"]
    assert len(asked) == 1


@pytest.mark.parametrize("name", EVALUATE_METRICS)
def test_a_score_needs_answers_if_right_and_wrong_ones_score_otherwise(files, name):
    pairs = [Example(*pair) for pair in zip(SOURCES, [(text,) for text in REFERENCES], strict=True)]
    trained = regard.load(files / "run")
    right, wrong = (
        EVALUATE_METRICS[name](ScoredAnswers(trained, pairs, answers))
        for answers in (REFERENCES, ["e e e e e"] * 4)
    )
    assert (right == wrong) == (name in METRICS_WITHOUT_ANSWERS)


def test_one_attention_is_called_that_and_no_layer_or_head():
    right, wrong = (
        AlignmentCounts.of(frozenset({(0, place)}), Gold(frozenset({(0, 0)}))) for place in (0, 1)
    )
    table = {
        HeadView(*place, row): counts
        for row, counts in ((DecoderRow.PREDICTING, right), (DecoderRow.NEXT, wrong))
        for place in ((0, 0), (0, None), (None, None))
    }
    best = best_head(table, table)
    said = alignment_text(
        AlignmentErrors(table, best, {DecoderRow.PREDICTING: best}, sentences=2, left_out=0)
    )
    assert "the attention, predicting row:  0.0\nthe attention, next row:        100.0\n" in said
    assert "best row, chosen on every second sentence: predicting row; on the other" in said
    assert "head" not in said
    assert "layer" not in said
    said = alignment_text(AlignmentErrors(table, None, {}, sentences=1, left_out=0))
    assert "best row: with one sentence there is nothing to choose on" in said


def test_every_head_is_held_against_gold_links(files, capsys):
    words = [*_given(files, "wanted"), "--metrics", "exact", "--alignment", files / "gold"]
    text = _says(capsys, *words).out
    assert "Alignment error rate in per cent, 4 sentences" in text
    assert "predicting row" in text
    assert "next row" in text
    assert "best head, chosen on every second sentence: layer" in text
    found = json.loads(_says(capsys, *words, "--json").out)["alignment"]
    assert len(found["views"]) == 14
    assert {view["row"] for view in found["views"]} == {"predicting", "next"}
    mean = next(view for view in found["views"] if view["layer"] is None)
    assert 0 <= mean["error_rate"] <= 1
    assert f"mean of all heads: {100 * mean['error_rate']:.1f}" in text


def test_a_gold_file_of_part_of_the_text_is_told(files, tmp_path, capsys):
    (tmp_path / "part").write_text("1 1 1 S\n")
    words = [*_given(files, "wanted"), "--metrics", "exact", "--alignment", tmp_path / "part"]
    text = _says(capsys, *words).out
    assert "3 of 4 sentences have no gold link; every link in them counts as wrong" in text
    assert "best head: where half of the lines have no gold link there is nothing" in text
    report = json.loads(_says(capsys, *words, "--json").out)
    assert (report["alignment"]["without_gold"], report["alignment"]["best_head"]) == (3, None)
    assert any("have no gold link" in note for note in report["notes"])


def test_a_gold_file_may_count_from_one_and_have_the_target_first(files, tmp_path, capsys):
    (tmp_path / "turned").write_text("2-1 1p2\n1-1 2-2 3-3\n\n1-1\n")
    words = [*_given(files, "wanted"), "--metrics", "exact", "--json", "--alignment"]
    plain = json.loads(_says(capsys, *words, files / "gold").out)["alignment"]
    turned = _says(
        capsys, *words, tmp_path / "turned", "--alignment-first", 1, "--alignment-swapped"
    )
    assert json.loads(turned.out)["alignment"] == plain


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nowhere --split valid", "'nowhere' is not a finished run"),
        ("run --source source --reference short", "must have as many lines as each other"),
        ("run --source empty --reference empty", "'empty' is empty. Give at least one line."),
        ("run --source source", "nor a folder. Give the answers to its texts with --reference."),
        ("run --source gone --reference wanted", "there is no file 'gone'"),
        ("run --split tset", "Did you mean 'test'"),
        ("run --split test", "the recipe has no data.test"),
        ("run", "expected --source with --reference, or a run with --split, got a run"),
        ("run --split train", "--split: There is no 'train' here. Known: valid, test."),
        ("run --split valid --metrics blue", "evaluate: --metrics: There is no 'blue'"),
        (
            "run --split valid --metrics exact,pointing",
            "pointing has no meaning for a run that answers texts: it is played on pictures, in "
            "which the boxes of a caption's words are known. Take --metrics of bleu, chrf, ter, "
            "exact, ratio, loss, words, lengths, rouge, accuracy, labels, captions.",
        ),
        (
            "run --source longer --reference longer --metrics loss,words",
            "nothing to score: no text of 2 has a token that is asked for and fits into the 20",
        ),
        (
            "run --source blank --reference blank --metrics words",
            "nothing to score: no text of 1 has a token that is asked for and fits into the 20",
        ),
        (
            "run --split valid --beam 0",
            "evaluate: --beam must be at least 1, got 0. Give 1 for greedy search, or leave",
        ),
        (
            "run --split valid --max-tokens 20",
            "must lie between 1 and 19, the model's limit, got 20",
        ),
        (
            "run --split valid --metrics loss,words --max-tokens 9",
            "evaluate: --metrics loss,words needs no answers, so --max-tokens would change "
            "nothing. Leave it out.",
        ),
        (
            "run --split valid --metrics loss --beam 2",
            "evaluate: --metrics loss needs no answers, so --beam would change nothing. Leave it",
        ),
        ("run --split valid --metrics loss --on-long split", "so --on-long would change nothing."),
        (
            "run --split valid --alignment-swapped",
            "there are no gold links (--alignment), so --alignment-swapped would change nothing.",
        ),
        ("run --split valid --tokenizer 14a", "tokenizer: there is no '14a'"),
        (
            "run --source long --reference long",
            "text 2 has at least 100 tokens, but the model reads",
        ),
        ("run --source source --reference wanted --alignment wrong", "sentence 2: link 9-1"),
        ("run --source source --reference wanted --alignment source", "is no link in Pharaoh"),
        ("run --source source --reference wanted --alignment empty", "'empty' is empty"),
    ],
)
def test_mistakes_are_told_in_a_line_or_two(files, capsys, monkeypatch, words, message):
    monkeypatch.chdir(files)
    said = _says(capsys, *words.split(), code=2)
    assert message in " ".join(said.err.split())
    assert "Traceback" not in said.err
    assert said.out == ""


def test_the_help_has_an_example(capsys):
    assert "Example: regard evaluate" in _says(capsys, "--help").out
