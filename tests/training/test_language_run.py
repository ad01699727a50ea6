"""A language model through a whole run: trained, asked, scored and looked into."""

import gzip
import json
import math
from dataclasses import replace

import pytest
import tomli_w
import torch

import regard
from regard.cli import main
from regard.data import Example
from regard.data.subword_kinds import BOS, EOS
from regard.errors import RecipeError
from regard.inspecting.panels import usual_kind
from regard.models import ExpertsSpec
from regard.recipes.cache_recipe import CacheRecipe
from regard.recipes.recipe import read_recipe
from regard.runs.evaluation import EVALUATE_METRICS, ScoredAnswers
from regard.runs.evaluation_texts import texts_of_split
from regard.training.events import Finished, Step, Validated
from regard.training.run import run
from tests.factories import make_run

TEXT = "the cat saw the dog\nthe dog saw the cat\n" * 60
RECIPE = """\
[data]
train = {{ name = "running_text", path = "{text}", words = 12, every = 5 }}
valid = {{ name = "running_text", path = "{text}", words = 6, context = 6 }}
test = {{ name = "running_text", path = "{text}", words = 6, context = 6 }}

[tokens]
kind = "{kind}"
size = 300

[model]
kind = "language_model"
rows = "running"
asks = "all"
d_model = 16
n_heads = 2
d_hidden = 32
n_layers = 2
attends = {attends}
word_dropout = 0.05
dropout = 0.0
max_len = 40

[training]
steps = 60
target_tokens_per_update = 200
target_tokens_per_batch = 200
learning_rate = 0.01
warmup_steps = 10
label_smoothing = 0.0
validate_every = 60
checkpoint_every = 60
validate_examples = 1
"""
DOCUMENTS = [
    {
        "title": f"on {word}",
        "sections": [["1 Looking", f"we looked at {word} again and again"]],
        "abstract": f"about {word}",
    }
    for word in ("cats", "dogs", "cows", "owls") * 8
]


def trained(folder, recipe):
    (folder / "recipe.toml").write_text(recipe)
    events = list(run(read_recipe(folder / "recipe.toml"), folder / "run"))
    return events, regard.load(folder / "run")


@pytest.fixture(scope="module")
def windows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("windows")
    (folder / "text").write_text(TEXT)
    attends = '["sliding_window:size=5", "full"]'
    return trained(folder, RECIPE.format(text=folder / "text", kind="words", attends=attends))


def test_it_learns_a_text_by_heart(windows):
    events, _ = windows
    steps = [event for event in events if isinstance(event, Step)]
    assert steps[0].nll > 2 * steps[-1].nll
    assert isinstance(events[-1], Finished)
    assert any(isinstance(event, Validated) for event in events)


def test_it_goes_on_where_a_text_stops(windows):
    _, asked = windows
    (said,) = asked.predict(["the cat saw the dog ¶ the dog saw the"])
    assert said.text.split()[:3] == ["cat", "¶", "the"]


def test_the_perplexity_is_that_of_every_word_counted_once(windows):
    _, asked = windows
    texts = texts_of_split(asked.loaded.recipe, "test")
    judged = ScoredAnswers(asked, texts, [""] * len(texts))
    loss, perplexity = EVALUATE_METRICS["words"](judged)
    words = sum(len(line.split()) + 1 for line in TEXT.splitlines())
    assert loss.signature == f"nats|per:word|tokens:{words}"
    nats, model = 0.0, asked.loaded.model
    for row in texts[:3] + texts[-1:]:
        before, after = (asked.loaded.target.encode(side) for side in (row.source, row.targets[0]))
        tokens = torch.tensor([[BOS, *before, *after]])
        with torch.no_grad():
            chances = model(tokens[:, :-1])[0].double().log_softmax(-1)
        nats -= sum(float(chances[len(before) + i, token]) for i, token in enumerate(after))
    some = ScoredAnswers(asked, texts[:3] + texts[-1:], [""] * 4)
    count = sum(len(row.targets[0].split()) for row in some.examples)
    assert EVALUATE_METRICS["words"](some)[0].value == pytest.approx(nats / count, rel=1e-4)
    assert perplexity.value == pytest.approx(math.exp(loss.value))
    assert perplexity.value < 2
    # where words are the pieces, both losses are one: no end of a row is asked for
    per_piece, _ = EVALUATE_METRICS["loss"](judged)
    assert per_piece.signature == f"nats|per:sub-word|tokens:{words}"
    assert per_piece.value == loss.value


def test_the_perplexity_with_a_cache_is_that_of_the_recipe_s(windows):
    _, asked = windows
    texts = texts_of_split(asked.loaded.recipe, "test")
    judged = ScoredAnswers(asked, texts, [""] * len(texts))
    words = EVALUATE_METRICS["words"](judged)[0]
    chosen, perplexity = EVALUATE_METRICS["cache"](judged)
    assert chosen.signature.startswith(f"{words.signature}|cache:2000|sharpness:")
    assert chosen.value != words.value
    assert perplexity.value == pytest.approx(math.exp(chosen.value))
    recipe = replace(asked.loaded.recipe, cache=CacheRecipe(size=9, sharpness=4.0, share=0.0))
    ruled = replace(judged, trained=replace(asked, loaded=replace(asked.loaded, recipe=recipe)))
    found = EVALUATE_METRICS["cache"](ruled)[0]
    assert found.signature == f"{words.signature}|cache:9|sharpness:4|share:0"
    assert found.value == pytest.approx(words.value, rel=1e-5)


def test_a_cache_of_another_model_is_refused(tmp_path, capsys):
    made, other = make_run(tmp_path / "run"), RECIPE.replace('"running"', '"separated"')
    assert main(["evaluate", str(made), "--split", "valid", "--metrics", "cache"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "cache has no meaning for a run that answers texts: it scores running text" in said
    path = tmp_path / "recipe.toml"
    path.write_text(other.format(text="a", kind="words", attends='"full"') + "[cache]\nsize = 9\n")
    with pytest.raises(RecipeError, match="only a model that continues running text"):
        read_recipe(path)


def test_the_look_at_a_running_text_has_rows_that_sum_to_one(windows):
    _, asked = windows
    record = asked.look("the cat saw the")
    rows = record.weights("cross").sum(-1) + record.weights("decoder").sum(-1)
    assert torch.allclose(rows, torch.ones_like(rows), atol=1e-5)


def test_answers_are_scored_only_where_something_is_asked(windows, tmp_path, capsys):
    _, asked = windows
    (tmp_path / "nothing").write_text("\n\n")
    (tmp_path / "whole").write_text("the cat saw\nthe dog\n")
    texts = ["--source", str(tmp_path / "nothing"), "--reference", str(tmp_path / "whole")]
    assert main(["evaluate", str(asked.path), *texts, "--metrics", "rouge"]) == 2
    assert (
        "evaluate: --metrics rouge (or --out) needs texts to answer, but every source is empty"
    ) in " ".join(capsys.readouterr().err.split())
    assert main(["compare", str(asked.path), "--hypotheses", f"b={texts[-1]}", *texts]) == 2
    assert "needs texts to answer, but every source is empty" in capsys.readouterr().err
    assert main(["evaluate", str(asked.path), *texts, "--metrics", "words,loss"]) == 0


def test_sub_words_and_words_are_held_against_one_measure(tmp_path):
    (tmp_path / "text").write_text(TEXT)
    recipe = RECIPE.format(text=tmp_path / "text", kind="bpe", attends='["full"]')
    _, asked = trained(tmp_path, recipe.replace("steps = 60", "steps = 1"))
    # a word that was never seen is several pieces
    texts = [*texts_of_split(asked.loaded.recipe, "test"), Example("the", ("catdog saw",))]
    judged = ScoredAnswers(asked, texts, [""] * len(texts))
    (per_word, _), (per_piece, _) = (
        EVALUATE_METRICS["words"](judged),
        EVALUATE_METRICS["loss"](judged),
    )
    words = int(per_word.signature.rsplit(":", 1)[1])
    pieces = int(per_piece.signature.rsplit(":", 1)[1])
    assert words < pieces
    assert per_word.value * words == pytest.approx(per_piece.value * pieces, rel=1e-4)


@pytest.fixture(scope="module")
def compressed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compressed")
    (folder / "papers.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in DOCUMENTS))
    recipe = RECIPE.format(text="", kind="words", attends='["blocks:size=8", "memory_compressed"]')
    for split in ("train", "valid", "test"):
        data = f'{{ name = "documents", path = "{folder}/papers.jsonl" }}'
        start = recipe.index(f"{split} = {{")
        end = recipe.index("\n", start)
        recipe = recipe[:start] + f"{split} = {data}" + recipe[end:]
    for old, new in (
        ('rows = "running"', 'rows = "separated"'),
        ('asks = "all"', 'asks = "target"'),
        ("n_layers = 2", "n_layers = 3"),
        ("steps = 60", "steps = 150"),
        ("word_dropout = 0.05", "word_dropout = 0.0"),
    ):
        recipe = recipe.replace(old, new)
    return trained(folder, recipe)


def test_a_compressed_stack_learns_to_say_what_a_document_is_about(compressed):
    _, asked = compressed
    texts = texts_of_split(asked.loaded.recipe, "test")[:4]
    said = [one.text for one in asked.predict([text.source for text in texts])]
    assert said == [text.targets[0] for text in texts]
    scores = EVALUATE_METRICS["rouge"](ScoredAnswers(asked, texts, said))
    assert [one.value for one in scores] == [100.0] * 3


def test_the_loss_is_told_by_length_of_document(compressed):
    _, asked = compressed
    short = [Example("on cats", ("about cats",)), Example("on dogs", ("about dogs",))]
    long = [Example("on cats 1 Looking we looked at cats again and again", ("about cats",))] * 2
    found = EVALUATE_METRICS["lengths"](ScoredAnswers(asked, [*short, *long], [""] * 4))
    assert [one.signature.rsplit("source:")[1] for one in found] == ["3", "12"]
    every = EVALUATE_METRICS["loss"](ScoredAnswers(asked, [*short, *long], [""] * 4))[0].value
    assert sum(one.value for one in found) / 2 == pytest.approx(every, rel=1e-4)


def test_documents_of_one_s_own_are_read_as_those_learned_from(compressed, tmp_path, capsys):
    _, asked = compressed
    new = [{key: value for key, value in one.items() if key != "abstract"} for one in DOCUMENTS]
    path = tmp_path / "new.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(f"{json.dumps(one)}\n" for one in new[:3])
    assert main(["predict", str(asked.path), str(path), "--beam", "1"]) == 0
    assert capsys.readouterr().out == "about cats\nabout dogs\nabout cows\n"
    whole = tmp_path / "papers.jsonl"
    whole.write_text("".join(f"{json.dumps(one)}\n" for one in DOCUMENTS))
    scores = []
    for texts in (["--source", str(whole)], ["--split", "test"]):
        assert main(["evaluate", str(asked.path), *texts, "--metrics", "loss", "--json"]) == 0
        scores.append(json.loads(capsys.readouterr().out)["scores"])
    assert scores[0] == scores[1]
    assert main(["evaluate", str(asked.path), "--source", str(path)]) == 2
    assert "line 1 has no 'abstract'; it has title, sections." in capsys.readouterr().err


def test_a_document_and_its_answer_are_looked_into(compressed):
    _, asked = compressed
    record = asked.look("on cats 1 Looking we looked", "about cats")
    assert set(record.attention) == {"sequence", "encoder", "decoder", "cross"}
    assert len(record.attention["cross"].layers) == 3
    assert record.attention["cross"].queries.pieces[-1] == "<eos>"
    assert asked.loaded.source.encode("about")[0] not in (BOS, EOS)


def test_a_recipe_of_a_language_model_reads_back_as_itself(tmp_path):
    attends = '[{ name = "blocks", size = 8 }, "memory_compressed:stride=2"]'
    text = RECIPE.format(text="some", kind="words", attends=attends)
    experts = "[model.experts]\ncount = 4\nused = 1\nlayers = [2]\n\n[training]"
    (tmp_path / "one.toml").write_text(text.replace("[training]", experts))
    recipe = read_recipe(tmp_path / "one.toml")
    assert recipe.model.experts == ExpertsSpec(count=4, used=1, layers=(2,))
    assert [way.settings for way in recipe.model.attends] == [{"size": 8}, {"stride": 2}]
    (tmp_path / "two.toml").write_text(tomli_w.dumps(recipe.as_table()))
    assert read_recipe(tmp_path / "two.toml") == recipe
    (tmp_path / "one.toml").write_text(text.replace("attends =", "atends ="))
    with pytest.raises(RecipeError, match=r"one\.toml:\d+: model\.atends: There is no 'atends'"):
        read_recipe(tmp_path / "one.toml")


@pytest.mark.parametrize("rows", ["running", "separated", "continued"])
def test_a_look_shows_one_causal_map_over_text_and_answer(tmp_path, rows):
    folder = make_run(tmp_path / "run", model=WRITER.format(rows=rows), kind="words")
    record = regard.load(folder, device="cpu").look("a b c", "d e")
    whole = record.attention["sequence"]
    names = {
        "running": ("<bos>", "a", "b", "c", "d", "e"),
        "separated": ("a", "b", "c", "<eos>", "<bos>", "d", "e"),
        "continued": ("a", "b", "c", "d", "e"),
    }[rows]
    assert whole.queries == whole.keys
    assert whole.keys.names == names
    weights = record.weights("sequence", 0, 0)
    assert torch.equal(weights.triu(1), torch.zeros_like(weights))
    torch.testing.assert_close(weights.sum(1), torch.ones(len(names)))
    # what the answer looks at is the same in its parts
    first = names.index("d") - 1
    parts = record.weights("cross", 0, 0).sum(1) + record.weights("decoder", 0, 0).sum(1)
    torch.testing.assert_close(parts[0], weights[first].sum())
    assert usual_kind(record.attention) == "sequence"
    looked = ["look", str(folder), "a b c", "--target", "d e", "--json"]
    assert main(looked) == 0


WRITER = """\
kind = "language_model"
rows = "{rows}"
d_model = 16
n_heads = 2
d_hidden = 16
n_layers = 2
"""
