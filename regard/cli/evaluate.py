"""regard evaluate: how good a run is, in numbers that others can compute again."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from regard.choices import find
from regard.cli.loaded_runs import load_for_verb
from regard.cli.options import (
    ALPHA,
    BEAM,
    LIMIT,
    AlignmentFirst,
    AlignmentFormat,
    AlignmentSwapped,
    Device,
    MaxTokens,
    OnLong,
    refuse,
    refuse_without_links,
)
from regard.cli.progress import counting
from regard.cli.requests import tell_cut
from regard.data.atomic_writes import write_text
from regard.errors import DataError, RunError, SettingError
from regard.evaluating import Score, View
from regard.evaluating.tokenizers import chosen_tokenizer
from regard.plots.alignment import head_grid
from regard.runs.alignment import Aligned, align, read_gold
from regard.runs.dictionaries import dictionary_of
from regard.runs.evaluation import (
    METRICS,
    Answers,
    Judged,
    answer,
    check_has_scenes,
    check_has_sources,
    score_each,
    search_for,
)
from regard.runs.evaluation_texts import chosen_texts, places_of_short
from regard.runs.length_limits import limits_of
from regard.runs.trained import Trained
from regard.tasks.normalisation import form_name
from regard.tasks.task import METRICS_OF_LOSS, METRICS_WITHOUT_ANSWERS
from regard.training.run_folder import check_can_be_made

DIGITS = {"loss": 4, "length ratio": 3}
"""Of what needs more than two behind the point."""


def evaluate(
    run: Path = typer.Argument(help="A finished run."),
    source: Path | None = typer.Option(None, help="Texts, one a line; or a .tsv with both sides."),
    reference: list[Path] = typer.Option([], help="The answers wanted; may be repeated."),
    split: str | None = typer.Option(None, help="valid or test of the recipe, instead of files."),
    beam: int = typer.Option(BEAM, help="Width of the beam; 1 is greedy search."),
    length_penalty: float = typer.Option(ALPHA, help="The Transformer paper's alpha; 0 is none."),
    max_tokens: MaxTokens = None,
    metrics: str | None = typer.Option(
        None,
        help="Which scores, separated by commas; unless given, those that suit what the run "
        "learned from.",
    ),
    tokenizer: str | None = typer.Option(None, help="sacreBLEU's; by the references' script."),
    on_long: OnLong = "error",
    max_source_words: int | None = typer.Option(
        None, help="Only texts with at most so many words between spaces."
    ),
    max_target_words: int | None = typer.Option(None, help="The same by the first reference."),
    replace_unknown: bool = typer.Option(
        False, "--replace-unknown", help="Translate unknown words by a dictionary, or copy them."
    ),
    alignment: Path | None = typer.Option(
        None, help="Gold word links of these texts, in naacl or Pharaoh format."
    ),
    alignment_format: AlignmentFormat = None,
    alignment_first: AlignmentFirst = None,
    alignment_swapped: AlignmentSwapped = False,
    device: Device = None,
    precision: str | None = typer.Option(None, help="float32, or bfloat16 on cuda."),
    out: Path | None = typer.Option(
        None, help="A new folder for hypotheses.txt and scores.json; never overwritten."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Score a run: BLEU, chrF, TER, exact match, length ratio, loss, perplexity and speed.

    Running text: loss and perplexity per word. Tags: accuracy. Documents: ROUGE. Hidden words:
    loss and perplexity. Captions of pictures: BLEU-1 to 4, CIDEr-D, chrF, exact match, length
    ratio, loss, and for scenes the pointing game: whether the map of a word peaks in the box of
    its object.

    Each score has the signature that others need to compute it. With --alignment, the run is made
    to write the reference, and every head's links are held against the gold ones.

    Example: regard evaluate runs/en-de --source test.en --reference test.de --beam 5
    """
    asked = None if metrics is None else _metrics(metrics)
    chosen_tokenizer(tokenizer, [])
    _check_is_new(out)
    trained = load_for_verb(run, device=device, precision=precision)
    limits = limits_of(trained, max_tokens, "evaluate", LIMIT)
    search = search_for(trained, beam=beam, length_penalty=length_penalty, limits=limits)
    recipe = trained.loaded.recipe
    task = trained.task
    chosen = asked or list(task.default_metrics(recipe))
    task.check_metrics(recipe, chosen, METRICS)
    is_decoded = out is not None or not METRICS_WITHOUT_ANSWERS.issuperset(chosen)
    if not is_decoded:
        refuse(
            "evaluate",
            f"--metrics {','.join(chosen)} needs no answers",
            {
                "--beam": beam != BEAM,
                "--length-penalty": length_penalty != ALPHA,
                LIMIT: max_tokens is not None,
                "--on-long": on_long != "error",
                "--replace-unknown": replace_unknown,
                "--tokenizer": tokenizer,
            },
        )
    if alignment is None:
        refuse_without_links(
            "evaluate", kind=alignment_format, first=alignment_first, is_swapped=alignment_swapped
        )
    given = chosen_texts(recipe, source, reference, split, run)
    if source is not None:
        tell_cut(recipe, source, reference)
    places = places_of_short(
        given, max_source_words=max_source_words, max_target_words=max_target_words
    )
    examples = task.as_trained(recipe, (given[place] for place in places))
    check_has_scenes(examples, asked or ())
    if is_decoded:
        who = f"evaluate: --metrics {','.join(chosen)} (or --out)"
        task.check_can_answer(
            examples, who, "take --metrics loss, for which words are hidden at random"
        )
        check_has_sources(examples, who, "take --metrics words,loss, which need no answers")
    aligned = None
    if alignment is not None:
        golds = read_gold(
            alignment,
            sentences=len(given),
            kind=alignment_format,
            first=alignment_first,
            is_swapped=alignment_swapped,
        )
        # before the long search, since a wrong file is found out here
        with counting("aligning", len(examples)) as each:
            aligned = align(trained, given, golds, places=places, each=each)
    dictionary, said = None, None
    if is_decoded:
        dictionary = dictionary_of(trained, counting) if replace_unknown else None
        with counting("decoding", len(examples)) as each:
            said = answer(
                trained,
                [one.source for one in examples],
                search,
                on_long=on_long,
                dictionary=dictionary,
                each=each,
            )
    texts = () if said is None else said.texts
    by_name = score_each(Judged(trained, examples, texts, tokenizer), chosen)
    scores = [one for some in by_name.values() for one in some]
    if not scores and said is None and aligned is None:
        raise DataError(
            f"evaluate: there is nothing to score: no text of {len(examples):,} has a token "
            f"that is asked for and fits into the {trained.longest:,} that the model reads "
            "(model.max_len, the end token counted). Give texts that are neither empty nor longer."
        )
    how = "greedy" if beam == 1 else f"beam {beam}, length penalty {length_penalty:g}"
    how += "" if max_tokens is None else f", at most {max_tokens} tokens"
    how = task.how_answered or how
    report = {
        "run": str(run),
        "texts": _texts_named(source, reference, split),
        "sentences": len(examples),
        "search": None if said is None else how,
        "scores": [_score_row(one) for one in scores],
        "speed": None if said is None else _speed_row(said, trained),
        "alignment": None if aligned is None else aligned.as_json(),
        "notes": [
            *_notes(len(given) - len(places), len(given), form_name(recipe), dictionary),
            *(() if said is None else said.notes),
            *_unscored(by_name, trained.longest),
            *(() if aligned is None else _unlinked(aligned)),
        ],
    }
    if out is not None:
        _write(out, report, texts)
    print(
        json.dumps(report, ensure_ascii=False)
        if as_json
        else evaluation_text(report, scores, aligned)
    )


def _notes(
    left_out: int, given: int, form: str | None, dictionary: Mapping[str, str] | None
) -> Iterator[str]:
    """What was done to the texts before they were scored."""
    if left_out:
        yield f"{left_out:,} of {given:,} texts have more words than asked for and do not count"
    if form is not None:
        yield f"texts and references are in the form '{form}', as the training data are"
    if dictionary is not None:
        yield f"unknown words are replaced by a dictionary of {len(dictionary):,} words, or copied"


def _unscored(by_name: Mapping[str, Sequence[Score]], longest: int) -> Iterator[str]:
    """What was asked for and has no number."""
    for name in METRICS_OF_LOSS:
        if not by_name.get(name, True):
            yield (
                f"{name}: no text has a token that is asked for and fits into the {longest:,} that "
                "the model reads"
            )


def _unlinked(aligned: Aligned) -> Iterator[str]:
    """How much of the text the gold links leave out."""
    if aligned.without_gold:
        yield (
            f"{aligned.without_gold:,} of {aligned.sentences:,} sentences have no gold link; every "
            "link in them counts as wrong"
        )


def evaluation_text(
    report: dict[str, Any], scores: Sequence[Score], aligned: Aligned | None = None
) -> str:
    """An evaluation for reading."""
    lines = [
        f"{report['run']} on {report['texts']}: {report['sentences']:,} sentences, "
        f"{report['search'] or 'nothing decoded'}",
        "",
        *(_score_line(one) for one in scores),
        *([] if report["speed"] is None else [_speed_line(report["speed"])]),
        *(f"{'note':<14} {note}" for note in report["notes"]),
    ]
    return "\n".join([*lines, *([] if aligned is None else ["", alignment_text(aligned)])])


def alignment_text(aligned: Aligned) -> str:
    """Alignment errors for reading."""
    long = f" ({aligned.left_out} longer ones left out)" if aligned.left_out else ""
    heads = [view for view in aligned.table if view.is_head]
    is_one = len({(view.layer, view.head) for view in heads}) == 1
    best, what = aligned.best, "row" if is_one else "head"
    if best is None:
        half = "where half of the lines have no gold link"
        why = half if aligned.without_gold else "with one sentence"
        chosen = f"best {what}: {why} there is nothing to choose on"
    else:
        view = _row_named(best.view) if is_one else best.view
        chosen = (
            f"best {what}, chosen on every second sentence: {view}; on the other sentences "
            f"{best.reported_on}"
        )
    one_by_one = (
        f"the attention, {_row_named(view) + ':':<16} {100 * aligned.table[view].error_rate:.1f}"
        for view in heads
    )
    return "\n\n".join(
        [
            f"Alignment error rate in per cent, {aligned.sentences:,} sentences{long}, when made "
            "to write the reference",
            "\n".join(one_by_one) if is_one else head_grid(aligned.table),
            chosen,
        ]
    )


def _row_named(view: View) -> str:
    return f"{view.row.name.lower()} row"


def _score_line(one: Score) -> str:
    value = f"{one.value:.{DIGITS.get(one.name, 2)}f}"
    note = f" [{one.note}]" if one.note else ""
    return f"{one.name:<14} {value:<9} {one.signature}{note}"


def _speed_line(speed: dict[str, Any]) -> str:
    return (
        f"{'speed':<14} {speed['sentences_per_second']:,.1f} sentences and "
        f"{speed['tokens_per_second']:,.0f} tokens a second ({speed['seconds']:.1f} s, "
        f"{speed['device']}, {speed['precision']})"
    )


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
        find(name, METRICS, key="evaluate: --metrics")
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
    if out is not None:
        check_can_be_made(out, "evaluate")


def _write(out: Path, report: dict[str, Any], texts: Sequence[str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "hypotheses.txt", "".join(f"{text}\n" for text in texts))
    write_text(out / "scores.json", json.dumps(report, indent=1, ensure_ascii=False) + "\n")
