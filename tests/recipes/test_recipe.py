"""Recipes: every mistake at once, each with file, line and remedy."""

from pathlib import Path

import pytest
import tomli_w

from regard.choices import Choice
from regard.errors import RecipeError
from regard.models import ConvolutionalSpec
from regard.recipes.recipe import examples, parse_recipe, read_recipe
from regard.recipes.toml_tables import key_lines

ROOT = Path(__file__).parents[2]

GOOD = """\
[data]
train = { name = "copy", count = 50 }
valid = { name = "copy", count = 10 }

[model]
size = "tiny"
dropout = 0.2

[training]
steps = 7
"""


def _write(tmp_path, text):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


def test_a_size_stands_for_its_row_and_keys_beside_it_win(tmp_path):
    recipe = read_recipe(_write(tmp_path, GOOD))
    assert (recipe.model.d_model, recipe.model.n_heads, recipe.model.dropout) == (64, 4, 0.2)
    assert recipe.training.steps == 7


def test_the_resolved_recipe_reads_back_as_itself(tmp_path):
    text = GOOD.replace("dropout = 0.2", 'relation = { name = "shaw", clip = 4 }')
    recipe = read_recipe(_write(tmp_path, text))
    again = tmp_path / "again.toml"
    again.write_text(tomli_w.dumps(recipe.as_table()))
    assert read_recipe(again) == recipe
    assert recipe.model.relation == Choice("shaw", {"clip": 4})


def test_changes_from_the_command_line_come_on_top(tmp_path):
    path = _write(tmp_path, GOOD)
    recipe = read_recipe(path, ["training.steps=9", "model.norm=pre_norm", "tokens.size=99"])
    assert (recipe.training.steps, recipe.model.norm, recipe.tokens.size) == (9, "pre_norm", 99)


def test_the_kind_of_a_model_says_which_keys_it_has(tmp_path):
    text = GOOD.replace('size = "tiny"', 'kind = "convolutional"\nkernel = 5')
    recipe = read_recipe(_write(tmp_path, text))
    assert recipe.model == ConvolutionalSpec(kernel=5, dropout=0.2)
    again = tmp_path / "again.toml"
    again.write_text(tomli_w.dumps(recipe.as_table()))
    assert read_recipe(again) == recipe


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ('kind = "convolutionel"', "model.kind: There is no 'convolutionel'"),
        (
            'kind = "recurrent"\ncell = "rnn"',
            "model.cell: There is no 'rnn' here. Known: lstm, gru.",
        ),
        ('score = "dott"', "model.score: There is no 'dott' here. Did you mean 'dot'?"),
        ('kind = "convolutional"\nn_heads = 4', "model.n_heads: There is no 'n_heads' here"),
        ('kind = "convolutional"\nsize = "base"', "has no meaning for kind = 'convolutional'"),
    ],
)
def test_a_kind_that_is_none_and_a_key_of_another_kind_are_refused(tmp_path, model, said):
    with pytest.raises(RecipeError) as caught:
        read_recipe(_write(tmp_path, GOOD.replace('size = "tiny"', model)))
    assert said in str(caught.value)


def test_a_check_of_a_section_points_at_the_line_of_its_key(tmp_path):
    text = GOOD.replace('size = "tiny"', 'kind = "recurrent"\ncell = "rnn"')
    line = text.splitlines().index('cell = "rnn"') + 1
    with pytest.raises(RecipeError, match=rf"\.toml:{line}: model\.cell: There is no 'rnn'"):
        read_recipe(_write(tmp_path, text))


def test_a_mistake_inside_a_choice_points_at_the_line_of_its_key_once(tmp_path):
    ways = 'encoder_attends = ["full", "blocks:size=0", "blocks:size=0"]'
    text = GOOD.replace("dropout = 0.2", f'select = "top_k:cuont=3"\n{ways}')
    first = text.splitlines().index(ways)
    path = _write(tmp_path, text)
    with pytest.raises(RecipeError) as said:
        read_recipe(path)
    assert str(said.value).splitlines() == [
        f"{path}:{first}: model.select: 'top_k' has no setting 'cuont'; it takes count: int = 8.",
        f"{path}:{first + 1}: model.encoder_attends: blocks: size must be at least 1, got 0.",
    ]


def test_links_that_cannot_meet_are_refused_before_anything_is_read(tmp_path):
    with pytest.raises(RecipeError, match=r"with --set model.score=additive .*: model: chain: add"):
        read_recipe(_write(tmp_path, GOOD), ["model.score=additive", "model.relation=shaw"])


def test_a_split_in_another_form_than_the_training_text_is_refused(tmp_path):
    (tmp_path / "a.tsv").write_text("a\tb\n")
    read = f'{{ name = "tsv", path = "{tmp_path}/a.tsv", normalise = "hansards" }}'
    plain = read.replace(', normalise = "hansards"', "")
    text = GOOD.split("[model]")[1]
    good = f"[data]\ntrain = {read}\nvalid = {read}\n\n[model]{text}"
    assert read_recipe(_write(tmp_path, good)).data.valid.settings["normalise"] == "hansards"
    with pytest.raises(RecipeError) as caught:
        read_recipe(_write(tmp_path, good.replace(f"valid = {read}", f"valid = {plain}")))
    assert "data.valid.normalise: must be that of data.train, 'hansards', got None." in str(
        caught.value
    )


def test_a_recurrent_model_may_be_named_by_its_paper(tmp_path):
    text = GOOD.replace('size = "tiny"', 'kind = "recurrent"\nsize = "bahdanau"\nd_hidden = 8')
    model = read_recipe(_write(tmp_path, text)).model
    assert (model.cell, model.score.name, model.d_hidden) == ("gru", "additive", 8)


def test_all_mistakes_are_shown_together_with_their_lines(tmp_path):
    text = """\
[data]
train = { name = "copi", count = 50 }
valid = { name = "copy", count = 10, length = 3 }

[modle]
d_model = 64

[training]
stepps = 7
warmup_steps = "many"
"""
    path = _write(tmp_path, text)
    with pytest.raises(RecipeError) as said:
        read_recipe(path)
    lines = str(said.value).splitlines()
    assert f"{path}:5: modle: There is no 'modle' here. Did you mean 'model'?" in lines[0]
    assert any(f"{path}:9: training.stepps" in x and "Did you mean 'steps'" in x for x in lines)
    assert any(f"{path}:10" in x and "must be a whole number, got 'many'" in x for x in lines)


def _said(tmp_path, text):
    """The mistakes, each behind its line."""
    path = _write(tmp_path, text)
    with pytest.raises(RecipeError) as said:
        read_recipe(path)
    return [line.removeprefix(f"{path}:") for line in str(said.value).splitlines()]


def test_a_mistake_of_one_section_hides_none_of_another(tmp_path):
    text = GOOD.replace('"copy", count = 50', '"copi", count = 50').replace("steps", "stepps")
    text = text.replace("valid", "max_token = 3\nvalid")
    said = _said(tmp_path, text.replace("dropout = 0.2", 'select = "top_k:cuont=3"'))
    assert [line.split(". ")[0] for line in said] == [
        "3: data.max_token: There is no 'max_token' here",
        "11: training.stepps: There is no 'stepps' here",
        "8: model.select: 'top_k' has no setting 'cuont'; it takes count: int = 8.",
        "2: data.train: There is no 'copi' here",
    ]


def test_every_name_that_nobody_has_is_told_beside_other_mistakes_of_its_section(tmp_path):
    names = 'score = "generl"\nnorm = "pre"\nencoder_attends = ["ful"]'
    for other, first in {
        "d_modle = 64": "8: model.d_modle: There is no 'd_modle' here",
        "dropout = 2": "8: model.dropout must lie in [0, 1), got 2.0.",
        'max_len = "long"': "8: model.max_len: must be a whole number, got 'long'.",
    }.items():
        said = _said(tmp_path, GOOD.replace("dropout = 0.2", f"\n{other}\n{names}"))
        assert [line.split(". Did")[0].split(". Known")[0] for line in said] == [
            first,
            "10: model.norm: There is no 'pre' here",
            "9: model.score: There is no 'generl' here",
            "11: model.encoder_attends: There is no 'ful' here",
        ]


def test_what_only_follows_from_a_mistake_is_not_told(tmp_path):
    # without the misspelt key the layers would be plain, and have no branches
    text = 'layer = "weighted_branch"\nhas_frozen_branches = true\nn_heads = 4'
    (said,) = _said(tmp_path, GOOD.replace("dropout = 0.2", text))
    assert said.startswith("7: model.layer: There is no 'weighted_branch' here. Did you mean")
    text = "n_heds = 4\nd_model = 60\nn_heads = 7"
    (said,) = _said(tmp_path, GOOD.replace('size = "tiny"\ndropout = 0.2', text))
    assert said.startswith("6: model.n_heds: There is no 'n_heds' here. Did you mean 'n_heads'?")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("model.size=[1]", "model.size: There is no '[1]' here"),
        ("model.kind=[1]", "model.kind: There is no '[1]' here"),
        ("training.steps={a=1}", "training.steps: must be a whole number, got {'a': 1}."),
        ("model.encoder_attends=[1]", "model.encoder_attends: must be"),
    ],
)
def test_a_list_or_a_table_where_none_is_expected_is_a_mistake_like_others(change, said, tmp_path):
    with pytest.raises(RecipeError) as error:
        read_recipe(_write(tmp_path, GOOD.replace('size = "tiny"\n', "")), [change])
    assert said in str(error.value)


def test_what_only_follows_from_an_unknown_size_is_not_told(tmp_path):
    text = GOOD.replace('"tiny"', '"tinny"').replace("dropout = 0.2", "d_model = 60")
    (said,) = _said(tmp_path, text)
    assert said.startswith("6: model.size: There is no 'tinny' here. Did you mean 'tiny'?")


MISTAKES = {
    ("steps = 7", "steps = 7\nwarmup_steps = -3"): "training.warmup_steps must be at least 0",
    ("steps = 7", "steps = 7\nlearning_rate = -1"): "training.learning_rate must be at least 0",
    ("steps = 7", "steps = 0"): "training.steps must be at least 1, got 0",
    ("steps = 7", "steps = true"): "must be a whole number, got True",
    ('size = "tiny"', 'size = "tinny"'): "Did you mean 'tiny'",
    ('"copy", count = 50', '"copi", count = 50'): "Did you mean 'copy'",
    (
        '"copy", count = 50',
        '"copy", counts = 50',
    ): "data.train.counts: There is no 'counts' here. Did you mean 'count'",
    ('{ name = "copy", count = 50 }', '{ name = "tsv" }'): "data.train.path: is missing",
    ('{ name = "copy", count = 50 }', "{ count = 50 }"): "needs a name",
    ("dropout = 0.2", "n_heads = 5"): "n_heads (5) must divide d_model (64)",
    ("dropout = 0.2", 'select = "sof"'): "Did you mean 'soft'",
    ("[training]", "[training"): "A section is written [data], a key size = 8000, a text in",
    ('size = "tiny"', 'size = "tiny"\nscore = "ADDITIVE"'): "Did you mean 'additive'",
}


@pytest.mark.parametrize(("change", "text"), MISTAKES.items(), ids=MISTAKES.values())
def test_a_mistake_says_where_and_what_to_do(change, text, tmp_path):
    path = _write(tmp_path, GOOD.replace(*change))
    with pytest.raises(RecipeError) as said:
        read_recipe(path)
    assert text in str(said.value)
    assert str(path) in str(said.value)


def test_a_missing_file_and_a_malformed_change_are_named(tmp_path):
    with pytest.raises(RecipeError, match=r"there is no file '.*nowhere\.toml'"):
        read_recipe(tmp_path / "nowhere.toml")
    with pytest.raises(RecipeError, match="is a folder; give the recipe"):
        read_recipe(tmp_path)
    with pytest.raises(RecipeError, match=r"--set takes section\.key=value, got 'steps'"):
        read_recipe(_write(tmp_path, GOOD), ["steps"])


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.toml")), ids=lambda p: p.stem)
def test_every_recipe_of_ours_is_complete_and_annotated(path):
    recipe = read_recipe(path)
    head = path.read_text().split("[data]")[0]
    assert "Expect:" in head
    assert "Takes:" in head
    assert recipe.training.steps > 0 or recipe.training.epochs > 0
    # so that no example is longer than what the model reads and writes
    assert recipe.data.max_tokens <= recipe.model.max_len


CHANGES = {
    (
        "training.warmup_steps=many",
    ): "--set training.warmup_steps=many: training.warmup_steps: must",
    ("training.steps=0",): "--set training.steps=0: training.steps must be at least 1, got 0",
    ("training.stepps=3",): "--set training.stepps=3: training.stepps: There is no 'stepps'",
    ("data.train.counts=5",): "--set data.train.counts=5: data.train.counts: There is no 'counts'",
    (
        'model={kind="recurrent", cell="rnn"}',
    ): '--set model={kind="recurrent", cell="rnn"}: model.c',
    ("training.seed=2", "tokens.size=2"): "--set tokens.size=2: tokens.size must be at least 5",
    (
        "model.select=local_predictive:half_width=0",
    ): "--set model.select=local_predictive:half_width=0: model.select: local_predictive: half",
    (
        "model.encoder_attends=blocks:sise=3",
    ): "--set model.encoder_attends=blocks:sise=3: model.encoder_attends: 'blocks' has no setting",
    (
        "model.score=additive:d_model",
    ): "--set model.score=additive:d_model: model.score: 'additive:d_model': 'd_model' is not a se",
}
"""What is typed, and how a mistake in it begins."""


@pytest.mark.parametrize(("changes", "begins"), CHANGES.items(), ids=map(str, CHANGES))
def test_a_mistake_behind_set_is_no_line_of_the_file(changes, begins, tmp_path):
    path = _write(tmp_path, GOOD)
    with pytest.raises(RecipeError) as said:
        read_recipe(path, changes)
    assert any(line.startswith(begins) for line in str(said.value).splitlines()), str(said.value)
    assert str(path) not in str(said.value)


def test_a_key_that_is_wrong_with_what_was_typed_is_told_with_both(tmp_path):
    text = GOOD.replace('size = "tiny"', 'kind = "recurrent"\nscore = "dot"')
    line = text.splitlines().index('score = "dot"') + 1
    changes = ["is_bidirectional=true", "reverses_source=false", 'bridge="projected"']
    with pytest.raises(RecipeError) as said:
        read_recipe(_write(tmp_path, text), [f"model.{each}" for each in changes])
    together = " ".join(f"--set model.{each}" for each in changes)
    assert f".toml:{line}, with {together}: model.score = 'dot' needs" in str(said.value)
    with pytest.raises(RecipeError) as said:
        read_recipe(_write(tmp_path, GOOD), ["training.seed=2", "model.n_heads=5"])
    line = GOOD.splitlines().index("[model]") + 1
    assert f".toml:{line}, with --set model.n_heads=5: model: dims: n_heads (5)" in str(said.value)


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("training.dropout", "tokens.dropout or model.dropout"),
        ("model.steps", "training.steps"),
        ("training.size", "tokens.size or model.size or cache.size"),
        ("learning_rate", "training.learning_rate"),
    ],
)
def test_a_key_in_the_wrong_section_is_told_the_right_one(tmp_path, key, where):
    with pytest.raises(RecipeError) as said:
        read_recipe(_write(tmp_path, GOOD), [f"{key}=1"])
    name = key.rpartition(".")[2]
    assert str(said.value) == (
        f"--set {key}=1: {key}: There is no '{name}' here. It is of another section: write {where}."
    )


def test_a_key_of_another_kind_of_model_names_that_kind(tmp_path):
    text = GOOD.replace('size = "tiny"', 'kind = "recurrent"\nn_encoder_layers = 2')
    with pytest.raises(RecipeError) as said:
        read_recipe(_write(tmp_path, text))
    assert "model.n_encoder_layers: There is no 'n_encoder_layers' here" in str(said.value)
    assert "'transformer'" in str(said.value)
    assert str(said.value).endswith("have it; this one is 'recurrent'.")
    with pytest.raises(RecipeError) as said:
        read_recipe(_write(tmp_path, text.replace("n_encoder_layers", "n_nothings")))
    assert "have it" not in str(said.value)


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "captioner", "encoder"])
def test_a_size_is_among_the_keys_of_a_kind_that_has_named_ones(tmp_path, kind):
    text = GOOD.replace('size = "tiny"', f'kind = "{kind}"\nsiz = "tiny"')
    with pytest.raises(
        RecipeError, match=r"no 'siz' here. Did you mean 'size'\? Known: .*, size\."
    ):
        read_recipe(_write(tmp_path, text))


def test_a_size_is_no_key_of_a_kind_that_has_none(tmp_path):
    text = GOOD.replace('size = "tiny"', 'kind = "convolutional"\nsiz = "tiny"')
    with pytest.raises(RecipeError, match=r"There is no 'siz' here\. Known: kind, .*, max_len\.$"):
        read_recipe(_write(tmp_path, text))


def test_keys_are_found_on_their_lines():
    text = "# a\n[model]\nd_model = 3\n\n[data.train]\nname = 'x'\n"
    assert key_lines(text) == {"model": 2, "model.d_model": 3, "data.train": 5,
                               "data.train.name": 6}  # fmt: skip


def test_splits_of_a_generator_are_read_by_their_own_names(tmp_path):
    recipe = read_recipe(_write(tmp_path, GOOD))
    train = {e.source for e in examples(recipe.data.train, "train")()}
    valid = {e.source for e in examples(recipe.data.valid, "valid")()}
    assert (len(train), len(valid)) == (50, 10)
    assert not train & valid


def test_a_table_from_elsewhere_needs_no_lines():
    with pytest.raises(RecipeError, match="run: data: is missing; it has no default"):
        parse_recipe({"training": {"steps": 3}}, "run", {})


@pytest.mark.parametrize(
    "model", ['kind = "language_model"', 'kind = "gpt2"', 'kind = "encoder"\ntask = "words"']
)
def test_a_model_that_reads_what_it_writes_has_one_vocabulary(tmp_path, model):
    text = GOOD.replace('size = "tiny"', model)
    assert read_recipe(_write(tmp_path, text)).tokens.is_joint
    path = _write(tmp_path, text + "\n[tokens]\nis_joint = false\n")
    line = path.read_text().splitlines().index("is_joint = false") + 1
    with pytest.raises(RecipeError, match=rf":{line}: tokens.is_joint: must be true"):
        read_recipe(path)


def test_a_tagger_may_have_two_vocabularies(tmp_path):
    text = GOOD.replace('size = "tiny"', 'kind = "encoder"\ntask = "tags"')
    recipe = read_recipe(_write(tmp_path, text + "\n[tokens]\nis_joint = false\n"))
    assert not recipe.tokens.is_joint
