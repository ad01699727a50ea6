"""regard compare: which of several systems is better, how significantly, and where."""

import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from regard.cli.loaded_runs import load_for_verb
from regard.cli.options import ALPHA, BEAM, LIMIT, Device, MaxTokens, OnLong, refuse
from regard.cli.progress import counting
from regard.cli.requests import tell_cut
from regard.data import Example, lines
from regard.data.atomic_writes import write_text
from regard.errors import DataError, RegardError, SettingError
from regard.evaluating import Resampling
from regard.evaluating import compare as compared
from regard.evaluating.tokenizers import chosen_tokenizer
from regard.plots.comparison import comparison_page, comparison_text
from regard.recipes.data_paths import examples_of
from regard.recipes.recipe import Recipe, read_recipe
from regard.runs.evaluation import answer, check_has_sources, search_for
from regard.runs.evaluation_texts import chosen_texts, texts_of_files
from regard.runs.length_limits import check_limit, limits_of
from regard.tasks import task_of
from regard.tasks.input_format import has_rows, holds_both_sides
from regard.tasks.normalisation import form_name
from regard.training.starting_weights import finished_weights

BY_LOSS = "compare losses: regard evaluate RUN --metrics loss"
"""The remedy for runs whose answers cannot be compared."""


def compare(
    runs: list[Path] | None = typer.Argument(
        None, help="Finished runs; the first is the baseline."
    ),
    source: Path | None = typer.Option(None, help="Texts, one a line; or a .tsv with both sides."),
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
    beam: int = typer.Option(BEAM, help="Width of the beam; 1 is greedy search."),
    length_penalty: float = typer.Option(ALPHA, help="The Transformer paper's alpha; 0 is none."),
    max_tokens: MaxTokens = None,
    on_long: OnLong = "error",
    tokenizer: str | None = typer.Option(None, help="sacreBLEU's; by the references' script."),
    samples: int = typer.Option(1000, help="Of the paired bootstrap."),
    trials: int = typer.Option(10_000, help="Of the approximate randomisation."),
    seed: int = typer.Option(1, help="Of both tests."),
    shown: int = typer.Option(3, min=0, help="How many sentences that differ most to print."),
    device: Device = None,
    precision: str | None = typer.Option(None, help="float32, or bfloat16 on cuda."),
    out: Path | None = typer.Option(None, help="Write the comparison as a page, x.html."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compare systems on the same sentences: differences, p-values, and where they come from.

    Scores by length of sentence and by how often training saw a word, and the sentences that
    differ most; --out writes all of it as a page in one file.

    Example: regard compare runs/a runs/b --source test.en --reference test.de --out ab.html
    """
    _check_page(out)
    chosen_tokenizer(tokenizer, [])
    how = Resampling(samples=samples, trials=trials, seed=seed)
    paths = runs or []
    names = _names(paths)
    for path in paths:
        finished_weights(path)
        check_limit(read_recipe(path / "recipe.toml"), max_tokens, f"compare: '{path}'", LIMIT)
    if not paths:
        searched = {"--beam": beam != BEAM, "--length-penalty": length_penalty != ALPHA}
        searched |= {LIMIT: max_tokens is not None, "--on-long": on_long != "error"}
        refuse("compare", "the answers are in files", searched)
    _check_one_form(paths)
    recipe = read_recipe(paths[0] / "recipe.toml") if paths else None
    learned = None if training is None else _training_file(training, recipe)
    found: list[Example] = []
    if recipe is None and source is None and reference and not paths:
        # answers alone can be compared without what was asked
        texts: Sequence[str] | None = None
        references = _columns([list(lines(path)) for path in reference], reference)
    else:
        first = paths[0] if paths else None
        texts_given = chosen_texts(recipe, source, reference, split, first)
        found = list(texts_given)
        if recipe is not None:
            found = task_of(recipe).as_trained(recipe, found)
        if recipe is not None and source is not None:
            tell_cut(recipe, source, reference)
        texts = [one.source for one in found]
        references = [one.targets for one in found]
    given = {name: _in_its_form(recipe, said) for name, said in _given(hypotheses, len(references))}
    if clash := sorted(names.keys() & given.keys()):
        raise SettingError(f"compare: '{clash[0]}' is the name of two systems. Rename one.")
    if len(names) + len(given) < 2:
        raise SettingError(
            f"compare: expected at least two systems, got {len(names) + len(given)}. Give runs, or "
            "--hypotheses NAME=FILE."
        )
    for path in paths:
        # found is there: where runs are given, so are texts
        task = task_of(read_recipe(path / "recipe.toml"))
        task.check_can_answer(found, f"compare: '{path}'", BY_LOSS)
        check_has_sources(found, f"compare: '{path}'", BY_LOSS)
    if recipe is not None and (form := form_name(recipe)) is not None:
        print(
            f"texts, references and answers are in the form '{form}', as the training data are",
            file=sys.stderr,
        )
    systems: dict[str, Sequence[str]] = {}
    for name, path in names.items():
        trained = load_for_verb(path, device=device, precision=precision)
        limits = limits_of(trained, max_tokens, f"compare: '{path}'", LIMIT)
        search = search_for(trained, beam=beam, length_penalty=length_penalty, limits=limits)
        with counting(name, len(references)) as each:
            said = answer(trained, texts or [], search, on_long=on_long, each=each)
        systems[name] = said.texts
        for note in said.notes:
            print(f"{name}: {note}", file=sys.stderr)
    result = compared(
        {**systems, **given},
        references,
        sources=texts,
        training=_training(recipe, paths) if learned is None else _in_its_form(recipe, learned),
        tokenizer=tokenizer,
        resampling=how,
    )
    if out is not None:
        write_text(out, comparison_page(result))
        print(f"wrote {out}", file=sys.stderr)
    print(
        json.dumps(_finite(asdict(result)), ensure_ascii=False, allow_nan=False)
        if as_json
        else comparison_text(result, shown=shown)
    )


def _check_page(out: Path | None) -> None:
    if out is None:
        return
    if out.suffix != ".html":
        raise SettingError(f"compare: --out is a page and ends in .html; got '{out}'.")
    if not out.parent.is_dir():
        raise SettingError(f"compare: there is no folder '{out.parent}' for '{out.name}'. Make it.")


def _names(paths: Sequence[Path]) -> dict[str, Path]:
    """The runs by the names of their folders; by their whole paths where those are alike."""
    short = [path.resolve().name for path in paths]
    named = {
        name if short.count(name) == 1 else str(path): path
        for name, path in zip(short, paths, strict=True)
    }
    if len(named) < len(paths):
        twice = next(str(path) for path in paths if list(paths).count(path) > 1)
        raise SettingError(f"compare: '{twice}' was given twice. Give each run once.")
    return named


def _check_one_form(paths: Sequence[Path]) -> None:
    """Refuse runs that learned from texts of several forms: no references suit them all."""
    forms = {path: form_name(read_recipe(path / "recipe.toml")) for path in paths}
    said = {
        path: "texts as they are" if form is None else f"texts in the form '{form}'"
        for path, form in forms.items()
    }
    for path in paths:
        if forms[path] != forms[paths[0]]:
            raise SettingError(
                f"compare: '{paths[0]}' learned from {said[paths[0]]}, but '{path}' from "
                f"{said[path]}. Give runs of one form, or the answers of one as --hypotheses "
                "NAME=FILE, which are brought to the form of the first run."
            )


def _in_its_form(recipe: Recipe | None, texts: Sequence[str]) -> list[str]:
    """Lines of a file in the form of the first run's data; as they are where there is no run."""
    return (
        list(texts)
        if recipe is None
        else [task_of(recipe).read_text(recipe, text) for text in texts]
    )


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
                f"compare: '{path}' has {len(found):,} lines, but there are {count:,} sentences. "
                "Give the answers to these sentences, a line each."
            )
        yield name, found


def _columns(files: Sequence[list[str]], paths: Sequence[Path]) -> list[tuple[str, ...]]:
    """The references of each sentence."""
    counts: Mapping[str, int] = {
        str(path): len(found) for path, found in zip(paths, files, strict=True)
    }
    if len(set(counts.values())) > 1 or not all(counts.values()):
        said = ", ".join(f"'{path}' has {count:,}" for path, count in counts.items())
        raise DataError(
            f"compare: references need as many lines as each other and at least one, but {said}."
        )
    return list(zip(*files, strict=True))


def _training_file(path: Path, recipe: Recipe | None) -> list[str]:
    """What the systems learned to write, as the caller gives it: alone, or beside its sources."""
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


def _training(recipe: Recipe | None, paths: Sequence[Path]) -> list[str] | None:
    """What the first run learned to write; None, with a word about it, where that is not here."""
    if recipe is None:
        return None
    try:
        read = examples_of(recipe.data.train, "train", paths[0])
        return [text for example in read() for text in example.targets]
    except RegardError as error:
        print(f"rare words are not told apart: {error}", file=sys.stderr)
        return None


def _finite(value: Any) -> Any:
    """The same as JSON can hold it: what is no number is null."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
