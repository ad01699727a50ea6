"""Encoders from scratch: trained on hidden words or on tags, and asked afterwards."""

import json
import math

import pytest
import torch

import regard
from regard.cli import main
from regard.data.subword_kinds import BOS, EOS, MASK_NUMBER
from regard.data.subwords import Subwords
from regard.errors import LengthError, RecipeError, SettingError
from regard.inspecting.capture import attention_of, weights_of
from regard.inspecting.token_labels import read_text
from regard.recipes import read_recipe
from regard.runs.evaluation import EVALUATE_METRICS, ScoredAnswers, score
from regard.runs.evaluation_texts import texts_of_split
from regard.tasks.predictions import WithPrecision
from regard.training.events import Step
from regard.training.run import run
from tests.factories import ENCODER, make_run
from tests.training.encoder_recipes import TAGS, WORDS, trained


@pytest.mark.parametrize("kind", ["bpe", "words", "unigram"])
def test_a_model_of_hidden_words_is_trained_and_fills_them_in(tmp_path, kind):
    (tmp_path / "text").write_text("the cat sat on the mat and the dog ran home\n" * 20)
    one = trained(tmp_path, WORDS.format(text=tmp_path / "text", kind=kind))
    subwords = Subwords.load(tmp_path / "run" / "tokenizer.json")
    assert subwords.encode("the [MASK]")[-1] == MASK_NUMBER
    assert len(subwords) <= 300
    (said,) = one.predict(["the cat [MASK] on the mat"])
    assert said.text.startswith("the cat")
    assert "[MASK]" not in said.text
    assert len(said.candidates) == 1


@pytest.fixture(scope="module")
def filler(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filler")
    (folder / "text").write_text("the cat sat on the mat and the dog ran home\n" * 20)
    return trained(folder, WORDS.format(text=folder / "text", kind="words"))


@pytest.mark.parametrize(
    ("name", "why"), [("words", "few of a text's words"), ("lengths", "does not read the source")]
)
def test_scores_of_whole_texts_are_refused_where_few_words_are_asked_for(filler, name, why, capsys):
    texts = texts_of_split(filler.loaded.recipe, "valid")
    with pytest.raises(SettingError, match=rf"{name} has no meaning .* hidden words: .*{why}"):
        score(ScoredAnswers(filler, texts, [""] * len(texts)), [name])
    # before anything is decoded
    asked = ["evaluate", str(filler.path), "--split", "valid", "--metrics", f"bleu,{name}"]
    assert main(asked) == 2
    out, err = capsys.readouterr()
    assert out == ""
    suited = "loss, bleu, chrf, ter, exact, ratio, rouge, accuracy, labels, captions"
    assert f"Take --metrics of {suited}." in (" ".join(err.split()))


@pytest.mark.parametrize("words", [["--beam", "3"], ["--length-penalty", "1.5"]])
@pytest.mark.parametrize(("verb", "what"), [("predict", "--text"), ("evaluate", "--split")])
def test_how_to_search_means_nothing_where_words_are_filled_in(filler, capsys, verb, what, words):
    assert main([verb, str(filler.path), what, "valid", *words]) == 2
    assert f"so {words[0]} would change nothing." in " ".join(capsys.readouterr().err.split())


def test_hidden_words_are_scored_by_their_loss_unless_somebody_asks_for_more(filler, capsys):
    asked = ["evaluate", str(filler.path), "--split", "valid", "--json"]
    assert main(asked) == 0
    usual = json.loads(capsys.readouterr().out)
    assert [score["name"] for score in usual["scores"]] == ["loss", "perplexity"]
    assert all("per:hidden sub-word" in score["signature"] for score in usual["scores"])
    # nothing is decoded, as no answer is asked for
    assert (usual["search"], usual["speed"]) == (None, None)


def test_a_loss_beside_guesses_says_which_words_it_is_of(filler, tmp_path, capsys):
    (tmp_path / "hidden").write_text("the [MASK] sat\n")
    (tmp_path / "whole").write_text("the cat sat\n")
    asked = ["evaluate", str(filler.path), "--source", str(tmp_path / "hidden"), "--reference",
             str(tmp_path / "whole"), "--metrics", "exact,loss", "--json"]  # fmt: skip
    assert main(asked) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["search"] == "hidden words filled in"
    notes = {one["name"]: one["note"] for one in report["scores"]}
    assert notes["exact match"] == ""
    assert notes["loss"].startswith("of words hidden by chance in the references, not of those")


def test_guesses_are_scored_only_where_words_are_hidden(filler, tmp_path, capsys):
    asked = ["evaluate", str(filler.path), "--metrics", "exact,loss", "--json"]
    (tmp_path / "whole").write_text("the cat sat\n")
    (tmp_path / "hidden").write_text("the [MASK] sat\n")
    wanted = ["--reference", str(tmp_path / "whole"), "--source"]
    for given in (["--split", "valid"], [*wanted, str(tmp_path / "whole")]):
        assert main([*asked, *given]) == 2
        assert (
            "evaluate: --metrics exact,loss (or --out) needs texts in which words are hidden, but "
            "no source given holds [MASK]. Give such texts (--source), or take --metrics loss"
        ) in " ".join(capsys.readouterr().err.split())
    assert main([*asked, *wanted, str(tmp_path / "hidden")]) == 0
    more = json.loads(capsys.readouterr().out)
    assert [score["name"] for score in more["scores"]] == ["exact match", "loss", "perplexity"]


@pytest.mark.parametrize("on_long", ["error", "split"])
def test_a_long_text_with_hidden_words_is_not_told_to_be_split(filler, on_long):
    long = "the [MASK] " * 40
    with pytest.raises(LengthError, match=r"Shorten it, or leave .* \(--on-long skip\)\.$"):
        filler.predict([long], on_long=on_long)
    (left_out,) = filler.predict([long], on_long="skip")
    assert left_out.note.startswith("left out")


def test_an_answer_to_look_at_is_refused_where_it_would_change_nothing(filler, capsys):
    words = ["look", str(filler.path), "the cat [MASK]"]
    assert main([*words, "--target", "the cat sat"]) == 2
    assert (
        "look: this run reads a text at once, and where it looks does not depend on an answer: "
        "a target would change nothing. Leave it out."
    ) in " ".join(capsys.readouterr().err.split())
    assert main([*words, "--layer", "2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["shown"]
    assert shown["title"].startswith("encoder attention, layer 2,")


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("the cat [MASK]  on the [MASK].", None),
        ("[MASK] zebra sat", None),
        ("the  cat sat, zebra", "no word is hidden in the text: write [MASK] for it"),
    ],
)
def test_a_look_answers_as_predict_does_and_searches_for_nothing(filler, monkeypatch, text, note):
    monkeypatch.setattr(WithPrecision, "__call__", lambda *_, **__: pytest.fail("it searched"))
    record, (said,) = filler.look(text), filler.predict([text])
    assert (record.source, record.target, record.note) == (text, said.text, note)
    assert said.text.count("zebra") == text.count("zebra")
    subwords, (encoder,) = filler.loaded.source, record.attention.values()
    tokens = read_text(subwords, text, before=[BOS], after=[EOS])
    assert encoder.queries == encoder.keys == tokens
    (maps,) = attention_of(filler.loaded.model, [*subwords.encode(text), EOS], []).values()
    torch.testing.assert_close(record.mean("encoder"), weights_of(maps).mean((0, 1)))


@pytest.mark.parametrize("task", ["words", "tags", "label", "vectors"])
def test_an_answer_that_a_run_does_not_read_is_refused_in_python(tmp_path, task):
    one = regard.load(make_run(tmp_path, model=ENCODER.format(task=task)), device="cpu")
    for target in ("a b c", ""):
        with pytest.raises(SettingError, match=r"an answer: a target would change nothing\. Leave"):
            one.look("a b c", target)
    assert list(one.look("a b c").attention) == ["encoder"]


def test_texts_too_long_for_a_vector_are_named_by_their_lines(filler, tmp_path, capsys):
    long, lines = "the cat " * 40, tmp_path / "lines"
    lines.write_text(f"the cat\n\n{long}\nthe dog\n")
    asked = ["predict", str(filler.path), str(lines), "--vectors", str(tmp_path / "x.npy")]
    assert main(asked) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert (
        "vectors: line 3 has 81 tokens, but the model reads at most 63 (model.max_len, the end "
        "token counted): 'the cat the cat the cat the cat the cat …'. A vector is that of a whole "
        "text: shorten what is too long, or cut it into lines of its own."
    ) in said
    assert "Traceback" not in said
    with pytest.raises(LengthError, match=r"line 2 has .*…'\. So are lines 4, 5\. A vector"):
        filler.vectors(["a", long, "a", long, long])
    with pytest.raises(LengthError, match=r"So are lines 2, 3, 4, 5, 6 and 3 more\. A vector"):
        filler.vectors([long] * 9)
    assert main([*asked, "--on-long", "split"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "none is split or left out, and one that is too long is an error that names its" in said
    assert not (tmp_path / "x.npy").exists()


def test_runs_that_fill_words_or_give_vectors_have_no_ensemble(tmp_path):
    (tmp_path / "text").write_text("the cat sat on the mat and the dog ran home\n" * 20)
    trained(tmp_path, WORDS.format(text=tmp_path / "text", kind="words"))
    both = regard.load(tmp_path / "run", tmp_path / "run", device="cpu")
    with pytest.raises(SettingError, match="an ensemble has no meaning for it"):
        both.predict(["the [MASK] sat"])
    with pytest.raises(SettingError, match="expected one run, got 2"):
        both.vectors(["the cat"])


def test_the_first_loss_of_hidden_words_is_that_of_guessing(tmp_path):
    (tmp_path / "text").write_text("the cat sat on the mat and the dog ran home\n" * 20)
    one = trained(tmp_path, WORDS.format(text=tmp_path / "text", kind="bpe"))
    torch.manual_seed(0)
    tokens = torch.randint(5, len(one.loaded.source), (4, 50))
    fresh = regard.models.build_model(
        one.loaded.recipe.model, n_source_tokens=300, n_target_tokens=300
    )
    with torch.no_grad():
        loss_inputs = fresh.eval().loss_inputs(tokens[:, :1], tokens)
        logits = fresh.output(loss_inputs.hidden)[loss_inputs.gold != 0]
    loss = torch.nn.functional.cross_entropy(logits, loss_inputs.gold[loss_inputs.gold != 0])
    assert abs(loss.item() - math.log(300)) < 0.5
    texts = texts_of_split(one.loaded.recipe, "valid")
    told, _ = EVALUATE_METRICS["loss"](ScoredAnswers(one, texts, [""] * len(texts)))
    assert told.signature.startswith("nats|per:hidden sub-word|tokens:")
    assert abs(told.value - math.log(len(one.loaded.source))) < 1.0


@pytest.mark.parametrize(
    ("task", "answers", "near"),
    [
        ("tags", ("X Y", "Y X Y"), 1e-4),
        ("label", ("X", "Y"), 1e-4),
        # other words are hidden in training than in a validation
        ("words", ("a b", "b a b"), 0.5),
    ],
)
def test_training_and_validation_have_their_loss_by_the_same_tokens(tmp_path, task, answers, near):
    pairs = zip(("a b", "b a b"), answers, strict=True)
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{said}\n" for text, said in pairs) * 9)
    recipe = TAGS.format(pairs=tmp_path / "pairs.tsv", task=task, steps=1)
    recipe = recipe.replace("5e-3", '1e-9\nschedule = "constant"')
    trained(
        tmp_path, recipe.replace("is_joint = false", f"is_joint = {str(task == 'words').lower()}")
    )
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    found = {name: value for line in lines for name, value in json.loads(line).items()}
    assert found["train_loss"] == pytest.approx(found["valid_loss"], abs=near)
    # neither labels nor guesses have characters of their own
    assert "valid_loss_per_character" not in found


def test_texts_of_unknown_words_alone_have_nothing_to_be_asked_for(tmp_path, capsys):
    (tmp_path / "text").write_text("the cat sat on the mat and the dog ran home\n" * 20)
    (tmp_path / "other").write_text("бегемот бегемот бегемот\n")
    recipe = WORDS.format(text=tmp_path / "text", kind="words")
    (tmp_path / "recipe.toml").write_text(recipe)
    asked = ["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run")]
    # what stands at the ends of lines is known
    asked += ["--set", "data.valid.line_end=бегемот"]
    assert main([*asked, "--set", f"data.valid.path={tmp_path / 'other'}"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "no token of these texts has a loss: no piece of them is in the vocabulary" in said


def test_what_cannot_be_taught_is_refused_to_a_run_that_goes_on(tmp_path):
    (tmp_path / "text").write_text("the cat sat on the mat and the dog ran home\n" * 20)
    (tmp_path / "recipe.toml").write_text(WORDS.format(text=tmp_path / "text", kind="words"))
    begun = run(read_recipe(tmp_path / "recipe.toml"), tmp_path / "run")
    next(event for event in begun if isinstance(event, Step))
    begun.close()
    other = read_recipe(tmp_path / "recipe.toml", ["training.r_drop=1.0"])
    with pytest.raises(RecipeError, match="compares two passes over the same text"):
        list(run(other, tmp_path / "run", resume=True))
    assert (tmp_path / "run" / "corpus").exists()


def test_what_cannot_be_taught_is_told_before_anything_is_read(tmp_path, capsys):
    (tmp_path / "recipe.toml").write_text(WORDS.format(text=tmp_path / "gone", kind="bpe"))
    asked = ["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run")]
    assert main([*asked, "--set", "training.r_drop=1.0"]) == 2
    assert "each pass hides other words (model.task = 'words'). Leave it" in capsys.readouterr().err
    assert main([*asked, "--set", "model.task=vectors"]) == 2
    assert "model.task = 'vectors' has no head, and so nothing to" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_hidden_words_have_no_exact_match_since_nothing_is_asked_of_whole_texts(tmp_path, capsys):
    (tmp_path / "text").write_text("the cat sat on the mat and the dog ran home\n" * 20)
    (tmp_path / "recipe.toml").write_text(WORDS.format(text=tmp_path / "text", kind="bpe"))
    asked = ["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run")]
    assert main([*asked, "--set", "training.stop_on=bleu"]) == 2
    assert "score whole texts, but this model guesses hidden words" in capsys.readouterr().err
    assert main(asked) == 0
    said = capsys.readouterr()
    assert "validation loss" in said.out + said.err
    for place in ("card.md", "metrics.jsonl", "report.html"):
        written = (tmp_path / "run" / place).read_text()
        assert "xact match" not in written and 'exact_match": 1' not in written
    assert main(["verify", str(tmp_path / "run")]) == 0


def test_a_plan_knows_encoders(tmp_path, capsys):
    (tmp_path / "text").write_text("the cat sat on the mat\n" * 20)
    (tmp_path / "recipe.toml").write_text(WORDS.format(text=tmp_path / "text", kind="bpe"))
    assert main(["plan", str(tmp_path / "recipe.toml")]) == 0
    assert "parameters" in capsys.readouterr().out


def test_a_kind_that_comes_with_published_models_is_not_learned(tmp_path, capsys):
    (tmp_path / "text").write_text("the cat sat on the mat\n" * 20)
    (tmp_path / "recipe.toml").write_text(WORDS.format(text=tmp_path / "text", kind="wordpiece"))
    assert main(["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run")]) == 2
    assert "is not learned here" in capsys.readouterr().err


TREES = """\
[data]
train = {{ name = "conllu", path = "{path}", has_trees = true }}
valid = {{ name = "conllu", path = "{path}", has_trees = true }}

[tokens]
kind = "{kind}"
size = 60
is_joint = false

[model]
kind = "encoder"
task = "tags"
positions = "{positions}"
relation = {{ name = "structural", clip = 4 }}
d_model = 32
n_heads = 2
d_hidden = 32
n_layers = 1
max_len = 31
dropout = 0.0

[training]
steps = 80
learning_rate = 5e-3
target_tokens_per_update = 128
warmup_steps = 5
validate_every = 80
label_smoothing = 0.0
"""


def chain(length):
    """A made-up sentence of one word again and again, each word tagged by how deep it hangs."""
    heads = [0, *range(1, length)] if length % 2 else [*range(2, length + 1), 0]
    depths = list(range(length)) if length % 2 else list(range(length - 1, -1, -1))
    rows = [f"{i + 1}\tx\tx\tD{depths[i]}\t_\t_\t{heads[i]}\tdep\t_\t_" for i in range(length)]
    return "\n".join(rows) + "\n\n"


def test_a_tagger_that_knows_trees_learns_what_words_alone_do_not_tell(tmp_path):
    (tmp_path / "trees.conllu").write_text("".join(chain(2 + i % 4) for i in range(40)))
    text = TREES.format(path=tmp_path / "trees.conllu", kind="parsed_words", positions="tree_depth")
    one = trained(tmp_path, text)
    said = one.predict(["x↑0 x↑1 x↑2", "x↑2 x↑3 x↑4 x↑0", "x↑2 x↑0"])
    assert [each.text for each in said] == ["D0 D1 D2", "D3 D2 D1 D0", "D1 D0"]


def test_words_without_trees_are_refused_by_a_model_that_knows_them(tmp_path, capsys):
    (tmp_path / "trees.conllu").write_text(chain(3))
    text = TREES.format(path=tmp_path / "trees.conllu", kind="words", positions="sinusoidal")
    (tmp_path / "recipe.toml").write_text(text)
    assert main(["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run")]) == 2
    assert "tokens.kind must be 'parsed_words', got 'words'" in capsys.readouterr().err
