"""Importing: a folder in Hugging Face's layout → a run directory that works like any other.

Nothing is run and nothing is guessed: sizes come from config.json, every tensor has its place in a
family's table, and what is missing, left over or of another shape is named.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import tomli_w
from torch import Tensor

from regard.choices import Choice
from regard.data.atomic_writes import write_text
from regard.data.kinds import MASK_PIECE
from regard.data.subwords import Subwords
from regard.errors import CheckpointError, RunError
from regard.interop.importing.card import write_imported_card
from regard.interop.importing.families import FAMILIES, Family
from regard.interop.importing.folder import Folder
from regard.interop.importing.layouts import Rows, converted, left_rows
from regard.interop.importing.vocabularies import Vocabulary, vocabularies
from regard.models import Spec, build_model, shapes_of
from regard.recipes.recipe import DataRecipe, Recipe, TokensRecipe, TrainingRecipe
from regard.tasks import task_of
from regard.tasks.loaded import subword_files
from regard.training.card_json import MODEL
from regard.training.checkpoints import load_weights, write_tensors
from regard.training.run_folder import check_can_be_made


@final
@dataclass(frozen=True)
class Imported:
    """What a folder holds, as ours."""

    folder: Folder
    recipe: Recipe
    weights: Mapping[str, Tensor]
    source: Subwords
    target: Subwords
    rows: Mapping[str, Rows]
    """The row that each piece of a side has in the published table."""
    notes: tuple[str, ...]
    """What a reader should know."""


def read_published(path: Path) -> Imported:
    """Read a folder; anything that does not fit together is refused."""
    folder = Folder(path)
    family = _family(folder)
    spec = family.spec(folder)
    found = vocabularies(folder, family.roles)
    source, target = found[0], found[-1]
    recipe = _recipe(folder, spec, found)
    if task_of(recipe).n_special_pieces and not source.subwords.has_mask:
        raise CheckpointError(
            f"import: '{folder.path}': the model guesses hidden words, but its vocabulary has no "
            f"'{family.roles.mask or MASK_PIECE}' to hide them with."
        )
    n_source, n_target = len(source.subwords), len(target.subwords)
    tensors = _named(family, folder.tensors())
    layout = family.layout(spec)
    rows = {"source": source.rows, "target": target.rows}
    shapes = shapes_of(spec, n_source_tokens=n_source, n_target_tokens=n_target)
    return Imported(
        folder,
        recipe,
        converted(layout, tensors, rows, shapes),
        source.subwords,
        target.subwords,
        rows,
        family.notes(folder) + left_rows(layout, tensors, rows),
    )


def import_run(path: Path, out: Path) -> Imported:
    """Write a run directory from a folder; a run is never overwritten."""
    check_can_be_made(out, "import")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"import: '{out}' is not empty. Choose another --out.")
    imported = read_published(path)
    recipe, sides = imported.recipe, (imported.source, imported.target)
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "recipe.toml", _said(imported) + tomli_w.dumps(recipe.as_table()))
    for name, subwords in zip(subword_files(recipe), sides, strict=False):
        subwords.save(out / name)
    write_imported_card(out, imported.folder.path, imported.notes, imported.weights)
    # last of all, since a run with weights is a finished one
    write_tensors(out / MODEL, imported.weights)
    _check_works(out, imported)
    return imported


def _family(folder: Folder) -> Family:
    name = folder.setting(str, "model_type")
    if name not in FAMILIES:
        *most, last = FAMILIES
        raise CheckpointError(
            f"import: '{folder.path}' holds a model of type '{name}', which is not read here. Give "
            f"a model of type {', '.join(most)} or {last}."
        )
    return FAMILIES[name]


def _named(family: Family, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors without the prefix that some files have, and by the later of two habits of naming."""
    return {
        name.removeprefix(family.prefix)
        .replace("LayerNorm.gamma", "LayerNorm.weight")
        .replace("LayerNorm.beta", "LayerNorm.bias"): tensor
        for name, tensor in tensors.items()
    }


def _recipe(folder: Folder, spec: Spec, found: tuple[Vocabulary, ...]) -> Recipe:
    elsewhere = Choice("elsewhere", {"model": folder.path.resolve().name})
    return Recipe(
        data=DataRecipe(train=elsewhere, valid=elsewhere, max_tokens=max(2, spec.max_len)),
        tokens=TokensRecipe(
            kind=found[0].subwords.kind.name,
            size=max(len(one.subwords) for one in found),
            is_joint=len(found) == 1,
        ),
        model=spec,
        training=TrainingRecipe(steps=1),
    )


def _said(imported: Imported) -> str:
    """What stands above the recipe."""
    return (
        f"# Imported from '{imported.folder.path.resolve().name}' by regard import.\n"
        "# [data] and [training] stand here because every recipe has them: the model learned "
        "elsewhere.\n\n"
    )


def _check_works(out: Path, imported: Imported) -> None:
    """The weights as they were written fit the model that the recipe describes."""
    model = build_model(
        imported.recipe.model,
        n_source_tokens=len(imported.source),
        n_target_tokens=len(imported.target),
    )
    load_weights(out / MODEL, model)
