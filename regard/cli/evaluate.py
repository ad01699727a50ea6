"""regard evaluate: how good a run is, in numbers that others can compute again."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from regard.choices import find
from regard.cli.counting import counting
from regard.errors import RunError, SettingError
from regard.evaluating import Score
from regard.evaluating.tokenizers import chosen_tokenizer
from regard.plots.alignment import head_grid
from regard.training.aligning import FORMATS, Aligned, align, read_gold
from regard.training.checkpoints import write_text
from regard.training.evaluation import (
    METRICS,
    Answers,
    Judged,
    answer,
    chosen_texts,
    score,
    search_for,
)
from regard.training.trained import ON_LONG, Trained, load

DIGITS = {"loss": 4, "length ratio": 3}
"""Of what needs more than two behind the point."""


def evaluate(
    run: Path = typer.Argument(help="A finished run."),
    source: Path | None = typer.Option(None, help="Texts, one a line; or a .tsv with both sides."),
    reference: list[Path] = typer.Option([], help="The answers wanted; may be repeated."),
    split: str | None = typer.Option(None, help="valid or test of the recipe, instead of files."),
    beam: int = typer.Option(5, help="Width of the beam; 1 is greedy search."),
    length_penalty: float = typer.Option(0.6, help="The Transformer paper's alpha; 0 is none."),
    metrics: str = typer.Option(",".join(METRICS), help="Which scores, separated by commas."),
    tokenizer: str | None = typer.Option(None, help="sacreBLEU's; by the references' script."),
    on_long: str = typer.Option("error", help="A text that is too long: error, split or skip."),
    alignment: Path | None = typer.Option(
        None, help="Gold word links of these texts, in naacl or Pharaoh format."
    ),
    alignment_format: str | None = typer.Option(
        None, help="naacl or pharaoh; as the file looks unless given."
    ),
    alignment_first: int | None = typer.Option(
        None, help="The number of a sentence's first word: 1 in naacl, 0 in Pharaoh, unless given."
    ),
    alignment_swapped: bool = typer.Option(
        False, "--alignment-swapped", help="The file has target words first."
    ),
    device: str | None = typer.Option(None, help="cpu or cuda; cuda where there is one."),
    precision: str | None = typer.Option(None, help="float32, or bfloat16 on cuda."),
    out: Path | None = typer.Option(
        None, help="A new folder for hypotheses.txt and scores.json; never overwritten."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Score a run: BLEU, chrF, TER, exact match, length ratio, loss, perplexity and speed.

    Each score has the signature that others need to compute it. With --alignment, the run is made
    to write the reference, and every head's links are held against the gold ones.

    Example: regard evaluate runs/en-de --source test.en --reference test.de --beam 5
    """
    chosen = _metrics(metrics)
    find(on_long, ON_LONG)
    chosen_tokenizer(tokenizer, [])
    if alignment_format is not None:
        find(alignment_format, FORMATS)
    _check_is_new(out)
    trained = load(run, device=device, precision=precision)
    search = search_for(trained, beam=beam, length_penalty=length_penalty)
    examples = chosen_texts(trained.loaded.recipe, source, reference, split)
    aligned = None
    if alignment is not None:
        golds = read_gold(
            alignment, sentences=len(examples), kind=alignment_format, first=alignment_first
        )
        golds = [gold.swapped() for gold in golds] if alignment_swapped else golds
        # before the long search, since a wrong file is found out here
        with counting("aligning", len(examples)) as each:
            aligned = align(trained, examples, golds, each=each)
    with counting("decoding", len(examples)) as each:
        said = answer(trained, [one.source for one in examples], search, on_long=on_long, each=each)
    scores = score(Judged(trained, examples, said.texts, tokenizer), chosen)
    how = "greedy" if beam == 1 else f"beam {beam}, length penalty {length_penalty:g}"
    report = {
        "run": str(run),
        "texts": _texts_named(source, reference, split),
        "sentences": len(examples),
        "search": how,
        "scores": [_score_row(one) for one in scores],
        "speed": _speed_row(said, trained),
        "alignment": None if aligned is None else aligned.as_json(),
        "notes": list(said.notes),
    }
    if out is not None:
        _write(out, report, said.texts)
    print(
        json.dumps(report, ensure_ascii=False)
        if as_json
        else evaluation_text(report, scores, aligned)
    )


def evaluation_text(
    report: dict[str, Any], scores: Sequence[Score], aligned: Aligned | None = None
) -> str:
    """An evaluation for reading."""
    speed = report["speed"]
    lines = [
        f"{report['run']} on {report['texts']}: {report['sentences']:,} sentences, "
        f"{report['search']}",
        "",
        *(_score_line(one) for one in scores),
        f"{'speed':<14} {speed['sentences_per_second']:,.1f} sentences and "
        f"{speed['tokens_per_second']:,.0f} tokens a second ({speed['seconds']:.1f} s, "
        f"{speed['device']}, {speed['precision']})",
        *(f"{'note':<14} {note}" for note in report["notes"]),
    ]
    return "\n".join([*lines, *([] if aligned is None else ["", alignment_text(aligned)])])


def alignment_text(aligned: Aligned) -> str:
    """Alignment errors for reading."""
    long = f" ({aligned.left_out} longer ones left out)" if aligned.left_out else ""
    best = aligned.best
    return "\n\n".join(
        [
            f"Alignment error rate in per cent, {aligned.sentences:,} sentences{long}, when made "
            "to write the reference",
            head_grid(aligned.table),
            "best head: with one sentence there is nothing to choose on"
            if best is None
            else f"best head, chosen on every second sentence: {best.view}; on the other sentences "
            f"{best.reported_on}",
        ]
    )


def _score_line(one: Score) -> str:
    value = f"{one.value:.{DIGITS.get(one.name, 2)}f}"
    note = f" [{one.note}]" if one.note else ""
    return f"{one.name:<14} {value:<9} {one.signature}{note}"


def _score_row(one: Score) -> dict[str, Any]:
    # JSON has no infinity
    return {**asdict(one), "value": one.value if math.isfinite(one.value) else None}


def _speed_row(said: Answers, trained: Trained) -> dict[str, Any]:
    return {
        "seconds": said.seconds,
        "tokens": said.tokens,
        "sentences_per_second": said.sentences_per_second,
        "tokens_per_second": said.tokens_per_second,
        "device": str(trained.hardware.device),
        "precision": str(trained.hardware.precision).removeprefix("torch."),
    }


def _metrics(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise SettingError(f"evaluate: --metrics names none. Known: {', '.join(METRICS)}.")
    for name in names:
        find(name, METRICS)
    return list(dict.fromkeys(names))


def _texts_named(source: Path | None, references: Sequence[Path], split: str | None) -> str:
    if split is not None:
        return f"split {split}"
    return " ".join(str(path) for path in (source, *references))


def _check_is_new(out: Path | None) -> None:
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(
            f"evaluate: '{out}' is there already, and is never overwritten. Choose another --out."
        )


def _write(out: Path, report: dict[str, Any], texts: Sequence[str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "hypotheses.txt", "".join(f"{text}\n" for text in texts))
    write_text(out / "scores.json", json.dumps(report, indent=1, ensure_ascii=False) + "\n")
