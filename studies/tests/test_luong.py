"""The page on Luong's mechanisms says what was measured."""

import json
import math
import re
from pathlib import Path
from statistics import mean

import pytest

from studies.luong.study import SCORES, SELECTIONS, SYSTEMS
from studies.luong.summary import one_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "luong.md").read_text()
PROSE = " ".join(line for line in PAGE.splitlines() if not line.startswith("|"))
PROSE = " ".join(PROSE.replace("*", "").split())
KEPT = json.loads((ROOT / "studies" / "luong" / "results.json").read_text())
CAPTIONS, DEBATES = KEPT["studies"]["multi30k"], KEPT["studies"]["hansards"]
FED, UNFED = "general, soft, both ways, fed", "general, soft, both ways"
COVERED = "general, soft, both ways, fed, covered"


def _run(name, study=CAPTIONS):
    return study["systems"][name]["runs"]["1"]


def _loss(name, step, study=CAPTIONS):
    return dict(_run(name, study)["losses"])[step]


def _pair(first, second, study=CAPTIONS):
    found = [p for p in study["questions"] if (p["first"], p["second"]) == (first, second)]
    return one_of(found)


def _mean(name):
    return mean(run["BLEU"] for run in CAPTIONS["systems"][name]["runs"].values())


def _spread(name):
    values = [run["BLEU"] for run in CAPTIONS["systems"][name]["runs"].values()]
    return max(values) - min(values)


def _errors(name, part="short", lines="all_lines"):
    return f"{_run(name, DEBATES)['alignment'][part][lines]:.2f}"[1:]


def _seconds(name):
    one = CAPTIONS["systems"][name]
    return 1400 * one["runs"]["1"]["tokens_per_update"] / one["words_per_second"]


def _speed(name):
    return CAPTIONS["systems"][name]["words_per_second"] / 1e6


def _gb(name):
    return CAPTIONS["systems"][name]["peak_bytes"] / 1e9


def _falls(name):
    values = CAPTIONS["by_length"]["systems"][name]
    return 1 - values[-1] / values[1]


def _change(first, second, study=CAPTIONS):
    return _pair(first, second, study)["difference"]


MONOTONIC, PREDICTIVE, SOFT = (
    f"general, {s}" for s in ("local_monotonic", "local_predictive", "soft")
)
SEVERAL = [name for name, one in CAPTIONS["systems"].items() if len(one["runs"]) > 1]
SAID = {
    "Attention is worth {:.0f} BLEU": [_change("no attention", SOFT)],
    "two seeds of one system can be {:.1f}": [max(map(_spread, SEVERAL))],
    "have a mean of {:.1f}, general, soft has {:.1f}": [_mean(MONOTONIC), _run(SOFT)["BLEU"]],
    "it is level with soft ({:.1f})": [_run("general, local_predictive, fed")["BLEU"]],
    "by {:.1f} BLEU with general (p = {:.3f})": [
        -_change(SOFT, PREDICTIVE), _pair(SOFT, PREDICTIVE)["p_randomisation"],
    ],
    "its loss is {:.2f} where that of soft is {:.2f}": [_loss(PREDICTIVE, 400), _loss(SOFT, 400)],
    "{:+.1f} BLEU one way and {:+.1f} both ways": [
        _change(SOFT, "general, soft, fed"), _change(UNFED, FED),
    ],
    "three seeds {:+.1f} one way and nothing both ways ({:.1f} and {:.1f})": [
        _mean("general, soft, fed") - _run(SOFT)["BLEU"], _mean(UNFED), _mean(FED),
    ],
    "helps local_predictive, by {:+.1f} BLEU (p = {:.3f})": [
        _change(PREDICTIVE, "general, local_predictive, fed"),
        _pair(PREDICTIVE, "general, local_predictive, fed")["p_randomisation"],
    ],
    "from {:.2f} to {:.2f} million tokens": [_speed(SOFT), _speed("general, soft, fed")],
    "the loss is {:.2f} instead of {:.2f}": [_loss("general, soft, fed", 400), _loss(SOFT, 400)],
    "by {:.1f} BLEU here and {:.1f} on the Hansards": [
        _change(SOFT, UNFED), _change(SOFT, UNFED, DEBATES),
    ],
    "of both ways are {:.1f} with the mean of three seeds": [_mean(UNFED) - _mean(SOFT)],
    "adds {:.1f} (p = {:.2f}), and {:.1f} in the mean": [
        _change(FED, COVERED), _pair(FED, COVERED)["p_randomisation"], _mean(COVERED) - _mean(FED),
    ],
    "by {:.1f} and {:.1f} BLEU": [_change(COVERED, "convolution"), _change(COVERED, "transformer")],
    "lead of {:.1f} is": [_change(UNFED, "transformer", DEBATES)],
    "by far the lowest, {:.2f}": [math.exp(_loss("transformer", 1400))],
    "that of the best recurrent ones, {:.2f}": [math.exp(_loss("Bahdanau", 1400))],
    "that of general, soft by {:.0f} %": [100 * _falls(SOFT)],
    "general, soft, both ways would take {:.1f} seconds": [_seconds(UNFED)],
    "Recurrent attention aligns, to {}": [_errors(UNFED, lines="even_lines")],
    "{} by its best head, {} by a layer's mean": [
        _errors("transformer", lines="even_lines"), _errors("transformer", lines="best_layer_mean"),
    ],
    "{} where general, soft, both ways has {}": [
        _errors("Bahdanau", lines="even_lines"), _errors(UNFED, lines="even_lines"),
    ],
    "its perplexity is lower ({:.2f} against {:.2f})": [
        math.exp(_loss(name, 1400, DEBATES)) for name in ("Bahdanau", UNFED)
    ],
    "had 35.4 where it has {:.1f} now": [_run("dot, local_predictive")["BLEU"]],
    "34.8 instead of {:.1f}, and on the Hansards 18.1 instead of {:.1f}": [
        _run(PREDICTIVE)["BLEU"], _run(PREDICTIVE, DEBATES)["BLEU"],
    ],
    "A BLEU of {:.1f}, and an AER of {}": [
        _run(PREDICTIVE, DEBATES)["BLEU"], _errors(PREDICTIVE),
    ],
    "No attention takes {:.2f} GB and general, soft {:.2f}": [_gb("no attention"), _gb(SOFT)],
    "through a layer, {:.2f} and {:.2f}; the most, {:.2f}": [
        _gb("additive, soft"), _gb("concat, soft"), _gb(UNFED),
    ],
    "words by their places alone ({:.2f})": [KEPT["alignment_by_place"]["short"]],
    "({} instead of {} on all 447)": [_errors(UNFED, "all"), _errors(SOFT, "all")],
    "({:.2f}, {:.2f}, {:.2f})": [_loss(PREDICTIVE, at, DEBATES) for at in (1000, 1200, 1400)],
}  # fmt: skip
"""What the page says in words, and the numbers in it."""


@pytest.mark.parametrize(("text", "numbers"), SAID.items(), ids=SAID)
def test_what_the_page_says_is_what_was_measured(text, numbers):
    assert text.format(*numbers).replace("-", "−").replace("(0.", "(.") in PROSE


def test_every_system_is_on_the_page_the_best_first():
    ranked = list(CAPTIONS["systems"])
    assert set(ranked) == set(SYSTEMS["multi30k"])
    assert ranked == sorted(ranked, key=lambda name: -_run(name)["BLEU"])
    rows = re.search(r"<!-- begin ranking -->(.*?)<!-- end", PAGE, re.DOTALL)[1]
    assert re.findall(r"^\| ([^|]+) \|", rows, re.MULTILINE) == ["system", *ranked]
    assert set(SYSTEMS["hansards"]) == set(DEBATES["systems"])


def test_the_orders_that_the_page_tells_of_are_those_of_the_numbers():
    grid = {s: {w: _run(f"{w}, {s}")["BLEU"] for w in SCORES} for s in SELECTIONS}
    for scores in grid.values():
        assert min(scores, key=scores.get) == "location"
    assert all(grid["local_predictive"][w] < grid["soft"][w] for w in SCORES)
    perplexities = [math.exp(_loss(f"{w}, soft", 1400)) for w in ("general", "concat", "additive")]
    assert max(perplexities) - min(perplexities) < 0.08
    still = [grid[s][w] for s in ("soft", "local_monotonic") for w in SCORES if w != "location"]
    assert max(still) - min(still) < 1.25
    assert min(_run(name)["BLEU"] for name in (FED, UNFED, COVERED)) - _run("Bahdanau")["BLEU"] > 1
    nothing = _run("no attention")["BLEU"]
    above = [scores["location"] - nothing for scores in grid.values()]
    assert (round(min(above)), round(max(above))) == (7, 11)
    sure = [pair["first"] for pair in CAPTIONS["neighbours"] if pair["p_randomisation"] < 0.05]
    assert sure == ["location, local_monotonic", "location, local_predictive"]
    assert 0.48 < _falls("no attention") < 0.52
    lengths = CAPTIONS["by_length"]["systems"]
    gaps = [b - a for a, b in zip(lengths["no attention"], lengths["general, soft"], strict=True)]
    assert 12 <= min(gaps) <= max(gaps) < 15
    for values in DEBATES["by_length"]["systems"].values():
        assert max(values) == values[-1]
    rows = {run["alignment"]["short"]["row"] for run in map(_aligned, DEBATES["systems"]) if run}
    assert rows == {"predicting"}
    for one in (*CAPTIONS["systems"].values(), *DEBATES["systems"].values()):
        for run in one["runs"].values():
            assert run["losses"][-1][1] - min(loss for _, loss in run["losses"]) < 0.0045


GERMAN = KEPT["german"]["systems"]


def _german(kind, get):
    return [get(run) for run in GERMAN[kind]["runs"].values()]


def _of_row(row):
    return lambda run: run["alignment"]["all"]["best_of_row"][row]["even_lines"]


def _short(rate):
    return f"{rate:.2f}"[1:]


def test_what_the_page_says_of_german_is_what_was_measured():
    first, second = map(_short, _german("transformer", _of_row("next")))
    assert f"aligns German too, to {first} and {second} on even lines" in PROSE
    first, second = map(_short, _german("luong", _of_row("predicting")))
    places = _short(KEPT["german"]["by_place"]["all"])
    said = f"not at all: {first} and {second}, where words linked by their places alone have"
    assert f"{said} {places}" in PROSE
    apart = _german("luong", _of_row("predicting"))
    assert f"two seeds are {_short(max(apart) - min(apart))} apart" in PROSE
    ends, others = (
        [f"{loss:.2f}" for loss in _german(kind, lambda run: run["losses"][-1][1])]
        for kind in ("luong", "transformer")
    )
    said = f"end at {ends[0]} and {ends[1]} where the Transformer's end at {others[0]}"
    assert f"{said} and {others[1]}" in PROSE
    early = [f"{loss:.2f}" for loss in _german("luong", lambda run: dict(run["losses"])[400])]
    assert f"after 400 updates the loss is {early[0]} and {early[1]}" in PROSE
    assert min(_german("transformer", _of_row("predicting"))) > 0.61
    for kind in GERMAN:
        for run in GERMAN[kind]["runs"].values():
            assert run["alignment"]["short"]["all_lines"] < run["alignment"]["all"]["all_lines"]
    for run in GERMAN["transformer"]["runs"].values():
        assert (run["alignment"]["all"]["row"], run["alignment"]["all"]["layer"] <= 2) == (
            "next", True,
        )  # fmt: skip
    assert KEPT["german"]["sentences"] == {"all": 100, "short": 49}


def _aligned(name):
    run = _run(name, DEBATES)
    return run if run["alignment"] else None


def test_the_page_gives_the_signatures_and_tags_only_what_was_tagged():
    for name, signature in KEPT["signatures"].items():
        assert f"{name} `{signature}`" in PROSE


def test_the_page_and_the_recipe_say_of_tags_what_was_measured():
    means = {name: mean(found.values()) for name, found in KEPT["tagging"].items()}
    best, *others, none = means
    assert (best, none) == ("local_monotonic, 1 word on each side", "no attention")
    assert others[-1] == "soft"
    assert means[best] - means["soft"] < 0.8
    recipe = " ".join((ROOT / "recipes" / "tagging-luong.toml").read_text().split())
    assert f"accuracy of {means[best]:.1f} %" in recipe
    assert (
        f"local_predictive # {means['local_predictive']:.1f}, soft {means['soft']:.1f})" in recipe
    )


def test_the_recipes_promise_what_was_measured():
    captions, debates = (
        " ".join((ROOT / "recipes" / f"{name}-luong.toml").read_text().split("[data]")[0].split())
        for name in ("multi30k", "hansards")
    )
    assert f"BLEU of {_run(FED)['BLEU']:.1f} on test_2016_flickr" in captions
    assert f"{_mean(FED):.1f} in the mean of three" in captions
    assert f"loss of {_loss(FED, 1400):.2f} nats" in captions
    german = [
        " ".join(
            (ROOT / "recipes" / f"tatoeba-{kind}.toml")
            .read_text()
            .split("[data]")[0]
            .replace("#", "")
            .split()
        )
        for kind in ("luong", "transformer")
    ]
    for kind, text in zip(GERMAN, german, strict=True):
        rates = [
            _short(rate) for rate in _german(kind, lambda run: run["alignment"]["all"]["all_lines"])
        ]
        assert f"rates of {rates[0]} and {rates[1]} on the 100 sentences" in text
        first, second = (f"{bleu:.1f}" for bleu in _german(kind, lambda run: run["BLEU"]))
        assert f"BLEU of {first} and {second} on the test split" in text
    assert f"rate of {_errors(FED)} on its 283 sentences" in debates
    assert f"({_errors(FED, 'all')} on all" in debates
    assert f"BLEU of {_run(FED, DEBATES)['BLEU']:.1f} on the test split" in debates
    assert f"loss of {_loss(FED, 1400, DEBATES):.2f} nats" in debates
