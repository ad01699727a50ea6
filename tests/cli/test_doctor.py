"""regard doctor: what it finds, on which lines, with which exit code, in broken files too."""

import gzip
import json
from pathlib import Path

import pytest

from regard.cli import main
from regard.data import GENERATORS, Subwords
from regard.data.subword_kinds import CHARACTERS

ROOT = Path(__file__).parents[2]
CLEAN = [(e.source, e.targets[0]) for e in GENERATORS["dates"]("train", 60)]


def _pairs(folder, rows, name="train"):
    paths = [folder / f"{name}.src", folder / f"{name}.tgt"]
    for side, path in enumerate(paths):
        path.write_text("".join(f"{row[side]}\n" for row in rows))
    return [str(path) for path in paths]


def _doctor(capsys, *words, code):
    assert main(["doctor", *words, "--json"]) == code
    said = capsys.readouterr()
    assert said.err == ""
    return json.loads(said.out)


def _found(diagnosis):
    """The check of each finding with the lines it names."""
    return {f["check"]: [p["line"] for p in f["places"]] for f in diagnosis["findings"]}


def _message(diagnosis, check):
    (message,) = [f["message"] for f in diagnosis["findings"] if f["check"] == check]
    return message


def test_clean_data_is_called_clean(tmp_path, capsys):
    paths = _pairs(tmp_path, CLEAN)
    assert _doctor(capsys, *paths, code=0) == {
        "examples": 60, "test_examples": None, "is_clean": True, "findings": [],
    }  # fmt: skip
    assert main(["doctor", *paths]) == 0
    assert capsys.readouterr().out == "60 examples: nothing wrong.\n"


WRONG = {
    "empty": [("a word", ""), ("  ", "ein Wort")],
    "control": [("a\x07bell", "eine Glocke"), ("\ufeffa mark", "Marke"), ("bro�ken", "kaputt")],
    "duplicate": [CLEAN[3]],
    "conflict": [(CLEAN[3][0], "something else")],
    "copy": [("never translated", "never translated")],
    "ratio": [("5 March 2001 is the day", "2001-03-05 " * 40)],
    "length": [("word " * 5000, "Wort " * 5000)],
}


@pytest.mark.parametrize("check", WRONG)
def test_each_fault_is_found_on_its_lines(tmp_path, capsys, check):
    rows = [*CLEAN[:30], *WRONG[check], *CLEAN[30:]]
    found = _found(_doctor(capsys, *_pairs(tmp_path, rows), code=1))
    assert found[check] == list(range(31, 31 + len(WRONG[check])))
    beside = {"ratio": {"length"}, "length": {"ratio"}}.get(check, set())
    assert set(found) - {check} <= beside


def test_files_without_a_line_are_a_finding(tmp_path, capsys):
    for side in ("en", "de"):
        (tmp_path / f"train.{side}").write_text("")
    words = [str(tmp_path / f"train.{side}") for side in ("en", "de")]
    assert main(["doctor", *words]) == 1
    said = capsys.readouterr().out
    assert said.startswith("0 examples: 1 finding.\n")
    assert "there is no example to learn from." in said


def test_only_ten_lines_are_named_and_all_are_counted(tmp_path, capsys):
    paths = _pairs(tmp_path, [*CLEAN, *CLEAN])
    (finding,) = _doctor(capsys, *paths, code=1)["findings"]
    assert finding["count"] == 60
    assert [p["line"] for p in finding["places"]] == list(range(61, 71))
    assert main(["doctor", *paths]) == 1
    shown = capsys.readouterr().out
    assert "60 in all: train.src 61, 62, 63, 64, 65, 66, 67, 68, 69, 70 ..." in shown


def test_the_first_lines_of_a_finding_are_quoted_with_both_sides(tmp_path, capsys):
    rows = [*CLEAN, ("a\x07bell", "eine Glocke"), ("b" * 80, "b" * 80), ("c", "c"), ("d", "d")]
    paths = _pairs(tmp_path, [*rows, ("e", "e")])
    found = {f["check"]: f["quotes"] for f in _doctor(capsys, *paths, code=1)["findings"]}
    assert found["control"] == [r"61: 'a\x07bell' → 'eine Glocke'"]
    cut = repr("b" * 49 + "…")
    assert found["copy"] == [f"62: {cut} → {cut}", "63: 'c' → 'c'", "64: 'd' → 'd'"]
    assert main(["doctor", *paths]) == 1
    assert "\n             63: 'c' → 'c'\n" in capsys.readouterr().out


def test_unequal_line_counts_are_a_finding_with_both_counts(tmp_path, capsys):
    source, target = _pairs(tmp_path, CLEAN)
    Path(target).write_text(Path(target).read_text() + "one more\nand one\n")
    diagnosis = _doctor(capsys, source, target, code=1)
    assert _found(diagnosis) == {"line_counts": [61]}
    assert diagnosis["findings"][0]["places"][0]["file"] == target
    assert "train.src' has 60" in _message(diagnosis, "line_counts")
    assert "train.tgt' has 62" in _message(diagnosis, "line_counts")


def test_bad_bytes_are_a_finding_and_the_rest_is_still_looked_at(tmp_path, capsys):
    source, target = _pairs(tmp_path, [*CLEAN, ("same", "same")])
    lines = Path(target).read_bytes().split(b"\n")
    lines[4] = b"caf\xe9"
    Path(target).write_bytes(b"\n".join(lines))
    diagnosis = _doctor(capsys, source, target, code=1)
    assert _found(diagnosis) == {"encoding": [5], "copy": [61]}
    assert "byte 0xe9 at offset" in _message(diagnosis, "encoding")
    assert diagnosis["examples"] == 60


def test_a_packed_file_cut_short_is_a_finding(tmp_path, capsys):
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"".join(b"%d\tx%d\n" % (i, i) for i in range(99)))[:-20])
    assert "unreadable" in _found(_doctor(capsys, str(path), code=1))


def test_lines_of_another_form_are_a_finding(tmp_path, capsys):
    tsv, jsonl = tmp_path / "a.tsv", tmp_path / "a.jsonl"
    tsv.write_text("a\tb\nno tab\nc\td\n")
    jsonl.write_text('{"en": "a", "de": "b"}\n{\n{"en": 3, "de": ""}\n')
    assert _found(_doctor(capsys, str(tsv), code=1)) == {"format": [2]}
    assert _found(_doctor(capsys, str(jsonl), "--keys", "en,de", code=1)) == {"format": [2, 3]}


def test_a_folder_is_looked_at_as_one(tmp_path, capsys):
    (tmp_path / "a.tsv").write_text("one\teins\n")
    _pairs(tmp_path, [("two", "zwei"), ("one", "eins")], "b")
    diagnosis = _doctor(capsys, str(tmp_path), "--suffixes", "src,tgt", code=1)
    assert diagnosis["examples"] == 3
    (finding,) = diagnosis["findings"]
    assert finding["check"] == "duplicate"
    assert finding["places"] == [{"file": str(tmp_path / "b.src"), "line": 2}]


def test_test_data_that_was_trained_on_is_found(tmp_path, capsys):
    train = _pairs(tmp_path, CLEAN)
    rows = [("New and short", "neu"), (CLEAN[7][0].upper() + "  ", "other"), CLEAN[9]]
    test = _pairs(tmp_path, rows, "test")
    diagnosis = _doctor(capsys, *train, "--test", *test, code=1)
    assert diagnosis["test_examples"] == 3
    assert _found(diagnosis)["leak"] == [2, 3]
    said = "2 of 3 test sources stand in the training data too (letter case and spaces aside), 1 "
    assert said in _message(diagnosis, "leak")
    spelt = _doctor(capsys, *train, "--test", test[0], "--test", test[1], code=1)
    assert spelt == diagnosis


def test_characters_that_were_never_trained_on_are_found(tmp_path, capsys):
    train = _pairs(tmp_path, CLEAN)
    test = _pairs(tmp_path, [("2001", "2001-01-0Ω"), ("1999", "1999-12-12")], "test")
    diagnosis = _doctor(capsys, *train, "--test", *test, code=1)
    assert _found(diagnosis) == {"unseen": [1]}
    assert "3.6 % of all characters (Ω)" in _message(diagnosis, "unseen")


def test_faults_of_the_test_data_are_found_too(tmp_path, capsys):
    train = _pairs(tmp_path, CLEAN)
    test = _pairs(tmp_path, [("2001", ""), ("2002", "\x01")], "test")
    diagnosis = _doctor(capsys, *train, "--test", *test, code=1)
    assert {"empty": [1], "control": [2]}.items() <= _found(diagnosis).items()
    assert _message(diagnosis, "empty").startswith("test: ")


def test_what_passes_the_limit_is_counted_in_words_or_characters(tmp_path, capsys):
    rows = [("one two three", "一二三四五"), ("one", "一"), ("two and two", "二二二二")]
    diagnosis = _doctor(capsys, *_pairs(tmp_path, rows), "--max-tokens", "2", code=1)
    said = [f["message"] for f in diagnosis["findings"]]
    assert said == [
        "2 of 3 source lines (67 %) are longer than 2 words.",
        "2 of 3 target lines (67 %) are longer than 2 characters.",
    ]
    assert _doctor(capsys, *_pairs(tmp_path, rows), "--max-tokens", "5", code=0)["is_clean"]


def test_a_tokenizer_counts_sub_words_and_names_unknown_characters(tmp_path, capsys):
    path = tmp_path / "tokenizer.json"
    Subwords.train(["abcd"], kind=CHARACTERS, size=8).save(path)
    words = (*_pairs(tmp_path, [("abc", "a"), ("ab", "aZZb")]), "--tokenizer", str(path))
    diagnosis = _doctor(capsys, *words, "--max-tokens", "3", code=1)
    assert _found(diagnosis) == {"truncated": [2], "unknown": [2]}
    assert "1 of 2 target lines (50 %) are longer than 3 sub-words" in _message(
        diagnosis, "truncated"
    )
    assert "target lines" in _message(diagnosis, "unknown")
    assert "40 % of all characters" in _message(diagnosis, "unknown")


def test_json_that_holds_half_a_character_does_not_break_the_doctor(tmp_path, capsys):
    path, tokenizer = tmp_path / "a.jsonl", tmp_path / "tokenizer.json"
    path.write_text('{"source": "a\\ud800", "target": "b"}\n')
    Subwords.train(["ab?"], size=300).save(tokenizer)
    assert main(["doctor", str(path), "--tokenizer", str(tokenizer)]) == 1
    assert "a.jsonl', line 1 holds half a character" in " ".join(capsys.readouterr().out.split())


def test_parts_of_documents_may_be_lists(tmp_path, capsys):
    rows = [
        {"title": f"On {word}", "sections": [["One", f"{word} is."], ["Two", f"{word} was."]],
         "abstract": f"Of {word}."}
        for word in ("cats", "dogs", "cats")
    ]  # fmt: skip
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert _found(_doctor(capsys, str(path), "--documents", code=1)) == {"duplicate": [3]}
    words = ["--documents", "--keys", "title + abstract, sections"]
    assert "'sections' must be a text" in _message(_doctor(capsys, str(path), *words, code=1),
                                                   "format")  # fmt: skip
    rows = [{"source": ["A sentence.", "Another."], "target": ["One.", "Two."]}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert _found(_doctor(capsys, str(path), code=1))["format"] == [1]
    words = ["--documents", "--keys", "source,target"]
    assert _doctor(capsys, str(path), *words, code=0)["examples"] == 1
    tested = _doctor(capsys, str(path), *words, "--test", str(path), code=1)
    assert _found(tested) == {"leak": [1]}


def _sentence(*words):
    """Rows of CoNLL-U: each word with its head."""
    rows = (f"{n}\t{word}\t_\tX\t_\t_\t{head}\t_\t_\t_" for n, (word, head) in enumerate(words, 1))
    return "".join(f"{row}\n" for row in (*rows, ""))


def test_trees_of_a_treebank_are_looked_at_where_somebody_asks(tmp_path, capsys):
    path = tmp_path / "a.conllu"
    good, circle = _sentence(("the", 2), ("cat", 0)), _sentence(("a", 2), ("dog", 1))
    path.write_text(good + circle + _sentence(("birds", "_"), ("sing", 0)))
    assert _doctor(capsys, str(path), code=0)["examples"] == 3
    diagnosis = _doctor(capsys, str(path), "--trees", code=1)
    assert _found(diagnosis) == {"format": [4, 7]}
    assert diagnosis["findings"][0]["places"][0]["file"] == str(path)
    assert "line 4 begins a sentence that is no tree" in _message(diagnosis, "format")
    assert diagnosis["examples"] == 1
    tested, path = str(path), tmp_path / "b.conllu"
    path.write_text(good)
    assert _doctor(capsys, str(path), "--trees", code=0)["is_clean"]
    diagnosis = _doctor(capsys, str(path), "--trees", "--test", tested, code=1)
    assert _found(diagnosis) == {"format": [4, 7], "leak": [1]}


MISTAKES = {
    "doctor nowhere.tsv": "there is no file 'nowhere.tsv'",
    "doctor README.md": "nor a folder. Give the source file and then its target file.",
    "doctor README.md README.md --test README.md": "nor a folder. Give both after --test: the sou",
    "doctor README.md nowhere": "there is no file 'nowhere'",
    "doctor regard --suffixes en": "--suffixes takes two names and a comma, got 'en'",
    "doctor README.md README.md --keys a,b,c": "--keys takes two names and a comma, got 'a,b,c'",
    "doctor a b --documents": "--documents takes one file of JSON lines, got 'a "
    "b'. Look at the files one by one.",
    "doctor docs --documents": "--documents takes one file of JSON lines, got",
    "doctor a.jsonl --documents --suffixes en,de": "--documents reads JSON lines, and --suffixes "
    "is for pairs of files. Leave one of the two out.",
    "doctor a.jsonl --documents --keys title": "--keys takes two names and a comma, got 'title'",
    "doctor a.jsonl --documents": "there is no file 'a.jsonl'",
    "doctor README.md README.md --trees": "--trees takes one .conllu file (also .gz, .xz), got "
    "'README.md README.md'. Leave --trees out, or look at treebanks one by one.",
    "doctor docs --trees": "--trees takes one .conllu file (also .gz, .xz), got 'docs'.",
    "doctor a.conllu --trees": "there is no file 'a.conllu'",
    "doctor a.conllu --trees --keys a,b": "--trees reads a treebank, and --keys is for other "
    "files. Leave one of the two out.",
    "doctor a.conllu --trees --suffixes a,b": "--trees reads a treebank, and --suffixes is for ",
    "doctor a.jsonl --trees --documents": "--documents reads JSON lines, and --trees is for "
    "treebanks. Leave one of the two out.",
    "doctor README.md README.md --tokenizer pyproject.toml": "is no vocabulary: it is not JSON",
    "doctor README.md README.md --test nowhere.tsv": "there is no file 'nowhere.tsv'",
    "doctor a b --tokenizer a --tokenizer b --tokenizer c": "there is no file 'a'",
    "doctor README.md README.md --keys a,b": "no .jsonl file is read, so --keys would change",
    "doctor README.md README.md --suffixes a,b": "no folder is read, so --suffixes would change",
    "doctor docs": "is no shard. Expected *.tsv, *.jsonl",
    "doctor README.md README.md --max-tokens 0": "--max-tokens must be at least 1, got '0'.",
    "doctor --test a b": "doctor: DATA is missing: SOURCE TARGET [TARGET ...], or one .tsv",
}


@pytest.mark.parametrize(("words", "text"), MISTAKES.items())
def test_a_mistake_exits_with_2_and_says_what_to_do(words, text, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(words.split()) == 2
    said = capsys.readouterr()
    assert text in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


def test_three_tokenizers_are_one_too_many(tmp_path, capsys):
    paths = _pairs(tmp_path, CLEAN)
    assert main(["doctor", *paths, *["--tokenizer", "a"] * 3]) == 2
    assert "--tokenizer is given once or twice, got 3" in capsys.readouterr().err


def test_the_doctor_has_help_with_an_example(capsys):
    assert main(["doctor", "--help"]) == 0
    assert "Example: regard doctor" in capsys.readouterr().out


def test_a_first_line_of_column_names_is_found_and_the_same_pair_below_is_not(tmp_path, capsys):
    names = ("English", "German")
    assert _found(_doctor(capsys, *_pairs(tmp_path, [names, *CLEAN]), code=1)) == {"header": [1]}
    assert _found(_doctor(capsys, *_pairs(tmp_path, [*CLEAN, names]), code=0)) == {}


@pytest.mark.parametrize("behind", [[], ["captions.jsonl"]])
def test_pictures_are_sent_to_the_verbs_that_read_them(behind, tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"")
    assert main(["doctor", str(tmp_path / "photos"), *behind]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"doctor: '{tmp_path / 'photos'}' holds pictures, and the doctor reads texts." in told
    assert "regard new PICTURES CAPTIONS" in told


def test_a_table_that_no_reader_takes_is_told_how_to_write_it(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("text,label\none,two\n")
    assert main(["doctor", str(tmp_path / "a.csv")]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"'{tmp_path / 'a.csv'}' is .csv, which no reader takes. Write its rows as JSON" in told
