"""The shell's side: what the verbs print, what they refuse, and with which exit code."""

import importlib
import json
import os
import sys

import pytest

from regard.bench import measure
from regard.catalogue import mechanisms
from regard.cli import main


def _json(capsys, *words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_list_names_every_mechanism_with_paper_equation_and_cost(capsys):
    entries = _json(capsys, "list")
    assert [entry["name"] for entry in entries] == [m.name for m in mechanisms()]
    for entry in entries:
        assert all(entry[field] for field in ("kind", "name", "paper", "equation", "cost"))
        assert "\n" not in entry["equation"]


def test_list_shows_one_kind_when_asked(capsys):
    assert main(["list", "--kind", "memory"]) == 0
    shown = capsys.readouterr().out
    assert "linformer" in shown
    assert "additive" not in shown


@pytest.mark.parametrize("name", [m.name for m in mechanisms()])
def test_explain_shows_equation_settings_cost_and_a_drawing(name, capsys):
    assert main(["explain", name, "--queries", "256"]) == 0
    shown = capsys.readouterr().out
    (entry,) = [m for m in mechanisms() if m.name == name]
    assert entry.equation.splitlines()[0] in shown
    assert entry.cost in shown
    assert all(setting in shown for setting in entry.settings)
    assert "on 16 positions" in shown


def test_explain_says_the_path_for_the_sizes_given(capsys):
    plan = _json(capsys, "explain", "sliding_window:size=64", "--queries", "4096")["path"]
    assert plan["name"] == "sparse"
    assert plan["share_of_dense"] < 0.1
    plan = _json(capsys, "explain", "soft", "--queries", "100", "--keys", "7")["path"]
    assert plan["name"] == "fused"


def test_explain_takes_settings_after_the_name(capsys):
    assert _json(capsys, "explain", "top_k:count=5")["settings"]["count"] == "5"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("convolution:foo=3", "'convolution' has no setting 'foo'; it takes kernel=3, dilation=1,"),
        ("sinusoidal:foo=2", "'sinusoidal' has no setting 'foo'; it takes no settings."),
        ("paths:window=9", "'paths' has no setting 'window'; it takes no settings."),
    ],
)
def test_explain_refuses_settings_that_there_are_not(name, said, capsys):
    assert main(["explain", name]) == 2
    assert said in capsys.readouterr().err


def test_explain_says_by_which_settings_it_draws(capsys):
    drawn = {"sliding_window:size=6": "size = 2", "convolution:kernel=9": "its own settings"}
    for name, settings in drawn.items():
        assert main(["explain", name]) == 0
        assert f"across), drawn with {settings}:" in capsys.readouterr().out


def test_worked_gives_every_number_of_the_example(capsys):
    got = _json(capsys, "explain", "worked")
    _close(got["scores"], [[14, 10, 9], [10, 11, 6], [9, 6, 6]])
    _close(got["context"], [[1, 2.957691, 2.011295], [1, 1.540148, 2.722573], [1, 2.864164, 2]])
    _close(
        got["scaled"]["context"],
        [[1, 2.779756, 2.037715], [1, 1.728771, 2.583896], [1, 2.607958, 2]],
    )
    _close(
        got["cross"]["weights"],
        [[0.090031, 0.665241, 0.244728], [0.487856, 0.487856, 0.024289],
         [0.155362, 0.422319, 0.422319]],
    )  # fmt: skip
    _close(got["cross"]["inputs"], [[2, 0, 2], [1, 1, 2], [5 / 3, 4 / 3, 2 / 3]])
    assert {"inputs", "weights"} <= set(got)
    assert {"weights", "scores"} <= set(got["scaled"])
    assert {"context"} <= set(got["cross"])


def _close(got, want):
    for row, wanted in zip(got, want, strict=True):
        assert row == pytest.approx(wanted, abs=1e-6)


def test_the_worked_example_as_text_shows_the_same_numbers(capsys):
    assert main(["explain", "worked"]) == 0
    shown = capsys.readouterr().out
    assert all(number in shown for number in ("2.957691", "2.779756", "0.665241", "我"))


def test_scaling_measures_that_unscaled_scores_saturate(capsys):
    rows = _json(capsys, "explain", "scaling")["rows"]
    by = {(row["width"], row["scaled"]): row for row in rows}
    for width in (4, 16, 64, 256, 1024):
        assert by[width, False]["variance"] == pytest.approx(width, rel=0.1)
        assert by[width, True]["variance"] == pytest.approx(1, rel=0.1)
        assert by[width, True]["gradient"] == pytest.approx(0.96, abs=0.01)
    assert by[64, False]["largest_weight"] == pytest.approx(0.79, abs=0.02)
    assert by[1024, False]["gradient"] == pytest.approx(0.076, abs=0.01)


def test_paths_counts_layers_until_the_ends_meet(capsys):
    words = ("explain", "paths", "--length", "101", "--window", "5", "--width", "64")
    rows = {row["name"]: row for row in _json(capsys, *words)["rows"]}
    assert rows["attention"]["layers"] == 1
    assert rows["recurrence"]["steps"] == 101
    assert rows["convolution, window 5"]["layers"] == 50
    assert rows["causal convolution, window 5"]["layers"] == 25
    assert rows["dilated convolution, window 5"]["layers"] == 6
    assert rows["attention"]["multiply_adds"] == 2 * 101 * 101 * 64


MISTAKES = {
    "explain aditive": "Did you mean 'additive'",
    "explain multi_head --heads 3 --width 64": r"n_heads (3) must divide d_model (64)",
    "explain top_k:count=0": "top_k: count must be at least 1, got 0",
    "explain top_k:count=many": "'top_k': count must be int, got 'many'",
    "explain top_k:size=3": "'top_k' has no setting 'size'; it takes count: int = 8",
    "explain soft:temperature=nan": "'soft': temperature must be a finite number, got nan",
    "explain feed_forward:dropout=x": "'feed_forward': dropout must be float, got 'x'",
    f"explain soft --queries {10**25}": "--queries must be at most 1000000000000, got '1000",
    "explain worked --queries 5": "explain: 'worked' takes no sizes; got --queries 5, which would "
    "change nothing. Leave it out.",
    "explain worked --length 7": "'worked' takes no sizes; got --length 7",
    "explain scaling --heads 3": "'scaling' takes no sizes; got --heads 3",
    "explain paths --queries 7": "'paths' takes --length, --window, --width; got --queries 7",
    "explain soft --window 7": "'soft' takes --queries, --keys, --heads, --width; got --window 7",
    "explain soft --heads x": "regard: explain: --heads must be a whole number, got 'x'. Give one "
    "that is, such as --heads 1.",
    "explain sliding_window --size 3": "regard: explain: there is no option --size. Settings "
    "follow the mechanism's name: regard explain sliding_window:size=3",
    "explain --sise=3 sliding_window": "explain: there is no option --sise. regard explain --help",
    "explain --size sliding_window": "the mechanism's name: regard explain sliding_window:size",
    "explain": "regard: explain: NAME is missing: a mechanism (regard list), or a lesson: worked, "
    "scaling, paths. Write, for instance: regard explain sliding_window --queries 4096",
    "predict R --beam x": "predict: --beam must be a whole number, got 'x'. Give one that is, "
    "such as --beam 5.",
    "predict R --length-penalty x": "predict: --length-penalty must be a number, got 'x'. Give one "
    "that is, such as --length-penalty 0.6.",
    "predict R --bem 3": "predict: there is no option --bem. Did you mean --beam",
    "predict R --dev": "there is no option --dev. Did you mean --device? regard predict --help",
    "look R a --head x": "look: --head must be a whole number, got 'x'.",
    "look R a --layer 0": "look: --layer must be at least 1, got '0'. Give one that is, such as "
    "--layer 1.",
    "serve --port x": "serve: --port must be a whole number, got 'x'. Give one that is, such as "
    "--port 8000.",
    "serve --port 99999": "serve: --port must be at most 65535, got '99999'.",
    "demo --steps 0": "demo: --steps must be at least 1, got '0'. Give one that is, such as",
    "demo --steps": "demo: --steps expects a value, got none. Write one behind it; regard demo",
    "list --json=3": "list: --json takes no value, got one. Write --json alone.",
    "list selection": "list: expected no argument, got 'selection'. Write regard list --kind selec",
    "list all": "list: expected no argument, got 'all'. Leave it out, or see regard list --help.",
    "train a b --out c": "train: expected no argument but RECIPE, got 'b'. Leave it out, or see",
    "train a": "train: --out is missing: the run directory to make; never overwritten. Write,",
    "train a runs/b": "never overwritten. Did you mean --out runs/b?",
    "train a -o b": "train: there is no option -o. Did you mean --out? regard train --help",
    "train a -h": "train: there is no option -h. Did you mean --help?",
    "-h": "regard: there is no option -h. Did you mean --help? regard --help lists the options.",
    "hlep": "regard: there is no verb 'hlep'. Write regard --help.",
    "train a --out b --seed 3": "there is no option --seed. Settings of a recipe are changed by "
    "--set training.seed=3.",
    "plan a --lr=0.1": "there is no option --lr. It is called 'learning_rate'. Settings of a "
    "recipe are changed by --set training.learning_rate=0.1.",
    "train a --out b --batch-size 9": "batches are counted in tokens, so that long texts "
    "fit too. Settings of a recipe are changed by --set training.target_tokens_per_batch=VALUE.",
    "train a --out b --set training.steps 10": "got '10'. Write --set training.steps=10.",
    "list scores": "list: expected no argument, got 'scores'. Write regard list --kind score",
    "explain additive --d-hidden 7": "regard explain additive:d_hidden=7",
    "--foo": "regard: there is no option --foo. regard --help lists the options.",
    "explain top_k:count": "'count' is not a setting. Write top_k:KEY=VALUE",
    "explain grouped_query:n_groups=3": "n_groups (3) must divide n_heads (8)",
    "explain paths --length 1": "length and window of at least 2",
    "list --kind scores": "list: --kind: There is no 'scores' here. Did you mean 'score'",
    "bench attention --lengths 1,x": "--lengths takes whole numbers separated by commas, got '1,x'",
    "bench attention --only softt": "bench: --only: There is no 'softt' here. Did you mean 'soft'",
    "bench atention": "Did you mean 'attention'",
}


@pytest.mark.parametrize(("words", "text"), MISTAKES.items())
def test_a_mistake_exits_with_2_and_says_what_to_do(words, text, capsys):
    assert main(words.split()) == 2
    said = capsys.readouterr()
    assert text in said.err
    assert said.err.startswith("regard: ")
    assert said.err.count("\n") <= 2
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize("words", ["explain", "explain --queries 0 soft", "nonsense", "list --x"])
def test_a_malformed_command_line_exits_with_2_and_no_traceback(words, capsys):
    assert main(words.split()) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["list", "explain", "bench", "train", "doctor"])
def test_every_verb_has_help_with_an_example(verb, capsys):
    assert main([verb, "--help"]) == 0
    assert f"Example: regard {verb}" in capsys.readouterr().out


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip().count(".") == 2


@pytest.fixture
def few_repeats(monkeypatch):
    monkeypatch.setattr(measure, "BUDGET_S", 0.0)


@pytest.mark.processes
@pytest.mark.usefixtures("few_repeats")
def test_bench_checks_measures_and_reports_ratios(capsys, tmp_path):
    out = tmp_path / "bench.json"
    words = "bench attention --lengths 64 --only soft,big_bird,linformer,rotary"
    assert main([*words.split(), "--out", str(out)]) == 0
    assert "n = 64" in capsys.readouterr().out
    rows = {row["name"]: row for row in json.loads(out.read_text())["rows"]}
    assert set(rows) >= {"dense", "sdpa", "soft", "big_bird", "linformer", "rotary"}
    assert rows["dense"]["speed_up"] == 1.0
    for row in rows.values():
        assert row["problem"] is None
        assert row["both_s"] >= row["forward_s"] > 0 or row["both_s"] > 0
        assert row["both_bytes"] > 0


@pytest.mark.processes
@pytest.mark.usefixtures("few_repeats")
def test_bench_says_what_does_not_fit(monkeypatch, capsys):
    bench = importlib.import_module("regard.cli.bench")
    monkeypatch.setattr(bench, "free_memory", lambda: 1 << 28)
    assert main(["bench", "attention", "--lengths", "2048", "--only", "soft"]) == 0
    rows = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line]
    told = {name: rest for name, rest in rows if name in ("dense", "soft")}
    assert told["dense"] == "too large (0.1 GiB in one piece)"
    assert "MiB" in told["soft"]


@pytest.mark.parametrize(
    ("platform", "given", "expected"),
    [
        ("linux", {}, "expandable_segments:True"),
        ("win32", {}, None),
        ("linux", {"PYTORCH_ALLOC_CONF": "backend:native"}, "backend:native"),
        ("linux", {"PYTORCH_CUDA_ALLOC_CONF": "backend:native"}, None),
    ],
)
def test_memory_on_gpus_grows_in_place_unless_somebody_chose_otherwise(
    monkeypatch, platform, given, expected
):
    chosen = dict.fromkeys(("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")) | given
    for name, value in chosen.items():
        # set first, so that what the verb leaves behind is taken away afterwards
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "platform", platform)
    assert main(["--version"]) == 0
    assert os.environ.get("PYTORCH_ALLOC_CONF") == expected
