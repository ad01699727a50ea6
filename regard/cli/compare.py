"""regard compare: differences and p-values; only a table's verdict has a threshold, p ≤ 0.05."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from regard.cli import options
from regard.cli.requests import load_for_verb, print_note, print_unread
from regard.data import Example, lines
from regard.data.atomic_writes import write_text
from regard.decoding.beam import DEFAULT_BEAM_WIDTH
from regard.decoding.length_penalties import DEFAULT_ALPHA
from regard.errors import DataError, RegardError, SettingError, counted
from regard.evaluating import Resampling
from regard.evaluating import compare as compared
from regard.evaluating.metrics import OF_TEXTS
from regard.evaluating.tokenizers import chosen_tokenizer
from regard.plots.comparison import comparison_page, comparison_text
from regard.progress import counting
from regard.recipes.data_paths import examples_of
from regard.recipes.recipe import Recipe, read_recipe
from regard.runs.evaluation import answer, check_has_sources, search_for
from regard.runs.evaluation_texts import chosen_texts, texts_of_files
from regard.runs.trained import check_limit
from regard.tasks import task_of
from regard.tasks.input_format import form_name, has_rows, holds_both_sides
from regard.tasks.predictions import AnswerOptions
from regard.training.events import finite
from regard.training.run_folder import finished_weights

REMEDY = "compare losses: regard evaluate RUN --metrics loss"


def compare(
    runs: list[Path] | None = typer.Argument(
        None, help="Finished runs; the first is the baseline."
    ),
    source: options.Source = None,
    reference: list[Path] = typer.Option([], help="The answers wanted; may be repeated."),
    split: str | None = typer.Option(
        None, help="valid or test of the first run's recipe, instead of files."
    ),
    hypotheses: list[str] = typer.Option(
        [], help="NAME=FILE: answers of any system, a line each, after the runs; may be repeated."
    ),
    training: Path | None = typer.Option(
        None, help="Target texts of training, to tell rare words; the first run's unless given."
    ),
    beam: options.BeamWidth = DEFAULT_BEAM_WIDTH,
    length_penalty: options.LengthPenalty = DEFAULT_ALPHA,
    max_tokens: options.MaxTokens = None,
    on_long: options.OnLong = "error",
    tokenizer: str | None = typer.Option(None, help="sacreBLEU's; by the references' script."),
    samples: int = typer.Option(1000, help="Of the paired bootstrap."),
    trials: int = typer.Option(10_000, help="Of the approximate randomisation."),
    seed: int = typer.Option(1, help="Of both tests."),
    shown: int = typer.Option(3, min=0, help="How many sentences that differ most to print."),
    imports: list[Path] = options.IMPORTS,
    device: options.Device = None,
    precision: options.Precision = None,
    threads: options.ThreadCount = None,
    out: Path | None = typer.Option(None, help="Write the comparison as a page, x.html."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compare systems on the same sentences: differences, p-values, and where they come from.

    Scores by length of sentence and by how often training saw a word, and the sentences that
    differ most; --out writes all of it as a page in one file.

    Example: regard compare runs/a runs/b --source test.en --reference test.de --out ab.html
    """
    options.check_file("compare", "--out is a page and ends in .html", out, {".html"})
    options.check_beam("compare", beam)
    chosen_tokenizer(tokenizer, [])
    how = Resampling(samples=samples, trials=trials, seed=seed)
    paths = runs or []
    names = _names(paths)
    recipes = {}
    for path in paths:
        finished_weights(path)
        recipes[path] = read_recipe(path / "recipe.toml")
        check_limit(recipes[path], max_tokens, f"compare: '{path}'", options.LIMIT)
    if not paths:
        searched = options.search_given(beam, length_penalty, max_tokens, on_long)
        options.refuse("compare", "the answers are in files", searched)
    _check_one_form(recipes)
    first = paths[0] if paths else None
    recipe = None if first is None else recipes[first]
    learned = None if training is None else _training_file(training, recipe)
    texts: list[str] | None = None
    if recipe is None and source is None and reference:
        # given answers can be compared without their sources
        references = _columns(reference)
    else:
        found: Sequence[Example] = chosen_texts(recipe, source, reference, split, first)
        if recipe is not None:
            found = task_of(recipe).as_trained(recipe, found)
            if source is not None:
                print_unread(recipe, source, reference)
        texts = [one.source for one in found]
        references = [one.targets for one in found]
    given = {name: _in_its_form(recipe, each) for name, each in _given(hypotheses, len(references))}
    if clash := sorted(names.keys() & given.keys()):
        raise SettingError(f"compare: '{clash[0]}' is the name of two systems. Rename one.")
    if len(names) + len(given) < 2:
        raise SettingError(
            f"compare: expected at least two systems, got {len(names) + len(given)}. Give runs, or "
            "--hypotheses NAME=FILE."
        )
    for path in paths:
        task_of(recipes[path]).check_can_answer(found, f"compare: '{path}'", REMEDY)
        check_has_sources(found, f"compare: '{path}'", REMEDY)
    if recipe is not None and (form := form_name(recipe)) is not None:
        print_note(
            f"texts, references and answers are in the form '{form}', as the training data are"
        )
    systems: dict[str, Sequence[str]] = {}
    for name, path in names.items():
        trained = load_for_verb(path, device=device, precision=precision, threads=threads)
        trained.task.check_references(trained, found, f"compare: '{path}'")
        limits = trained.limits(max_tokens, f"compare: '{path}'", options.LIMIT)
        search = search_for(trained, beam=beam, length_penalty=length_penalty, limits=limits)
        with counting(name, len(references)) as each:
            answering = AnswerOptions(search, on_long=on_long)
            answers = answer(trained, texts or [], answering, each=each)
        systems[name] = answers.texts
        for note in answers.notes:
            print_note(f"{name}: {note}")
    result = compared(
        {**systems, **given},
        references,
        sources=texts,
        training=_training(recipe, first) if learned is None else _in_its_form(recipe, learned),
        tokenizer=tokenizer,
        resampling=how,
        measures=OF_TEXTS if recipe is None else task_of(recipe).measures(recipe),
    )
    if out is not None:
        write_text(out, comparison_page(result))
        print_note(f"wrote {out}")
    if as_json:
        print(json.dumps(finite(asdict(result)), ensure_ascii=False, allow_nan=False))
    else:
        print(comparison_text(result, shown=shown))


def _names(paths: Sequence[Path]) -> dict[str, Path]:
    """The runs by the names of their folders, or by their paths if two names are equal."""
    short = [path.resolve().name for path in paths]
    named = {
        name if short.count(name) == 1 else str(path): path
        for name, path in zip(short, paths, strict=True)
    }
    if len(named) < len(paths):
        twice = next(str(path) for path in paths if list(paths).count(path) > 1)
        raise SettingError(f"compare: '{twice}' was given twice. Give each run once.")
    return named


def _check_one_form(recipes: Mapping[Path, Recipe]) -> None:
    """Refuse runs with different normalisers: no references suit them all."""
    forms = {}
    for path, recipe in recipes.items():
        form = form_name(recipe)
        forms[path] = "texts as they are" if form is None else f"texts in the form '{form}'"
        first = next(iter(forms))
        if forms[path] != forms[first]:
            raise SettingError(
                f"compare: '{first}' learned from {forms[first]}, but '{path}' from {forms[path]}. "
                "Give runs of one form, or the answers of one as --hypotheses NAME=FILE, which are "
                "brought to the form of the first run."
            )


def _in_its_form(recipe: Recipe | None, texts: Sequence[str]) -> list[str]:
    """Lines of a file, normalised as the first run's data; unchanged without a run."""
    if recipe is None:
        return list(texts)
    return [task_of(recipe).read_text(recipe, text) for text in texts]


def _given(hypotheses: Sequence[str], count: int) -> Iterator[tuple[str, list[str]]]:
    seen: set[str] = set()
    for text in hypotheses:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise SettingError(f"compare: --hypotheses takes NAME=FILE, got '{text}'.")
        if name in seen:
            raise SettingError(f"compare: '{name}' is the name of two systems. Rename one.")
        seen.add(name)
        found = list(lines(Path(path)))
        if len(found) != count:
            raise DataError(
                f"compare: '{path}' has {counted(len(found), 'line')}, but there are "
                f"{counted(count, 'sentence')}. "
                "Give the answers to these sentences, a line each."
            )
        yield name, found


def _columns(paths: Sequence[Path]) -> list[tuple[str, ...]]:
    """The references of each sentence."""
    files = [list(lines(path)) for path in paths]
    if len({len(found) for found in files}) > 1 or not all(files):
        pairs = zip(paths, files, strict=True)
        counts = ", ".join(f"'{path}' has {len(found):,}" for path, found in pairs)
        raise DataError(
            f"compare: references need as many lines as each other and at least one, but {counts}."
        )
    return list(zip(*files, strict=True))


def _training_file(path: Path, recipe: Recipe | None) -> list[str]:
    """The target texts of training in a file that the caller gives, with or without sources."""
    train = None if recipe is None else recipe.data.train
    if holds_both_sides(train, path) or has_rows(train, path):
        found = [text for one in texts_of_files(path, [], recipe) for text in one.targets]
    else:
        found = list(lines(path))
    if not any(line.strip() for line in found):
        raise DataError(
            f"compare: --training: '{path}' is empty. Give the target texts of training, a line "
            "each, or leave it out."
        )
    return found


def _training(recipe: Recipe | None, run: Path | None) -> list[str] | None:
    """The target texts of the first run's training; None, with a printed note, if unavailable."""
    if recipe is None or run is None:
        return None
    try:
        read = examples_of(recipe.data.train, "train", run)
        return [text for example in read() for text in example.targets]
    except RegardError as error:
        print_note(f"rare words are not told apart: {error}")
        return None
