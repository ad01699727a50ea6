"""regard predict: texts in, answers out, line by line; or pictures in, captions out."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import asdict
from pathlib import Path

import numpy as np
import typer
from rich.console import Console
from safetensors.numpy import save_file

from regard.cli import options
from regard.cli.requests import load_for_verb, print_note, request_lines
from regard.cli.streams import has_reader
from regard.data.atomic_writes import as_any_file, written_beside
from regard.decoding import Greedy, Limits, Rule, Sampling, Search
from regard.decoding.beam import DEFAULT_BEAM_WIDTH
from regard.decoding.length_penalties import DEFAULT_ALPHA
from regard.errors import DataError, SettingError, counted
from regard.progress import counter, counting, spinner
from regard.runs.dictionaries import dictionary_of
from regard.runs.evaluation import search_for
from regard.runs.trained import Request, Trained
from regard.tasks.loaded_run import TORCH
from regard.tasks.looks import counted_words
from regard.tasks.predictions import AnswerOptions, unseen_note
from regard.training.events import finite

MAX_NAMED_LINES = 5
OPTIONAL = ("candidates", "unseen", "search")
"""The fields of an answer that its JSON has only where they hold something."""


def predict(
    run: options.FinishedRun,
    files: list[str] | None = typer.Argument(
        None, help="Texts, one a line, or as the run's data; pictures; - is standard input."
    ),
    text: list[str] = typer.Option([], help="A text given here; may be repeated."),
    beam: options.BeamWidth = DEFAULT_BEAM_WIDTH,
    n_best: int = typer.Option(1, help="Answers for each text, best first; a beam is as wide."),
    length_penalty: options.LengthPenalty = DEFAULT_ALPHA,
    repetition_penalty: options.RepetitionPenalty = None,
    no_repeated_ngrams: options.NoRepeatedNgrams = None,
    max_tokens: options.MaxTokens = None,
    prefix: str = typer.Option("", help="What every answer begins with."),
    constraints: Path | None = typer.Option(
        None, help="A file with a line for each text: phrases to hold, separated by tabs."
    ),
    sample: bool = typer.Option(False, "--sample", help="Draw answers instead of searching."),
    temperature: float = typer.Option(1.0, help="For --sample; below 1 the likely is likelier."),
    top_k: int | None = typer.Option(None, help="For --sample: among so many tokens."),
    top_p: float = typer.Option(1.0, help="For --sample: among tokens that hold so much."),
    seed: int = typer.Option(0, help="For --sample."),
    streams: bool = typer.Option(
        False,
        "--stream",
        help="Write an answer as it comes: the likeliest next token, or --sample.",
    ),
    ensemble: list[Path] = typer.Option([], help="Another run that writes along; may be repeated."),
    alignments: bool = typer.Option(False, "--alignments", help="Link words to source words."),
    replace_unknown: options.ReplaceUnknown = False,
    probabilities: bool = typer.Option(
        False, "--probabilities", help="Of a run that gives labels: those of all labels."
    ),
    vectors: Path | None = typer.Option(
        None, help="Write a vector for each text into x.npy or x.safetensors; of an encoder."
    ),
    on_long: options.OnLong = "error",
    imports: list[Path] = options.IMPORTS,
    device: options.Device = None,
    precision: options.Precision = None,
    threads: options.ThreadCount = None,
    engine: options.Engine = TORCH,
    as_json: bool = typer.Option(False, "--json", help="One JSON object a line."),
) -> None:
    """Answer texts with a trained run; without files and --text, standard input is read.

    Answers come in the order of the texts, a line each; an empty line gives an empty line, but a
    language model that goes on with texts begins one there. With --alignments, words are linked
    after a tab in Pharaoh format. With --n-best 3, a text has three lines, the best first: its
    number, a score and an answer, with tabs between them, and of the best alone its links. With
    --replace-unknown, an unknown word becomes the translation of the source word it was read off;
    the first time, that takes a pass over the training data.

    A file is read as the run's data were: of a .tsv what stands before the first tab, of a .jsonl
    what the run's keys name, of a .conllu the words; packed files too. Other files hold a text a
    line. Where a run learned from tsv or JSON lines, such lines of any file, of standard input and
    of --text are read so too. What is left unread is told.

    A run that guesses hidden words fills in every [MASK] of a text; with --n-best, the likeliest
    words follow after a tab with their probabilities. A run that labels texts writes a label and,
    after a tab, its probability; with --probabilities or --json, those of all labels, which sum to
    1. With --vectors, an encoder writes a vector
    for each text instead, empty ones too; a text that is too long is an error with its line.

    A run that captions takes pictures, folders of them, or a file of captions; standard input has
    an address a line. A picture that cannot be read gives an empty line and exit code 1 at the end;
    if no picture that was typed can be read, nothing is answered, and the exit code is 2.

    With --stream, an answer is written as it comes, token by token.

    With --engine ctranslate2, CTranslate2 searches for the answers; its model is made once, and
    kept in the run. What it cannot hold is refused with the reason.

    Example: regard predict demo-run --text "9. Mai 2029"
    """
    if vectors is not None:
        options.check_file("predict", f"--vectors ends in {' or '.join(FORMATS)}", vectors, FORMATS)
        given = {
            **options.search_given(beam, length_penalty, max_tokens),
            **options.rules_given(repetition_penalty, no_repeated_ngrams),
            "--n-best": n_best != 1,
            "--prefix": prefix,
            "--constraints": constraints,
            "--sample": sample,
            "--ensemble": ensemble,
            "--alignments": alignments,
            "--replace-unknown": replace_unknown,
            "--probabilities": probabilities,
            "--stream": streams,
            "--json": as_json,
        }
        options.refuse("predict", "--vectors writes a vector for each text and no answers", given)
        if on_long != "error":
            raise SettingError(
                "predict: --vectors writes a row for each text, of the whole text: none is split "
                "or left out, and one that is too long is an error that names its line. Leave "
                "--on-long out."
            )
    if streams:
        whole = {
            "--n-best": n_best != 1,
            "--constraints": constraints,
            "--alignments": alignments,
            "--replace-unknown": replace_unknown,
            "--probabilities": probabilities,
            "--on-long": on_long != "error",
            "--json": as_json,
        }
        searched = options.search_given(beam, length_penalty)
        options.refuse("predict", "--stream writes tokens as they come", {**searched, **whole})
    if engine != TORCH:
        by_torch = {
            "--stream": streams,
            "--vectors": vectors,
            "--ensemble": ensemble,
            "--sample": sample,
            "--prefix": prefix,
            "--constraints": constraints,
            "--precision": precision,
        }
        if name := options.first_given(by_torch):
            raise SettingError(
                f"predict: {name} is for torch alone, got --engine {engine}. Leave one of the two "
                "out."
            )
    trained = load_for_verb(
        run, *ensemble, device=device, precision=precision, threads=threads, engine=engine
    )
    task, sources, recipe = trained.task, trained.task.sources, trained.loaded.recipe
    task.check_alone(ensemble)
    limits = trained.limits(max_tokens, "predict", options.LIMIT)
    searched = options.search_given(beam, length_penalty)
    drawn = {"--temperature": temperature != 1.0, "--top-k": top_k, "--seed": seed}
    if task.why_no_search is not None:
        ruled = options.rules_given(repetition_penalty, no_repeated_ngrams)
        options.refuse("predict", task.why_no_search, {**searched, **ruled})
    rules = options.decoding_rules(
        "predict", recipe.decoding, repetition_penalty, no_repeated_ngrams
    )
    if sample:
        options.refuse("predict", "answers are drawn (--sample) and not searched for", searched)
        search: Search = Sampling(
            n_samples=n_best, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed,
            limits=limits, rules=rules,
        )  # fmt: skip
    elif name := options.first_given({**drawn, "--top-p": top_p != 1.0}):
        raise SettingError(
            f"predict: {name} is for answers that are drawn. Add --sample, or leave {name} out."
        )
    else:
        search = _search(trained, beam, n_best, length_penalty, limits, rules)
    phrases = _phrases(constraints)
    dictionary = dictionary_of(trained, counting) if replace_unknown else None
    if probabilities and not task.has_probabilities:
        raise SettingError(
            f"predict: --probabilities are those of labels, but this run {task.does}. Leave it out."
        )
    answering = AnswerOptions(search, alignments, on_long, dictionary, probabilities or as_json)
    names = files or []
    if names.count("-") > 1:
        raise SettingError("predict: standard input (-) can be read once only.")
    is_stream = names in ([], ["-"]) and not text
    known = [
        line
        for name in ([] if is_stream else names)
        for line in sources.requests(trained, name, request_lines, print_note)
    ]
    known += [sources.typed(recipe, each, "--text", print_note) for each in text]
    # whether every input is a request itself, and none a file of requests
    is_typed = not is_stream and (not names or known == [*names, *text])
    if is_typed:
        sources.check_any_readable(recipe, known)
    place_name = "input" if is_typed else "line"
    lines = iter(known)
    if is_stream:
        lines = sources.requests(trained, "-", request_lines, print_note)
    else:
        # checked before the long search; the number of texts in a stream is unknown
        _check_count(constraints, phrases, len(known))
    if vectors is not None:
        write_vectors(trained, [*lines], vectors)
        return
    if streams:
        if not isinstance(search, Sampling):
            search = Greedy(limits=limits, rules=rules)
        for number, line in enumerate(lines):
            request = Request(line, prefix, seed=number, name=f"{place_name} {number + 1:,}")
            for part in trained.stream(request, search=search):
                print(part, end="", flush=True)
            print(flush=True)
        return
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    # a user who types sees the answers come
    is_terminal = bool(is_stream and sys.stdin and sys.stdin.isatty())
    bar = counter(console) if len(known) > 1 else spinner(console, is_hidden=is_terminal)
    number, n_failed, empty = 0, 0, list[int]()
    unseen: dict[str, tuple[str, ...]] = {}
    with bar:
        what = f"answering {counted_words(known[0])}" if len(known) == 1 else "answering"
        task_shown = bar.add_task(what, total=len(known) or None)
        requests = (
            Request(line, prefix, phrases.get(i, ()), seed=i, name=f"{place_name} {i + 1:,}")
            for i, line in enumerate(lines)
        )
        for answer in trained.predict_lines(requests, answering):
            number += 1
            n_failed += task.has_failed(answer)
            if answer.source.strip() and not (answer.text.strip() or answer.note):
                empty.append(number)
            bar.advance(task_shown)
            if answer.unseen:
                unseen[f"{place_name} {number:,}"] = answer.unseen
            if answer.note:
                console.print(f"{place_name} {number}: {answer.note}", markup=False)
            if as_json:
                row = {k: v for k, v in asdict(answer).items() if v or k not in OPTIONAL}
                row |= {} if engine == TORCH else {"engine": trained.engine_name}
                shown = json.dumps(finite(row), ensure_ascii=False)
            elif n_best == 1:
                shown = task.answer_line(answer)
            else:
                shown = task.n_best_lines(number, answer)
            print(shown, flush=True)
            if not has_reader(sys.stdout):
                return
    _check_count(constraints, phrases, number)
    if empty:
        more = " …" if len(empty) > MAX_NAMED_LINES else ""
        console.print(
            f"{len(empty):,} of {number:,} answers are empty ({place_name} "
            f"{', '.join(map(str, empty[:MAX_NAMED_LINES]))}{more}): the model ended them at once",
            markup=False,
        )
    if (told := unseen_note(unseen, number)) is not None:
        console.print(told, markup=False)
    if n_failed:
        console.print(f"{n_failed:,} of {number:,} pictures could not be read", markup=False)
        raise typer.Exit(1)


def _search(
    trained: Trained,
    beam: int,
    n_best: int,
    length_penalty: float,
    limits: Limits,
    rules: Sequence[Rule],
) -> Search:
    options.check_beam("predict", beam)
    if beam != DEFAULT_BEAM_WIDTH and beam < n_best:
        raise SettingError(
            f"predict: --n-best {n_best} needs a beam at least as wide, got --beam {beam}. Take "
            f"--beam {n_best}, or fewer answers."
        )
    return search_for(
        trained,
        beam=beam,
        length_penalty=length_penalty,
        n_best=n_best,
        limits=limits,
        rules=rules,
    )


def _phrases(path: Path | None) -> dict[int, tuple[str, ...]]:
    """The phrases that answers must hold, by the number of the text."""
    lines = () if path is None else request_lines(str(path))
    return {i: tuple(filter(None, line.split("\t"))) for i, line in enumerate(lines)}


def _check_count(path: Path | None, phrases: Sized, n_texts: int) -> None:
    """Refuse a file of phrases whose number of lines is not that of the texts."""
    if path is not None and len(phrases) != n_texts:
        raise DataError(
            f"predict: '{path}' has {counted(len(phrases), 'line')}, but there are {n_texts} "
            "texts. Give a line, empty if need be, for each text."
        )


def _npy(path: Path, rows: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, rows)


def _safetensors(path: Path, rows: np.ndarray) -> None:
    with as_any_file(path):
        save_file({"vectors": rows}, path)


FORMATS: Mapping[str, Callable[[Path, np.ndarray], None]] = {
    ".npy": _npy,
    ".safetensors": _safetensors,
}
"""How vectors are written, by the end of the file's name."""


def write_vectors(trained: Trained, texts: Sequence[str], path: Path) -> None:
    """Write the vectors of all texts, in order, to a temporary file, and rename it."""
    with counting("vectors", len(texts)) as each:
        rows = trained.vectors(texts, each=each).numpy()
    with written_beside(path) as partial:
        FORMATS[path.suffix](partial, rows)
