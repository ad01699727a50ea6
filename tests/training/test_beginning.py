"""Where a run may begin, and what is left of one that could not."""

import pytest

from regard import load
from regard.cli import main
from regard.data import Corpus, Subwords
from regard.errors import LengthError, RegardError, RunError
from regard.models import KINDS
from regard.recipes import read_recipe
from regard.training import run
from regard.training.events import Step
from regard.training.preparation import WHERE_DATA_COME_FROM, prepare
from regard.training.workers import SINGLE_PROCESS
from tests.captioning import RECIPE as CAPTIONS
from tests.small_recipe import RECIPE


@pytest.mark.parametrize("resume", [False, True])
def test_a_file_is_no_place_for_a_run(recipe, tmp_path, resume):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RunError, match=r"is a file; a run is a folder\. Choose another --out"):
        next(run(read_recipe(recipe), tmp_path / "run", resume=resume))
    assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.parametrize(
    "mistake",
    ["data.valid.path=gone.tsv", "data.max_tokens=2", "model.d_model=15"],
)
def test_who_mends_a_recipe_goes_on_with_the_same_out(mistake, tmp_path, capsys):
    pairs = "".join(f"a {letter}\t{letter} a\n" for letter in "bcdefgh")
    (tmp_path / "pairs.tsv").write_text(pairs)
    given = f'{{ name = "tsv", path = "{tmp_path}/pairs.tsv" }}'
    text = RECIPE.replace('{ name = "reverse", count = 300 }', given)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(text.replace('{ name = "reverse", count = 20 }', given))
    out = tmp_path / "runs" / "mine" / "run"
    words = ["train", str(recipe), "--out", str(out), "--set", "training.steps=1"]
    assert main([*words, "--set", mistake]) == 2
    assert not (tmp_path / "runs").exists()
    out.parents[1].mkdir()
    assert main([*words, "--set", mistake]) == 2
    assert out.parents[1].exists(), "it was there before"
    assert main(words) == 0


def test_a_folder_that_was_there_is_empty_again_after_a_mistake_and_else_as_it_was(
    recipe, tmp_path
):
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    folder.chmod(0o2775)
    link.symlink_to(folder, target_is_directory=True)
    before = folder.stat()
    with pytest.raises(RegardError):
        list(run(read_recipe(recipe, ["model.max_len=2"]), link))
    assert not list(folder.iterdir())
    assert link.is_symlink()
    after = folder.stat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    list(run(read_recipe(recipe, ["training.steps=1"]), link))
    assert (folder / "model.safetensors").exists()


def _splits(tmp_path, valid, test):
    """A recipe that trains on generated letters, and measures on these files."""
    text = RECIPE.replace(
        'valid = { name = "reverse", count = 20 }',
        f'valid = {{ name = "tsv", path = "{tmp_path}/{valid}" }}\n'
        f'test = {{ name = "tsv", path = "{tmp_path}/{test}" }}',
    )
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("verb", ["train", "plan"])
def test_files_that_are_not_there_are_named_with_their_split_before_anything_is_learned(
    verb, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(Subwords, "train", lambda *_, **__: pytest.fail("sub-words were learned"))
    recipe, out = _splits(tmp_path, "valid.tsv", "tset.tsv"), tmp_path / "run"
    assert main([verb, str(recipe), "--out", str(out)]) == 2
    said = capsys.readouterr().err.splitlines()
    valid = f"regard: data.valid: files: there is no file '{tmp_path}/valid.tsv'. '{tmp_path}' hold"
    test = f"data.test: files: there is no file '{tmp_path}/tset.tsv'. '{tmp_path}' holds nothing w"
    assert said[-3].startswith(valid)
    assert said[-2].startswith(test)
    assert said[-1] == WHERE_DATA_COME_FROM
    assert not out.exists()
    (tmp_path / "empty.tsv").write_text("")
    recipe = _splits(tmp_path, "empty.tsv", "empty.tsv")
    assert main([verb, str(recipe), "--out", str(out)]) == 2
    assert capsys.readouterr().err.endswith(
        f"regard: data.valid: 'tsv' gives no example from '{tmp_path}/empty.tsv'. Give at least "
        f"one.\ndata.test: 'tsv' gives no example from '{tmp_path}/empty.tsv'. Give at least one.\n"
    )


def test_missing_pictures_are_told_before_any_are_announced(tmp_path, capsys):
    gone = '{ name = "caption_lines", path = "gone.jsonl", pictures = "photos" }'
    text = CAPTIONS.replace('{ name = "scenes", count = 24 }', gone)
    (tmp_path / "recipe.toml").write_text(text)
    assert main(["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "data.train: files: there is no file 'gone.jsonl'." in said
    assert said.endswith(f"\n{WHERE_DATA_COME_FROM}\n")
    assert "decoding every picture" not in said


def test_a_run_goes_on_without_the_files_that_it_has_read(tmp_path):
    for name in ("valid.tsv", "test.tsv"):
        (tmp_path / name).write_text("a b\tb a\n")
    recipe = _splits(tmp_path, "valid.tsv", "test.tsv")
    changes = ["training.steps=2", "training.checkpoint_every=1"]
    for event in run(read_recipe(recipe, changes), tmp_path / "run"):
        if isinstance(event, Step):
            break
    for name in ("valid.tsv", "test.tsv"):
        (tmp_path / name).unlink()
    list(run(read_recipe(recipe, changes), tmp_path / "run", resume=True))
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_mistake_in_what_was_begun_leaves_it_as_it_was(recipe, tmp_path):
    out = tmp_path / "run"
    for event in run(read_recipe(recipe, ["training.checkpoint_every=1"]), out):
        if isinstance(event, Step):
            break
    (out / "tokenizer.json").write_text("spoilt")
    before = sorted(path.name for path in out.iterdir())
    with pytest.raises(RegardError, match=r"tokenizer\.json"):
        list(run(read_recipe(recipe), out, resume=True))
    assert sorted(path.name for path in out.iterdir()) == before


STACKS = "d_model = 8\nn_heads = 2\nd_hidden = 8"
TWO = f"{STACKS}\nn_encoder_layers = 1\nn_decoder_layers = 1"
CELLS = 'kind = "recurrent"\nd_embedding = 8\nd_hidden = 8\nn_layers = 1'
WINDOWS = 'kind = "convolutional"\nd_model = 8\nn_encoder_layers = 1\nn_decoder_layers = 1'
WRITER = f'kind = "language_model"\n{STACKS}\nn_layers = 1'
MODELS = {
    "transformer": TWO,
    "location": f'{CELLS}\nscore = "location"',
    "general": CELLS,
    "convolutional": WINDOWS,
    "language model": WRITER,
    "language model, learned": f'{WRITER}\npositions = "learned"',
    "tagger": f'kind = "encoder"\ntask = "tags"\n{STACKS}\nn_layers = 1',
    "hidden words": f'kind = "encoder"\ntask = "words"\n{STACKS}\nn_layers = 1',
    "marian": f'kind = "marian"\n{TWO}',
    "gpt2": f'kind = "gpt2"\n{STACKS}\nn_layers = 1',
}
"""Models that read texts; "location", "convolutional" and "learned" are tied to positions."""
PAIRS = {
    "train": ["a b c\tc b a", "a b c d e f\tf e d c b a", "b\tb"],
    "valid": ["a b\tb a", "c\tc"],
}
"""As many words on either side, since a tagger needs it."""


def _given(tmp_path, model, pairs=PAIRS):
    """A recipe for these pairs of words; what a training does not need is left as it is."""
    for split, rows in pairs.items():
        (tmp_path / f"{split}.tsv").write_text("".join(f"{row}\n" for row in rows))
    files = {split: f'{{ name = "tsv", path = "{tmp_path}/{split}.tsv" }}' for split in PAIRS}
    text = RECIPE.replace('{ name = "reverse", count = 300 }', files["train"])
    text = text.replace('{ name = "reverse", count = 20 }', files["valid"])
    size = 'size = "tiny"\nd_model = 16\nd_hidden = 16\ndropout = 0.1\nmax_len = 20'
    assert size in text
    path = tmp_path / "recipe.toml"
    path.write_text(text.replace(size, f"{model}\nmax_len = 7"))
    return path


def test_every_kind_that_reads_texts_is_here():
    named = {text.split('"')[1] for text in MODELS.values() if text.startswith("kind")}
    assert named | {"transformer"} == KINDS.keys() - {"captioner", "bart", "t5", "llama"}


@pytest.mark.parametrize("name", MODELS)
def test_what_the_model_can_just_read_is_learned_from_and_one_token_more_is_refused(
    name, tmp_path, capsys
):
    recipe, out = _given(tmp_path, MODELS[name]), tmp_path / "run"
    words = ["train", str(recipe), "--out", str(out), "--set", "training.steps=1"]
    assert main([*words, "--set", "model.max_len=6"]) == 2
    assert capsys.readouterr().err.endswith(
        "data.train: the longest source has 7 tokens (example 2), but the model reads at most 6 "
        "(model.max_len, the end token counted). Raise model.max_len to 7, or leave longer "
        'examples out with data.max_tokens = 6 and data.on_long = "skip".\n'
    )
    assert not out.exists()
    assert main(words) == 0
    assert load(out).longest == 7


@pytest.mark.parametrize(
    ("split", "row", "said"),
    [
        ("train", "a\ta b c d e f", r"data\.train: the longest target has 7 tokens .*writes at"),
        ("valid", "a b c d e f g\ta", r"data\.valid: the longest source has 8 tokens .*reads at"),
        ("valid", "a\ta b c d e f g", r"data\.valid: the longest target has 8 tokens .*writes at"),
    ],
)
def test_the_longest_of_both_splits_and_sides_is_named(split, row, said, tmp_path):
    pairs = {"train": ["a b\tb", "b\tc"], "valid": ["c\tc"]}
    recipe = _given(tmp_path, CELLS, {**pairs, split: [*pairs[split], row]})
    with pytest.raises(LengthError, match=said):
        list(run(read_recipe(recipe, ["model.max_len=6"]), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_what_is_left_out_may_be_as_long_as_it_likes(tmp_path):
    recipe = _given(tmp_path, f'{CELLS}\nscore = "location"')
    skipping = ["data.max_tokens=6", "data.on_long=skip", "model.max_len=6", "training.steps=1"]
    list(run(read_recipe(recipe, skipping), tmp_path / "run"))
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_caption_longer_than_what_is_written_is_refused_and_a_picture_has_no_length(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(CAPTIONS)
    with pytest.raises(
        LengthError, match=r"the longest target has \d+ tokens .* writes at most 4 "
    ):
        list(run(read_recipe(recipe, ["model.max_len=4"]), tmp_path / "run"))


def test_a_plan_refuses_what_the_training_would(tmp_path, capsys):
    recipe = _given(tmp_path, CELLS)
    assert main(["plan", str(recipe), "--set", "model.max_len=6"]) == 2
    assert "the longest source has 7 tokens" in capsys.readouterr().err


def test_dropped_merges_make_no_text_longer_than_the_model_reads(tmp_path):
    pairs = {split: ["abcabc\tabc"] * 20 for split in PAIRS}
    recipe = _given(tmp_path, CELLS, pairs)
    changes = ["tokens.kind=bpe", "tokens.size=300", "tokens.dropout=0.9", "model.max_len=3"]
    (tmp_path / "run").mkdir()
    prepared = prepare(read_recipe(recipe, changes), tmp_path / "run", SINGLE_PROCESS)
    prepared.check_lengths()
    prepared.of_epoch(0)
    cut = Corpus.open(tmp_path / "run" / "corpus" / "train-epoch-0")
    assert max(cut.source_lengths.max(), cut.target_lengths.max()) <= 3


def test_a_run_that_has_learned_from_longer_texts_goes_on(tmp_path, monkeypatch):
    recipe, out = read_recipe(_given(tmp_path, CELLS), ["model.max_len=6"]), tmp_path / "run"
    # as runs were begun before lengths were looked at
    with monkeypatch.context() as before:
        before.setattr("regard.training.preparation.Prepared.check_lengths", lambda self: None)
        for event in run(recipe, out):
            if isinstance(event, Step) and event.progress.step == 5:
                break
    assert list(run(recipe, out, resume=True))
    assert (out / "model.safetensors").exists()


SHARING = {
    "transformer": (TWO, "model.tied = 'output'"),
    "recurrent": (f'{CELLS}\ntied = "all"', "model.tied = 'output'"),
    "convolutional": (WINDOWS, "model.tied = 'output'"),
    "marian": (f'kind = "marian"\n{TWO}', "model.is_shared = false"),
}
"""Models with one table for both sides, and what gives each side its own."""


@pytest.mark.parametrize("name", SHARING)
def test_one_table_for_two_vocabularies_is_refused_be_they_as_large_as_each_other(
    name, tmp_path, capsys
):
    model, remedy = SHARING[name]
    rows = [f"{letter} {letter}\t{letter.upper()} {letter.upper()}" for letter in "abc"]
    recipe = _given(tmp_path, model, {"train": rows, "valid": rows})
    out = tmp_path / "run"
    words = ["train", str(recipe), "--out", str(out), "--set", "training.steps=1"]
    assert main([*words, "--set", "tokens.is_joint=false"]) == 2
    assert capsys.readouterr().err == (
        "regard: tokens.is_joint = false makes two vocabularies, but the model has one table of "
        "embeddings for both: piece 4 is 'a' in the source and 'A' in the target. Set "
        f"tokens.is_joint = true, or {remedy}.\n"
    )
    assert not out.exists()
    apart = remedy.replace(" ", "").replace("'", '"')
    assert main([*words, "--set", "tokens.is_joint=false", "--set", apart]) == 0


def test_a_vocabulary_that_goes_on_where_the_other_ends_is_another(tmp_path, capsys):
    rows = ["a a b\ta a b", "a\ta b c"]
    recipe = _given(tmp_path, TWO, {"train": rows, "valid": rows})
    words = ["train", str(recipe), "--out", str(tmp_path / "run"), "--set", "tokens.is_joint=false"]
    assert main(words) == 2
    assert "is missing in the source and 'c' in the target." in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_two_files_that_number_the_same_pieces_alike_may_share_a_table(tmp_path):
    rows = ["a b a\tb a a", "a\ta"]
    recipe = _given(tmp_path, TWO, {"train": rows, "valid": rows})
    changes = ["tokens.is_joint=false", "training.steps=1"]
    list(run(read_recipe(recipe, changes), tmp_path / "run"))
    assert (tmp_path / "run" / "tokenizer.source.json").exists()
    assert (tmp_path / "run" / "model.safetensors").exists()
