"""Texts that a run is evaluated on: files that the caller gives, or a split of the recipe's data.

What the verbs evaluate, compare and verify read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from regard.choices import Choice, find
from regard.data import READERS, Example, reader_for
from regard.data.imported_data import LearnedElsewhere
from regard.data.readers import Reader
from regard.errors import DataError, SettingError
from regard.recipes.data_paths import examples_of
from regard.recipes.recipe import Recipe
from regard.tasks.input_format import holds_both_sides, reader_like, text_like

SPLITS: Mapping[str, Callable[[Recipe], Choice | None]] = {
    "valid": lambda recipe: recipe.data.valid,
    "test": lambda recipe: recipe.data.test,
}
"""What a run can be evaluated on: data that it has not learned from."""


def texts_of_files(
    source: Path,
    references: Sequence[Path],
    recipe: Recipe | None = None,
    run: Path | None = None,
) -> list[Example]:
    """Lines that belong together; a .tsv, .jsonl or .conllu file alone holds both sides.

    Args:
        source: a file.
        references: files whose lines answer the source's.
        recipe: of a run; a file that comes alone is read as its data are.
        run: the run's directory, from which pictures are found that the file names.
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
    like: Reader | None = None
    if recipe is not None and not references:
        like = reader_like(recipe, source, run)
    found = list((like or reader_for([source, *references])).examples())
    if not found:
        raise DataError(f"test texts: '{source}' is empty. Give at least one line.")
    if train is None or like is not None:
        return found
    return [
        replace(one, source=text_like(train, one.source, f"'{source}', line {number}"))
        for number, one in enumerate(found, 1)
    ]


def texts_of_split(recipe: Recipe, split: str, run: Path | None = None) -> list[Example]:
    """A split of the recipe's data, with all its references.

    Args:
        recipe: of the run.
        split: "valid" or "test".
        run: the run's directory, from which its data are found; without, paths start from here.
    """
    choice = find(split, SPLITS, key="--split")(recipe)
    if choice is None:
        is_imported = READERS.get(recipe.data.valid.name) is LearnedElsewhere
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
    """Test texts as they were asked for: by files, or by a split of a recipe's data.

    Args:
        recipe: of the run; None where there is no run.
        source: a file.
        references: files whose lines answer the source's.
        split: "valid" or "test".
        run: the run's directory, from which its data are found.
    """
    if split is None and source is not None:
        return texts_of_files(source, references, recipe, run)
    if split is not None and recipe is not None and source is None and not references:
        return texts_of_split(recipe, split, run)
    given = {"--source": source, "--reference": references, "--split": split, "a run": recipe}
    said = ", ".join(name for name, value in given.items() if value) or "nothing"
    raise SettingError(
        f"test texts: expected --source with --reference, or a run with --split, got {said}. "
        "Give one of the two."
    )


def places_of_short(
    found: Sequence[Example], *, max_source_words: int | None, max_target_words: int | None
) -> list[int]:
    """Where the texts stand that have no more words between spaces than asked for; all if not.

    Args:
        found: test texts; of several references the first counts.
        max_source_words: of the source.
        max_target_words: of the reference.
    """
    limits = {"source": max_source_words, "target": max_target_words}
    for side, limit in limits.items():
        if limit is not None and limit < 1:
            raise SettingError(f"--max-{side}-words must be at least 1, got {limit}.")
    kept = [
        place
        for place, example in enumerate(found)
        if (max_source_words is None or len(example.source.split()) <= max_source_words)
        and (max_target_words is None or len(example.targets[0].split()) <= max_target_words)
    ]
    if not kept:
        raise DataError(f"test texts: all {len(found):,} have more words than asked for.")
    return kept
