"""The tables and pictures of docs/luong.md, from the numbers in results.json."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

from regard.plots.charts import bars, curves
from studies.pictures import picture
from studies.tables import table

DOCS = Path(__file__).parents[2] / "docs"
RESULTS = Path(__file__).with_name("results.json")
SCORES = ("dot", "general", "concat", "additive", "location")
SELECTIONS = ("soft", "local_monotonic", "local_predictive")
PAPER: Mapping[tuple[str, str], tuple[float | None, float]] = {
    ("dot", "soft"): (18.6, 6.1),
    ("dot", "local_monotonic"): (None, 7.0),
    ("dot", "local_predictive"): (18.0, 6.6),
    ("general", "soft"): (17.3, 6.1),
    ("general", "local_monotonic"): (18.6, 6.2),
    ("general", "local_predictive"): (19.0, 5.9),
    ("concat", "soft"): (None, 6.7),
    ("concat", "local_monotonic"): (None, 7.1),
    ("concat", "local_predictive"): (None, 7.1),
    ("location", "soft"): (18.1, 6.4),
}
"""BLEU, where it is printed, and perplexity: table 4 of Luong, Pham & Manning 2015; concat from
what they say below it."""
KINDS = {
    "recurrent": "general, soft, both ways, fed",
    "convolution": "convolution",
    "Transformer": "transformer",
}
"""Systems of about equal size, and what their lines are called."""
GERMAN = {"luong": "recurrent", "transformer": "Transformer"}
ROWS = ("predicting", "next")
MEANS = {"best_layer_mean": "best layer's mean", "mean_of_all": "mean of all heads"}
SEED = "1"
SMALLEST = 0.001


def results() -> dict:
    return json.loads(RESULTS.read_text())


def tables() -> dict[str, str]:
    """What stands between each pair of marks."""
    found = results()
    small, aligned = found["studies"]["multi30k"], found["studies"]["hansards"]
    made = {
        "grid": grid(small["systems"]),
        "paper": paper(),
        "ranking": ranking(small),
        "seeds": seeds(small["systems"]),
        "questions": questions(found),
        "lengths": lengths(small["by_length"]),
        "kinds": kinds(small["systems"]),
        "hansards": hansards(aligned, found["alignment_by_place"]),
    }
    if "tagging" in found:
        made["tagging"] = tagging(found["tagging"])
    if "german" in found:
        made["german"] = german(found["german"])
    return made


def grid(systems: Mapping) -> str:
    rows = [
        [score, *(_three(systems[f"{score}, {select}"]["runs"][SEED]) for select in SELECTIONS)]
        for score in SCORES
    ]
    return table(["score", *SELECTIONS], rows)


def _three(run: Mapping) -> str:
    return f"**{run['BLEU']:.1f}** / {run['chrF2']:.1f} / {perplexity(run):.2f}"


def perplexity(run: Mapping) -> float:
    """Of the last validation."""
    return math.exp(run["losses"][-1][1])


def paper() -> str:
    rows = [[score, *(_two(PAPER.get((score, s))) for s in SELECTIONS)] for score in SCORES]
    return table(["score", *SELECTIONS], rows)


def _two(printed: tuple[float | None, float] | None) -> str:
    if printed is None:
        return "none"
    bleu, loss = printed
    return f"{'none' if bleu is None else f'**{bleu:.1f}**'} / {loss:.1f}"


def ranking(study: Mapping) -> str:
    after = {pair["first"]: pair for pair in study["neighbours"]}
    is_measured = any("peak_bytes" in one for one in study["systems"].values())
    rows = [
        [
            name,
            f"{one['runs'][SEED]['BLEU']:.1f}",
            f"{one['runs'][SEED]['chrF2']:.1f}",
            f"{perplexity(one['runs'][SEED]):.2f}",
            f"{one['parameters'] / 1e6:.1f}",
            f"{one['operations_per_word'] / 1e6:.0f}",
            f"{one['words_per_second'] / 1e6:.2f}",
            *_memory(one, is_shown=is_measured),
            *_to_next(after.get(name)),
        ]
        for name, one in study["systems"].items()
    ]
    head = ["system", "BLEU", "chrF2", "perplexity", "parameters, million"]
    head += ["MFLOP a token", "million tokens/s", *(["memory, GB"] if is_measured else [])]
    return table([*head, "to the next", "p"], rows)


def _memory(one: Mapping, *, is_shown: bool) -> list[str]:
    """The column of the most that was taken from the card, once there is one."""
    if not is_shown:
        return []
    return [f"{one['peak_bytes'] / 1e9:.2f}" if "peak_bytes" in one else ""]


def _to_next(pair: Mapping | None) -> list[str]:
    if pair is None:
        return ["", ""]
    return [_signed(pair["difference"]), _p(pair["p_randomisation"])]


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _p(value: float) -> str:
    # the bootstrap draws 1,000 times, and can give no less
    return f"< {SMALLEST}" if value < SMALLEST else f"{value:.3f}"


def seeds(systems: Mapping) -> str:
    several = {name: one["runs"] for name, one in systems.items() if len(one["runs"]) > 1}
    rows = [
        [
            name,
            *(f"{run['BLEU']:.1f}" for run in runs.values()),
            _spread([run["BLEU"] for run in runs.values()], 1),
            _spread([run["chrF2"] for run in runs.values()], 1),
            _spread([perplexity(run) for run in runs.values()], 2),
        ]
        for name, runs in several.items()
    ]
    numbers = [f"seed {seed}" for seed in next(iter(several.values()))]
    return table(["system", *numbers, "BLEU", "chrF2", "perplexity"], rows)


def _spread(values: Sequence[float], digits: int) -> str:
    return f"{mean(values):.{digits}f} ± {stdev(values):.{digits}f}"


def questions(found: Mapping) -> str:
    rows = [
        [
            study,
            pair["first"],
            pair["second"],
            _signed(pair["difference"]),
            " to ".join(_signed(end) for end in pair["interval"]),
            _p(pair["p_randomisation"]),
            _p(pair["p_bootstrap"]),
        ]
        for study, name in (("Multi30k", "multi30k"), ("Hansards", "hansards"))
        for pair in found["studies"][name]["questions"]
    ]
    sure = f"{100 * found['resampling']['confidence']:.0f} % interval"
    head = ["data", "from", "to", "BLEU", sure, "p, randomisation", "p, bootstrap"]
    return table(head, rows, names=3)


def lengths(found: Mapping) -> str:
    rows = [[name, *(f"{value:.1f}" for value in row)] for name, row in found["systems"].items()]
    counts = ["sentences", *map(str, found["sentences"])]
    return table(["words of the source", *found["labels"]], [counts, *rows])


def kinds(systems: Mapping) -> str:
    rows = []
    for kind, name in KINDS.items():
        one = systems[name]
        run = one["runs"][SEED]
        rows.append(
            [
                f"{kind}: *{name}*" if kind.lower() != name else kind,
                f"{one['parameters'] / 1e6:.1f}",
                f"{run['BLEU']:.1f}",
                f"{run['losses'][-1][1]:.2f}",
                f"{seconds(one)[-1][0]:.1f}",
            ]
        )
    return table(["kind", "parameters, million", "BLEU", "last loss", "seconds of updates"], rows)


def seconds(one: Mapping) -> list[tuple[float, float]]:
    """Losses by time: that of as many tokens at the speed of the system alone on the card."""
    run = one["runs"][SEED]
    each = run["tokens_per_update"] / one["words_per_second"]
    return [(step * each, loss) for step, loss in run["losses"]]


def hansards(study: Mapping, by_place: Mapping[str, float]) -> str:
    rows = []
    for name, one in study["systems"].items():
        run = one["runs"][SEED]
        scores = [f"{run['BLEU']:.1f}", f"{run['chrF2']:.1f}", f"{perplexity(run):.2f}"]
        rows.append([name, *scores, *_rates(run["alignment"])])
        if run["alignment"] and run["alignment"]["short"]["heads"] > 1:
            for key, words in MEANS.items():
                short, whole = (_rate(run["alignment"][part][key]) for part in ("short", "all"))
                rows.append([f"{name}, {words}", "", "", "", "", short, "", whole])
    short, whole = (_rate(by_place[part]) for part in ("short", "all"))
    rows.append(["no model: the word at the same share", "", "", "", "", short, "", whole])
    parts = [("short", "even lines"), ("short", "all"), ("any length", "even lines")]
    heads = [f"AER, {part}, {lines}" for part, lines in [*parts, ("any length", "all")]]
    return table(["system", "BLEU", "chrF2", "perplexity", *heads], rows)


def _rates(alignment: Mapping) -> list[str]:
    if not alignment:
        return [""] * 4
    return [
        _rate(alignment[part][lines])
        for part in ("short", "all")
        for lines in ("even_lines", "all_lines")
    ]


def _rate(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


def german(study: Mapping) -> str:
    rows = []
    for kind, one in study["systems"].items():
        for seed, run in one["runs"].items():
            whole, short = (run["alignment"][part] for part in ("all", "short"))
            rows.append(
                [
                    GERMAN[kind],
                    _view(whole),
                    seed,
                    f"{run['BLEU']:.1f}",
                    f"{run['losses'][-1][1]:.2f}",
                    *(_rate(whole["best_of_row"][row]["even_lines"]) for row in ROWS),
                    _rate(whole["all_lines"]),
                    _rate(short["even_lines"]),
                    _rate(short["all_lines"]),
                ]
            )
    short, whole = (_rate(study["by_place"][part]) for part in ("short", "all"))
    share = ["no model: the word at the same share", "", "", "", "", "", "", whole, "", short]
    head = ["system", "looks best", "seed", "BLEU", "loss"]
    head += [f"AER, even lines, {row} row" for row in ROWS]
    head += ["AER, all", "AER, short, even lines", "AER, short"]
    return table(head, [*rows, share], names=2)


def _view(found: Mapping) -> str:
    """The head that odd lines choose; the row alone where there is one head."""
    row = f"{found['row']} row"
    return row if found["heads"] == 1 else f"layer {found['layer']}, head {found['head']}, {row}"


def tagging(accuracies: Mapping[str, Mapping[str, float]]) -> str:
    runs = dict.fromkeys(seed for found in accuracies.values() for seed in found)
    rows = [
        [name, *(f"{found[seed]:.1f}" for seed in runs), _spread(list(found.values()), 1)]
        for name, found in accuracies.items()
    ]
    return table(["selection", *(f"seed {seed}" for seed in runs), "accuracy, %"], rows)


def pictures() -> dict[Path, str]:
    """Every picture of the page, with what its file should hold."""
    small = results()["studies"]["multi30k"]
    compared = {kind: small["systems"][name] for kind, name in KINDS.items()}
    by_update = {kind: one["runs"][SEED]["losses"] for kind, one in compared.items()}
    by_time = {kind: seconds(one) for kind, one in compared.items()}
    classes = small["by_length"]
    updates = "Validation loss by update, nats per target token"
    time = "Validation loss by time, nats per target token"
    long = "BLEU by words of the source, test_2016_flickr"
    drawn = {
        "loss": (curves(by_update, title=updates), updates, KINDS),
        "time": (
            curves(by_time, title=time, x_title="seconds of updates on one H200"), time, KINDS,
        ),
        "lengths": (
            bars(classes["labels"], classes["systems"], title=long, x_title="words"),
            long,
            classes["systems"],
        ),
    }  # fmt: skip
    return {
        DOCS / "img" / f"luong-{name}.svg": picture(figure, title, list(names))
        for name, (figure, title, names) in drawn.items()
    }
