"""Texts without trees, given to a model that knows them."""

import pytest

from regard.cli import main

RECIPE = """\
[data]
train = {{ name = "conllu", path = "{path}", has_trees = {trees} }}
valid = {{ name = "conllu", path = "{path}", has_trees = {trees} }}
test = {{ name = "conllu", path = "{path}", has_trees = {trees} }}

[tokens]
kind = "parsed_words"
is_joint = {joint}

[model]
kind = "encoder"
task = "tags"
positions = "tree_depth"
relation = "structural"
d_model = 8
n_heads = 2
d_hidden = 8
n_layers = 1

[training]
steps = 1
"""
SENTENCE = "1\tthe\t_\tDET\t_\t_\t2\t_\t_\t_\n2\tcat\t_\tNOUN\t_\t_\t0\t_\t_\t_\n\n"
MISSING = (
    "parsed_words: 'the cat' comes without its tree; expected the number of its head behind each "
    "word, 0 for a root, as in The↑2 cat↑3 sleeps↑0. A treebank is read so with has_trees = true.\n"
)

WORDS_ONLY = ["tokens.kind=words", "model.positions=sinusoidal", "model.relation=shaw"]


def _train(tmp_path, trees="true", joint="false", *, verb="train", change=()):
    path = tmp_path / "a.conllu"
    path.write_text(SENTENCE * 3)
    text = RECIPE.format(path=path, trees=trees, joint=joint)
    (tmp_path / "recipe.toml").write_text(text)
    words = [word for one in change for word in ("--set", one)]
    return main([verb, str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run"), *words])


def test_sentences_without_trees_are_refused_before_anything_is_learned(tmp_path, capsys):
    assert _train(tmp_path, trees="false") == 2
    splits = (f"data.{split}: {MISSING}" for split in ("train", "valid", "test"))
    assert capsys.readouterr().err == f"regard: {''.join(splits)}"
    assert not (tmp_path / "run").exists()


def test_heads_are_refused_where_they_would_be_parts_of_words(tmp_path, capsys):
    assert _train(tmp_path, change=WORDS_ONLY) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "data.train.has_trees = true writes each word with its head" in said
    assert (
        "Take kind = 'parsed_words' and a model that knows trees, or leave has_trees out." in said
    )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "data.valid.tags=xpos",
            "data.valid.tags: must be that of data.train, 'upos', got 'xpos'.",
        ),
        ("data.test.has_trees=false", "data.test.has_trees: must be that of data.train, True, got"),
    ],
)
def test_splits_of_a_treebank_are_read_alike(tmp_path, capsys, change, said):
    assert _train(tmp_path, change=[change]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()
    # what a reader does by itself may also be said
    assert _train(tmp_path, change=["data.valid.tags=upos"]) == 0


def test_a_sentence_with_its_tree_is_not_split(tmp_path, capsys):
    assert _train(tmp_path, change=["model.max_len=8"]) == 0
    text = " ".join(f"cat↑{head}" for head in range(20))
    for more in ([], ["--on-long", "split"]):
        capsys.readouterr()
        assert main(["predict", str(tmp_path / "run"), "--text", text, *more]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert "has 21 tokens, but the model reads at most 8" in said
        assert said.endswith("Shorten it, or leave such texts out (--on-long skip).")


def test_train_and_plan_give_the_same_advice(tmp_path, capsys):
    said = []
    for verb in ("train", "plan"):
        change = ["model.positions=sinusoidal", "model.relation=shaw"]
        assert _train(tmp_path, "false", verb=verb, change=change) == 2
        said.append(capsys.readouterr().err.splitlines()[-1])
    assert said[0] == said[1]
    assert "tokens.kind" in said[0]


@pytest.mark.parametrize("joint", ["false", "true"])
def test_a_text_without_its_tree_is_refused_by_a_run_that_knows_trees(joint, tmp_path, capsys):
    assert _train(tmp_path, joint=joint) == 0
    run = str(tmp_path / "run")
    assert main(["predict", run, "--text", "the↑2 cat↑0"]) == 0
    assert main(["evaluate", run, "--split", "test", "--metrics", "accuracy"]) == 0
    capsys.readouterr()
    assert main(["predict", run, "--text", "the cat"]) == 2
    assert capsys.readouterr().err.endswith(MISSING)


@pytest.mark.parametrize("knows_trees", [True, False])
def test_a_treebank_without_tags_is_answered_as_one_that_has_them(tmp_path, capsys, knows_trees):
    if knows_trees:
        assert _train(tmp_path) == 0
    else:
        assert _train(tmp_path, "false", change=WORDS_ONLY) == 0
    tagless = SENTENCE.replace("DET", "_").replace("NOUN", "_")
    headless = tagless.replace("\t2\t", "\t_\t").replace("\t0\t", "\t_\t")
    said = []
    for name, text in {"tagged": SENTENCE, "tagless": tagless, "headless": headless}.items():
        (tmp_path / f"{name}.conllu").write_text(text * 2)
        capsys.readouterr()
        code = main(["predict", str(tmp_path / "run"), str(tmp_path / f"{name}.conllu")])
        said.append((code, *capsys.readouterr()))
    tagged, same, words = ((code, out) for code, out, _ in said)
    assert tagged[0] == 0
    assert [len(line.split()) for line in tagged[1].splitlines()] == [2, 2]
    assert same == tagged
    assert words == ((2, "") if knows_trees else tagged)
    where = f"'{tmp_path / 'headless.conllu'}', line 1"
    missing = f"conllu: {where} has the head '_'; expected the number of a word, or 0."
    assert (missing in said[2][2]) is knows_trees


@pytest.mark.parametrize("kind", ["transformer", "language_model"])
@pytest.mark.parametrize(("key", "name"), [("positions", "tree_depth"), ("relation", "structural")])
def test_a_model_that_writes_knows_no_trees(tmp_path, capsys, kind, key, name):
    data = 'train = { name = "copy", count = 4 }\nvalid = { name = "copy", count = 2 }'
    model = f'kind = "{kind}"\nd_model = 8\nn_heads = 2\nd_hidden = 8\n{key} = "{name}"'
    text = f"[data]\n{data}\n[model]\n{model}\n[training]\nsteps = 1\n"
    (tmp_path / "recipe.toml").write_text(text)
    for verb in ("train", "plan"):
        out = ["--out", str(tmp_path / "run")] if verb == "train" else []
        assert main([verb, str(tmp_path / "recipe.toml"), *out]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"model.{key} = '{name}' knows the trees of sentences, which an encoder" in said
        assert f"Take another {key}, or model.kind = 'encoder'." in said
    assert not (tmp_path / "run").exists()
