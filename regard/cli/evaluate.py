"""regard evaluate: how good a run is, in numbers that others can compute again."""

import json
from pathlib import Path

import typer

from regard.choices import find
from regard.cli import options
from regard.cli.requests import load_for_verb, print_unread
from regard.data.atomic_writes import write_text
from regard.decoding.beam import DEFAULT_BEAM_WIDTH
from regard.decoding.length_penalties import DEFAULT_ALPHA
from regard.errors import RunError, SettingError, counted
from regard.evaluating.tokenizers import chosen_tokenizer
from regard.plots.head_errors import head_grid
from regard.runs import evaluation
from regard.runs.alignment import AlignmentErrors
from regard.runs.evaluation_report import (
    DIGITS,
    EvaluationReport,
    EvaluationSettings,
    GoldLinkFile,
)
from regard.runs.evaluation_report import evaluate as evaluated
from regard.runs.evaluation_texts import chosen_texts
from regard.tasks.loaded_run import TORCH
from regard.training.run_folder import check_can_be_made


def evaluate(
    run: options.FinishedRun,
    source: options.Source = None,
    reference: list[Path] = typer.Option([], help="The answers wanted; may be repeated."),
    split: str | None = typer.Option(None, help="valid or test of the recipe, instead of files."),
    beam: options.BeamWidth = DEFAULT_BEAM_WIDTH,
    length_penalty: options.LengthPenalty = DEFAULT_ALPHA,
    max_tokens: options.MaxTokens = None,
    metrics: str | None = typer.Option(
        None,
        help="Which scores, separated by commas; unless given, those that suit what the run "
        "learned from.",
    ),
    tokenizer: str | None = typer.Option(None, help="sacreBLEU's; by the references' script."),
    on_long: options.OnLong = "error",
    max_source_words: int | None = typer.Option(
        None, help="Only texts with at most so many words between spaces."
    ),
    max_target_words: int | None = typer.Option(None, help="The same by the first reference."),
    replace_unknown: options.ReplaceUnknown = False,
    alignment: Path | None = typer.Option(
        None, help="Gold word links of these texts, in naacl or Pharaoh format."
    ),
    alignment_format: options.AlignmentFormat = None,
    alignment_first: options.AlignmentFirst = None,
    alignment_swapped: options.AlignmentSwapped = False,
    imports: list[Path] = options.IMPORTS,
    device: options.Device = None,
    precision: options.Precision = None,
    threads: options.ThreadCount = None,
    engine: options.Engine = TORCH,
    out: Path | None = typer.Option(
        None, help="A new folder for hypotheses.txt and scores.json; never overwritten."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Score a run: BLEU, chrF, TER, exact match, length ratio, loss, perplexity and speed.

    Running text: loss and perplexity per word. Tags and labels: accuracy, precision, recall, F1
    and how often each was taken for another. Documents: ROUGE. Hidden words:
    loss and perplexity. Captions of pictures: BLEU-1 to 4, CIDEr-D, chrF, exact match, length
    ratio, loss, and for scenes the pointing game: whether the map of a word peaks in the box of
    its object.

    Each score has the signature that others need to compute it. With --alignment, the run is made
    to write the reference, and every head's links are held against the gold ones.

    Example: regard evaluate runs/en-de --source test.en --reference test.de --beam 5
    """
    wanted = None if metrics is None else _metrics(metrics)
    chosen_tokenizer(tokenizer, [])
    _check_is_new(out)
    options.check_beam("evaluate", beam)
    if alignment is None:
        options.refuse_without_links(
            "evaluate", kind=alignment_format, first=alignment_first, is_swapped=alignment_swapped
        )
    settings = EvaluationSettings(
        metrics=wanted,
        beam=beam,
        length_penalty=length_penalty,
        max_tokens=max_tokens,
        tokenizer=tokenizer,
        on_long=on_long,
        max_source_words=max_source_words,
        max_target_words=max_target_words,
        replaces_unknown=replace_unknown,
        gold=None
        if alignment is None
        else GoldLinkFile(
            alignment, alignment_format, alignment_first, is_swapped=alignment_swapped
        ),
        wants_answers=out is not None,
    )
    trained = load_for_verb(run, device=device, precision=precision, threads=threads, engine=engine)
    trained.limits(max_tokens, "evaluate", options.LIMIT)
    recipe, chosen = trained.loaded.recipe, settings.chosen_metrics(trained)
    if not settings.needs_answers(chosen):
        decoding = options.search_given(beam, length_penalty, max_tokens, on_long)
        decoding |= {"--replace-unknown": replace_unknown, "--tokenizer": tokenizer}
        options.refuse("evaluate", f"--metrics {','.join(chosen)} needs no answers", decoding)
    given = chosen_texts(recipe, source, reference, split, run)
    if source is not None:
        print_unread(recipe, source, reference)
    files = " ".join(str(path) for path in (source, *reference))
    found = evaluated(trained, given, files if split is None else f"split {split}", settings)
    report = found.as_json()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / "hypotheses.txt", "".join(f"{text}\n" for text in found.answers))
        write_text(out / "scores.json", json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    print(json.dumps(report, ensure_ascii=False) if as_json else evaluation_text(found))


def evaluation_text(report: EvaluationReport) -> str:
    """An evaluation for reading."""
    lines = [
        f"{report.run} on {report.texts}: {counted(report.sentences, 'sentence')}, "
        f"{report.search or 'nothing decoded'}",
        "",
    ]
    for one in report.scores:
        value, note = f"{one.value:.{DIGITS.get(one.name, 2)}f}", f" [{one.note}]"
        lines.append(f"{one.name:<14} {value:<9} {one.signature}{note if one.note else ''}")
    if speed := report.speed:
        by = speed["precision"] if speed["engine"] == TORCH else speed["engine"]
        lines.append(
            f"{'speed':<14} {speed['sentences_per_second']:,.1f} sentences and "
            f"{speed['tokens_per_second']:,.0f} tokens a second ({speed['seconds']:.1f} s, "
            f"{speed['device']}, {by})"
        )
    lines += [f"{'note':<14} {note}" for note in report.notes]
    tables = [] if report.labels is None else ["", str(report.labels)]
    tables += [] if report.aligned is None else ["", alignment_text(report.aligned)]
    return "\n".join([*lines, *tables])


def alignment_text(aligned: AlignmentErrors) -> str:
    """Alignment errors for reading."""
    long = f" ({aligned.left_out} longer ones left out)" if aligned.left_out else ""
    heads = [view for view in aligned.table if view.is_head]
    is_one = len({(view.layer, view.head) for view in heads}) == 1
    rows = {view: f"{view.row.name.lower()} row" for view in heads}
    best, what = aligned.best, "row" if is_one else "head"
    if best is None:
        half = "where half of the lines have no gold link"
        why = half if aligned.without_gold else "with one sentence"
        chosen = f"best {what}: {why} there is nothing to choose on"
    else:
        chosen = (
            f"best {what}, chosen on every second sentence: "
            f"{rows[best.view] if is_one else best.view}; on the other sentences {best.reported_on}"
        )
    one_by_one = (
        f"the attention, {row + ':':<16} {100 * aligned.table[view].error_rate:.1f}"
        for view, row in rows.items()
    )
    return "\n\n".join(
        [
            f"Alignment error rate in per cent, {counted(aligned.sentences, 'sentence')}{long}, "
            "when made to write the reference",
            "\n".join(one_by_one) if is_one else head_grid(aligned.table),
            chosen,
        ]
    )


def _metrics(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise SettingError(
            f"evaluate: --metrics names none. Known: {', '.join(evaluation.EVALUATE_METRICS)}."
        )
    for name in names:
        find(name, evaluation.EVALUATE_METRICS, key="evaluate: --metrics")
    return list(dict.fromkeys(names))


def _check_is_new(out: Path | None) -> None:
    if out is None:
        return
    check_can_be_made(out, "evaluate")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(
            f"evaluate: '{out}' is there already, and is never overwritten. Choose another --out."
        )
