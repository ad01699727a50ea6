"""What is odd about the data is told before the first update, by a training and by a plan."""

import json

import pytest

from regard.cli import main
from regard.recipes import read_recipe
from regard.training.preparation import prepare
from regard.training.workers import SINGLE_PROCESS

RECIPE = """\
[data]
train = {{ name = "tsv", path = "{folder}/train.tsv" }}
valid = {{ name = "tsv", path = "{folder}/valid.tsv" }}

[tokens]
kind = "words"
size = 300

[model]
d_model = 8
n_heads = 2
d_hidden = 8
n_encoder_layers = 1
n_decoder_layers = 1

[training]
steps = 2
warmup_steps = 1
validate_every = 1
checkpoint_every = 1
"""
LETTERS = "abcdefghijklmnop"


def _pairs(count, first=0):
    """Pairs, no two alike, of words that stand on one side alone."""
    numbers = range(first, first + count)
    words = [f"{LETTERS[n % 16]} {LETTERS[n // 16 % 16]} {LETTERS[n // 256]} x" for n in numbers]
    return [f"{text}\t{text.upper()}" for text in words]


TRAIN, VALID = _pairs(400), _pairs(20, first=500)


def _notes(tmp_path, train=TRAIN, valid=VALID, *changes):
    for name, rows in (("train", train), ("valid", valid)):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{row}\n" for row in rows))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.format(folder=tmp_path))
    folder = tmp_path / "run"
    folder.mkdir()
    prepared = prepare(read_recipe(recipe, changes), folder, SINGLE_PROCESS)
    return list(prepared.data_notes())


def test_of_ordinary_data_nothing_is_told(tmp_path):
    assert _notes(tmp_path) == []


@pytest.mark.parametrize(("count", "said"), [(1, "1 example"), (99, "99 examples")])
def test_so_few_training_examples_are_learned_by_heart(tmp_path, count, said):
    assert _notes(tmp_path, train=TRAIN[:count]) == [
        f"data.train holds {said}: so few are learned by heart, and nothing is learned of others. "
        "That will do to try a recipe out; for use give thousands."
    ]


def test_a_hundred_training_examples_are_not_called_few(tmp_path):
    assert not any("by heart, and nothing" in note for note in _notes(tmp_path, train=TRAIN[:100]))


def test_one_validation_example_measures_nothing(tmp_path):
    assert _notes(tmp_path, valid=VALID[:1]) == [
        "data.valid holds 1 example: scores on so few say little, and the best checkpoint is "
        "chosen by chance. Give a few hundred."
    ]


@pytest.mark.parametrize(
    ("leaked", "said"), [(10, "10 of 10 examples (100 %)"), (3, "3 of 23 examples (13 %)")]
)
def test_validation_examples_of_the_training_are_told_with_their_share(tmp_path, leaked, said):
    others = [] if leaked == 10 else VALID
    assert _notes(tmp_path, valid=[*TRAIN[:leaked], *others]) == [
        f"data.valid: {said} stand in data.train too: the validations say how well these are "
        "remembered. Take them out of one of the two; regard doctor TRAIN --test VALID names their "
        "lines."
    ]


def test_one_in_twenty_that_leaks_is_no_note(tmp_path):
    assert _notes(tmp_path, valid=[*TRAIN[:1], *VALID]) == []


def test_repeated_training_examples_are_told(tmp_path):
    assert _notes(tmp_path, train=TRAIN[:200] * 2) == [
        "data.train: 200 of 400 examples (50 %) repeat an earlier one, and count for more than the "
        "others. regard doctor names their lines."
    ]


def test_targets_that_are_their_sources_are_told(tmp_path):
    same = ["\t".join([row.partition("\t")[0]] * 2) for row in [*TRAIN, *VALID]]
    assert _notes(tmp_path, same[:400], same[400:]) == [
        "data.train: 400 of 400 targets (100 %) are their source again, so that the model learns "
        "to copy. Check that the recipe names two different texts."
    ]


def test_lines_with_nothing_on_one_side_are_told(tmp_path):
    assert _notes(tmp_path, train=[*TRAIN, "\tA", "a b\t", "a c\t"]) == [
        "data.train has 1 empty source and 2 empty targets: a model learns to say nothing from "
        "them. Take these lines out; regard doctor names them."
    ]


def test_a_line_of_column_names_is_told(tmp_path):
    assert _notes(tmp_path, train=["English\tGerman", *TRAIN]) == [
        "data.train: the first line, 'English' and 'German', looks like the names of columns, and "
        "is learned from as an example. Take it out of the file."
    ]


def test_a_first_column_of_numbers_is_told(tmp_path):
    numbered = [f"{number}\t{row}" for number, row in enumerate(TRAIN)]
    first, *_ = _notes(tmp_path, numbered, VALID, "tokens.size=900")
    assert first == (
        "data.train: the sources are nothing but numbers ('0'): perhaps the first column numbers "
        "the lines. Of a .tsv the first column is the source, and each further one a target."
    )


def _unseen(split, side, share, words, remedy):
    return (
        f"data.{split}: {share} of the pieces of the {side}s are ones that no {side} of data.train "
        f"has, as in {words}: of these the model knows nothing. {remedy}."
    )


def test_words_that_training_never_had_are_told_with_examples(tmp_path):
    strange = ["a zebra b\tA B", "a quagga b\tA B"]
    assert _notes(tmp_path, valid=[*strange, *VALID]) == [
        _unseen("valid", "source", "2 %", "'zebra', 'quagga'",
                "Check that data.valid holds the same kind of text")
    ]  # fmt: skip


def test_so_are_those_of_the_test_split(tmp_path):
    (tmp_path / "test.tsv").write_text("a zebra\tA B\n")
    test = f'data.test={{ name = "tsv", path = "{tmp_path}/test.tsv" }}'
    assert _notes(tmp_path, TRAIN, VALID, test) == [
        _unseen("test", "source", "50 %", "'zebra'",
                "Check that data.test holds the same kind of text")
    ]  # fmt: skip


def test_swapped_sides_are_told(tmp_path):
    swapped = ["\t".join(reversed(row.split("\t"))) for row in VALID]
    notes = _notes(tmp_path, valid=swapped)
    assert len(notes) == 2
    for note, side, other in zip(notes, ("source", "target"), ("target", "source"), strict=True):
        assert note.startswith(f"data.valid: 100 % of the pieces of the {side}s are ones that no")
        assert note.endswith(
            f"Most of them are in the {other}s of data.train: check that source and target of "
            "data.valid are not swapped."
        )


def test_a_vocabulary_too_small_for_its_texts_is_told(tmp_path):
    notes = _notes(tmp_path, TRAIN, VALID, "tokens.size=10")
    assert not any("stand in data.train too" in note for note in notes)
    assert notes[0].startswith("data.train: ")
    assert notes[0].endswith(
        "of the words of the sources are unknown, since the vocabulary holds 10. Raise "
        'tokens.size, or take tokens.kind = "bpe", which cuts every word into pieces that it knows.'
    )


def test_a_model_far_too_large_for_its_data_is_told_with_the_size_to_take(tmp_path):
    changes = ["model.d_model=512", "model.d_hidden=2048", "model.n_heads=8"]
    (note,) = _notes(tmp_path, TRAIN, VALID, *changes)
    assert note == (
        "the model has 7,369,728 parameters, but data.train only 4,000 tokens in 400 examples: it "
        'can learn them by heart. Take model.size = "tiny", which has 168,320 here, with no other '
        "widths beside it, or give more data."
    )


def test_a_plan_tells_it_as_notes(tmp_path, capsys):
    _notes(tmp_path, train=TRAIN[:3])
    assert main(["plan", str(tmp_path / "recipe.toml"), "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any(note.startswith("data.train holds 3 examples: so few") for note in notes)


def test_examples_left_out_are_told_with_how_many_there_are(tmp_path, capsys):
    _notes(tmp_path, train=[*TRAIN[:100], *(f"{row} y y" for row in TRAIN[100:])])
    words = ["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "out")]
    changes = ["--set", "data.max_tokens=5", "--set", "data.on_long=skip"]
    assert main([*words, *changes]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "train: 300 of 400 examples past 5 tokens are left out. Raise data.max_tokens." in said
