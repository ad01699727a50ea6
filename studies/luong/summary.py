"""What docs/luong.md is made of: the results of studies/luong/study.py without the translations.

    python -m studies.luong.summary RESULTS.jsonl --gold data/alignment --out results.json
    python -m studies.luong.summary COSTS.jsonl --into results.json --out results.json \
        --german german.jsonl --gold data/alignment

Of every system and seed it keeps scores, losses and alignment errors; of every system what it
costs; of the systems of one data set which differ beyond chance, and BLEU by length of the source.
The test texts are those of the recipes; --test STUDY SOURCE TARGET says where else they are. With
--into a summary stays as it is but for the costs, which are those of the lines given; --german and
--tagging put the results of german.py and tagging.py into it.
"""

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from regard.data import Example, lines
from regard.evaluating import AlignmentCounts, Gold, Resampling, compare_pair
from regard.evaluating.comparison import by_length
from regard.evaluating.sacrebleu_metrics import measured_bleu, words
from regard.evaluating.score import MeasuredScore
from regard.evaluating.tokenizers import tokenizer_for
from regard.recipes.recipe import examples, read_recipe
from regard.runs.alignment import read_gold
from studies.luong.study import SHORT, SHORT_GERMAN, german_gold
from studies.side_by_side import rows_of

Row = Mapping[str, Any]
RECIPES = Path(__file__).parents[2] / "recipes"
SEED = 1
"""The seed of which every system has a run, by which systems are compared."""
COSTS = ("parameters", "operations_per_word", "words_per_second", "peak_bytes")
QUESTIONS: Mapping[str, Sequence[tuple[str, str]]] = {
    "multi30k": (
        ("no attention", "general, soft"),
        ("location, soft", "general, soft"),
        ("general, soft", "general, local_monotonic"),
        ("general, soft", "general, local_predictive"),
        ("general, soft", "general, soft, fed"),
        ("general, local_predictive", "general, local_predictive, fed"),
        ("general, soft", "general, soft, both ways"),
        ("general, soft, both ways", "general, soft, both ways, fed"),
        ("general, soft, both ways, fed", "general, soft, both ways, fed, covered"),
        ("general, soft, both ways, fed, covered", "transformer"),
        ("general, soft, both ways, fed, covered", "convolution"),
    ),
    "hansards": (
        ("general, soft", "general, local_predictive"),
        ("general, soft", "general, soft, both ways"),
        ("general, soft, both ways", "general, soft, both ways, fed"),
        ("general, soft, both ways", "transformer"),
    ),
}
"""Pairs that answer what was asked, whatever their places in the ranking."""
BY_LENGTH = ("no attention", "general, soft")
"""Systems whose BLEU is shown by length, before the best."""


def summary(
    rows: Iterable[Row],
    tests: Mapping[str, Sequence[Example]],
    resampling: Resampling = Resampling(),  # noqa: B008 - it is frozen
) -> dict[str, Any]:
    """All that is kept of these result lines.

    Args:
        rows: lines of results.jsonl, learned and timed.
        tests: for each data set the sentences that were translated, with their references.
        resampling: how often the tests of significance draw.
    """
    found = list(rows)
    learned = [row for row in found if "seed" in row]
    return {
        "signatures": one_of(row["signatures"] for row in learned),
        "resampling": asdict(resampling),
        "studies": {
            study: study_of([row for row in found if row["study"] == study], test, resampling)
            for study, test in tests.items()
        },
    }


def study_of(rows: Sequence[Row], test: Sequence[Example], how: Resampling) -> dict[str, Any]:
    """The systems of one data set, the best by BLEU first, and how they differ."""
    said = {row["system"]: row["hypotheses"] for row in rows if row.get("seed") == SEED}
    references = [list(example.targets) for example in test]
    bleus = {name: measured_bleu(texts, references) for name, texts in said.items()}
    ranked = sorted(bleus, key=lambda name: -bleus[name].score.value)
    asked = QUESTIONS[one_of(row["study"] for row in rows)]
    return {
        "sentences": len(test),
        "systems": {
            name: system([row for row in rows if row["system"] == name]) for name in ranked
        },
        "neighbours": [against(bleus, better, worse, how) for better, worse in pairwise(ranked)],
        "questions": [
            against(bleus, one, other, how) for one, other in asked if {one, other} <= set(ranked)
        ],
        "by_length": lengths(
            {name: bleus[name] for name in dict.fromkeys([*BY_LENGTH, ranked[0]])},
            [example.source for example in test],
        ),
    }


def system(rows: Sequence[Row]) -> dict[str, Any]:
    """One system: its cost, where it was measured, and every run."""
    runs = sorted((row for row in rows if "seed" in row), key=lambda row: row["seed"])
    timed = [row for row in rows if "seed" not in row]
    return {
        **{key: row[key] for row in timed for key in COSTS},
        "runs": {str(row["seed"]): one_run(row) for row in runs},
    }


def with_costs(found: dict[str, Any], rows: Iterable[Row]) -> dict[str, Any]:
    """A summary with what these lines say that its systems take."""
    costs = {(row["study"], row["system"]): row for row in rows if "seed" not in row}
    for study, kept in found["studies"].items():
        for name, one in kept["systems"].items():
            measured = {**one, **costs.get((study, name), {})}
            kept["systems"][name] = {
                **{key: measured[key] for key in COSTS if key in measured},
                **{key: value for key, value in one.items() if key not in COSTS},
            }
    return found


def german(rows: Sequence[Row], gold: Path) -> dict[str, Any]:
    """The models that learned from Tatoeba: every run, the best of each row, and no model."""
    sides = (lines(gold / "de-en" / f"test.{language}") for language in ("en", "de"))
    pairs = list(zip(*sides, strict=True))
    kinds = dict.fromkeys(row["system"] for row in rows)
    return {
        "sentences": {part: one_of(_counts(rows, part)) for part in ("all", "short")},
        "systems": {
            kind: {
                "parameters": one_of(row["parameters"] for row in rows if row["system"] == kind),
                "runs": {
                    str(row["seed"]): {
                        **row["scores"],
                        "losses": [[step, round(loss, 5)] for step, loss in row["losses"]],
                        "alignment": {
                            part: {**errors(found), "best_of_row": rates_of_rows(found)}
                            for part, found in row["alignment"].items()
                        },
                    }
                    for row in sorted(rows, key=lambda row: row["seed"])
                    if row["system"] == kind
                },
            }
            for kind in kinds
        },
        "by_place": by_place(pairs, german_gold(gold / "de-en" / "de-en.wa"), SHORT_GERMAN),
        "signatures": one_of(row["signatures"] for row in rows),
    }


def _counts(rows: Iterable[Row], part: str) -> Iterable[int]:
    return (row["alignment"][part]["sentences"] for row in rows)


def rates_of_rows(found: Row) -> dict[str, dict[str, Any]]:
    """For each row the head that the odd lines choose, and its errors on both halves."""
    return {
        row: {
            "layer": best["layer"], "head": best["head"],
            "odd_lines": best["chosen_on"]["error_rate"],
            "even_lines": best["reported_on"]["error_rate"],
        }
        for row, best in found["best_of_row"].items()
    }  # fmt: skip


def one_run(row: Row) -> dict[str, Any]:
    """Scores, losses by update, target tokens of an update, and alignment errors of one run."""
    return {
        **row["scores"],
        "losses": [[step, round(loss, 5)] for step, loss in row["losses"]],
        "tokens_per_update": row["target_tokens"] / row["losses"][-1][0],
        "alignment": {part: errors(found) for part, found in row["alignment"].items()},
    }


def errors(found: Row) -> dict[str, Any]:
    """Alignment errors of the head that the odd lines choose, and of the means."""
    best = found["best_head"]
    places = ("layer", "head", "row")
    rates = {tuple(view[key] for key in places): view["error_rate"] for view in found["views"]}
    predicting = {key[:2]: rate for key, rate in rates.items() if key[2] == "predicting"}
    chosen = tuple(best[key] for key in places)
    return {
        "sentences": found["sentences"],
        "heads": len([key for key in predicting if None not in key]),
        "layer": best["layer"], "head": best["head"], "row": best["row"],
        "odd_lines": best["chosen_on"]["error_rate"],
        "even_lines": best["reported_on"]["error_rate"],
        "all_lines": rates[chosen],
        "best_layer_mean": min(
            rate for (layer, head), rate in predicting.items() if layer and head is None
        ),
        "mean_of_all": predicting[None, None],
    }  # fmt: skip


def against(
    bleus: Mapping[str, MeasuredScore], first: str, second: str, how: Resampling
) -> dict[str, Any]:
    """The second system's BLEU minus the first's, and how sure one may be of it."""
    found = compare_pair(bleus[first], bleus[second], how)
    return {
        "first": first, "second": second, "difference": found.value,
        "interval": [found.interval.low, found.interval.high],
        "p_bootstrap": found.p_bootstrap, "p_randomisation": found.p_randomisation,
    }  # fmt: skip


def lengths(bleus: Mapping[str, MeasuredScore], sources: Sequence[str]) -> dict[str, Any]:
    """BLEU of some systems by words of the source, in classes of about equal size."""
    tokenizer = tokenizer_for([[source] for source in sources]).name
    classes = by_length(list(bleus.values()), [len(text) for text in words(sources, tokenizer)])
    return {
        "labels": [each.label for each in classes],
        "sentences": [each.count for each in classes],
        "systems": {
            name: [each.values[place] for each in classes] for place, name in enumerate(bleus)
        },
    }


def by_place(
    pairs: Sequence[tuple[str, str]], golds: Sequence[Gold], short: int = SHORT
) -> dict[str, float]:
    """Alignment errors of links that no model drew: each word to the word at the same share."""
    counts = {"all": AlignmentCounts(), "short": AlignmentCounts()}
    for (source, target), gold in zip(pairs, golds, strict=True):
        n, m = len(source.split()), len(target.split())
        straight = AlignmentCounts.of(
            frozenset(((2 * j + 1) * n // (2 * m), j) for j in range(m)), gold
        )
        counts["all"] += straight
        if n <= short:
            counts["short"] += straight
    return {part: count.error_rate for part, count in counts.items()}


def french_by_place(gold: Path) -> dict[str, float]:
    """The same of the English-French gold sentences."""
    text = (gold / "enfr.src-tgt").read_text().splitlines()
    pairs = [(source, target) for source, _, target in (line.partition("|||") for line in text)]
    golds = read_gold(gold / "enfr.gold", sentences=len(pairs), kind="pharaoh", first=1)
    return by_place(pairs, golds)


def tagging(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """The accuracies of each system by seed, the best mean first."""
    found: dict[str, dict[str, float]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        found.setdefault(row["system"], {})[str(row["seed"])] = row["accuracy"]
    return dict(sorted(found.items(), key=lambda one: -mean(one[1].values())))


def written(found: Mapping[str, Any]) -> str:
    """JSON in which a list of plain values takes one line."""
    text = json.dumps(found, indent=1, ensure_ascii=False)
    return re.sub(r"\[[^\[\]{}]*\]", lambda one: " ".join(one[0].split()), text) + "\n"


def one_of(values: Iterable[Any]) -> Any:
    """The one that they all are."""
    first, *others = values
    if any(other != first for other in others):
        raise SystemExit(f"summary: expected one and the same, got {[first, *others]}.")
    return first


def read_test(study: str, places: Sequence[str]) -> list[Example]:
    """The test split of a data set's recipe, from other files where some are given."""
    given = zip(("source", "target"), places, strict=False)
    changes = [f"data.test.{side}={place}" for side, place in given]
    data = read_recipe(RECIPES / f"{study}-luong.toml", changes).data
    assert data.test is not None
    return list(examples(data.test, "test")())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="results.jsonl of studies/luong/study.py.")
    parser.add_argument("--test", nargs=3, action="append", default=[], help="Study and files.")
    parser.add_argument("--into", type=Path, help="A summary whose costs alone are to change.")
    parser.add_argument("--gold", type=Path, help="The folder of the gold alignments.")
    parser.add_argument("--german", type=Path, help="german.jsonl; needs --gold.")
    parser.add_argument("--tagging", type=Path, help="results.jsonl of tagging.py.")
    parser.add_argument("--out", type=Path, required=True, help="Where the summary goes.")
    given = parser.parse_args()
    rows = rows_of(given.results)
    if given.into is not None:
        found = with_costs(json.loads(given.into.read_text()), rows)
    else:
        elsewhere = {study: places for study, *places in given.test}
        studies = dict.fromkeys(row["study"] for row in rows)
        tests = {study: read_test(study, elsewhere.get(study, [])) for study in studies}
        found = summary(rows, tests)
        if given.gold is not None:
            found["alignment_by_place"] = french_by_place(given.gold)
    if given.german is not None:
        found["german"] = german(rows_of(given.german), given.gold)
    if given.tagging is not None:
        found["tagging"] = tagging(rows_of(given.tagging))
    given.out.write_text(written(found))


if __name__ == "__main__":
    main()
