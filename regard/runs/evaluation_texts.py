"""The texts on which a run is evaluated: files that the caller gives, or a split of its data."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from regard.choices import Choice, find
from regard.data import READERS, Example, reader_for
from regard.data.readers import ImportedData
from regard.errors import DataError, SettingError
from regard.recipes.data_paths import examples_of
from regard.recipes.recipe import Recipe
from regard.tasks.input_format import holds_both_sides, reader_of_file, text_of_line

SPLITS: Mapping[str, Callable[[Recipe], Choice | None]] = {
    "valid": lambda recipe: recipe.data.valid,
    "test": lambda recipe: recipe.data.test,
}
"""The splits on which a run can be evaluated, since it has not learned from them."""


def texts_of_files(
    source: Path, references: Sequence[Path], recipe: Recipe | None = None, run: Path | None = None
) -> list[Example]:
    """Examples from parallel files, or from one .tsv, .jsonl or .conllu file with both sides.

    With the recipe of a run, a single file is read as the run's data are, and pictures that it
    names are found from the run's directory.
    """
    train = None if recipe is None else recipe.data.train
    # a run's own form is that of sources: references may have tabs
    forms = {source: train, **dict.fromkeys(references)} if references else {}
    for path, form in forms.items():
        if held := holds_both_sides(form, path):
            raise DataError(
                f"test texts: '{path}' holds {held}, and so both sides, but two files were given, "
                "and their lines would be taken for texts. Give it alone, as --source."
            )
    like = reader_of_file(recipe, source, run) if recipe and not references else None
    remedy = "Give the answers to its texts with --reference."
    found = list((like or reader_for([source, *references], remedy=remedy)).examples())
    if not found:
        raise DataError(f"test texts: '{source}' is empty. Give at least one line.")
    if train is None or like is not None:
        return found
    return [
        replace(one, source=text_of_line(train, one.source, f"'{source}', line {number}"))
        for number, one in enumerate(found, 1)
    ]


def texts_of_split(recipe: Recipe, split: str, run: Path | None = None) -> list[Example]:
    """The split "valid" or "test" of a recipe's data; paths start from the run's directory."""
    choice = find(split, SPLITS, key="--split")(recipe)
    if choice is None:
        is_imported = READERS.get(recipe.data.valid.name) is ImportedData
        raise SettingError(
            f"test texts: the recipe has no data.{split}. Give --source and --reference"
            + ("." if is_imported else ", or take --split valid.")
        )
    found = list(examples_of(choice, split, run)())
    if not found:
        raise DataError(f"test texts: data.{split} is empty. Give at least one example.")
    return found


def chosen_texts(
    recipe: Recipe | None,
    source: Path | None,
    references: Sequence[Path],
    split: str | None,
    run: Path | None = None,
) -> list[Example]:
    """Test texts by files, or by a split of a run's data; `recipe` is None without a run."""
    if split is None and source is not None:
        return texts_of_files(source, references, recipe, run)
    if split is not None and recipe is not None and source is None and not references:
        return texts_of_split(recipe, split, run)
    given = {"--source": source, "--reference": references, "--split": split, "a run": recipe}
    names = ", ".join(name for name, value in given.items() if value) or "nothing"
    raise SettingError(
        f"test texts: expected --source with --reference, or a run with --split, got {names}. "
        "Give one of the two."
    )


def places_of_short(
    found: Sequence[Example], *, max_source_words: int | None, max_target_words: int | None
) -> list[int]:
    """The places of texts with at most so many words; of several references the first counts."""
    for side, limit in (("source", max_source_words), ("target", max_target_words)):
        if limit is not None and limit < 1:
            raise SettingError(f"--max-{side}-words must be at least 1, got {limit}.")
    most_source, most_target = max_source_words or math.inf, max_target_words or math.inf
    lengths = ((len(one.source.split()), len(one.targets[0].split())) for one in found)
    short = [i for i, (n, m) in enumerate(lengths) if n <= most_source and m <= most_target]
    if not short:
        raise DataError(
            f"test texts: all {len(found):,} have more words than --max-source-words or "
            "--max-target-words allows. Give a larger limit, or leave it out."
        )
    return short


def texts_asked_for(
    recipe: Recipe,
    sources: Path | str | Sequence[str] | None,
    references: Path | str | Sequence[str] | Sequence[Sequence[str]],
    split: str | None,
    run: Path,
) -> tuple[list[Example], str]:
    """The texts that a caller in Python means, and how a report calls them."""
    if sources is None and not references:
        split = split or ("valid" if recipe.data.test is None else "test")
    if split is not None or isinstance(sources, str | Path) or sources is None:
        named = [references] if isinstance(references, str | Path) else references
        files = [Path(file) for file in named if isinstance(file, str | Path)]
        source = Path(sources) if isinstance(sources, str | Path) else None
        name = f"split {split}" if split else " ".join(map(str, [source, *files]))
        return chosen_texts(recipe, source, files, split, run), name
    if isinstance(references, str | Path) or len(sources) != len(references):
        raise DataError(
            f"evaluate: expected a reference for each of {len(sources):,} texts, got "
            f"{'a file' if isinstance(references, str | Path) else f'{len(references):,}'}. Give a "
            "list with one for each, or with a list of several."
        )
    pairs = zip(sources, references, strict=True)
    found = [
        Example(
            text_of_line(recipe.data.train, text, f"text {number}"),
            (wanted,) if isinstance(wanted, str) else tuple(wanted),
        )
        for number, (text, wanted) in enumerate(pairs, 1)
    ]
    return found, "texts given in Python"
