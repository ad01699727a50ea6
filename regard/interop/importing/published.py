"""A published model: a folder in Hugging Face's layout → a run directory like any other.

No code is run and no value is guessed: sizes come from config.json, every tensor has its place in a
family's table, and what is missing, left over or of another shape is named.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import tomli_w
from torch import Tensor

import regard
from regard.choices import Choice
from regard.data.atomic_writes import PARTIAL, write_text
from regard.data.subword_kinds import MASK_PIECE
from regard.data.subwords import Subwords
from regard.errors import RunError
from regard.interop.importing.bert import BERT
from regard.interop.importing.big_bird import BIG_BIRD
from regard.interop.importing.family import Family, PieceRows, converted, left_rows
from regard.interop.importing.folder import Folder
from regard.interop.importing.gpt2 import GPT2
from regard.interop.importing.marian import MARIAN
from regard.interop.importing.vocabularies import Vocabulary, vocabularies
from regard.models import Spec, build_model, shapes_of
from regard.recipes.recipe import DataRecipe, Recipe, TokensRecipe, TrainingRecipe
from regard.tasks import task_of
from regard.tasks.loaded_run import subword_files
from regard.training.card_json import (
    MODEL,
    Quoted,
    QuotedFile,
    code_hash,
    file_hash,
    quoted_text,
    weights_hash,
)
from regard.training.checkpoints import load_weights, write_tensors
from regard.training.run_folder import check_can_be_made

FAMILIES: Mapping[str, Family[Any]] = {
    one.model_type: one for one in (BERT, BIG_BIRD, MARIAN, GPT2)
}
"""By config.json's `model_type`."""


@final
@dataclass(frozen=True)
class Imported:
    """The content of a folder, converted to our spec, vocabularies and tensors."""

    folder: Folder
    recipe: Recipe
    weights: Mapping[str, Tensor]
    source: Subwords
    target: Subwords
    rows: Mapping[str, PieceRows]
    """The row that each piece of a side has in the published table."""
    notes: tuple[str, ...]
    """Notes for the reader of the card."""


def read_published(path: Path) -> Imported:
    """Read a folder; inconsistent files are refused."""
    folder = Folder(path)
    family = _family(folder)
    spec = family.spec(folder)
    found = vocabularies(folder, family.roles)
    source, target = found[0], found[-1]
    recipe = _recipe(folder, spec, found)
    if task_of(recipe).hides_words and not source.subwords.has_mask:
        raise folder.refusal(
            ": the model guesses hidden words, but its vocabulary has no "
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
    heading = (
        f"# Imported from '{imported.folder.path.resolve().name}' by regard import.\n"
        "# [data] and [training] stand here because every recipe has them: the model learned "
        "elsewhere.\n\n"
    )
    write_text(out / "recipe.toml", heading + tomli_w.dumps(recipe.as_table()))
    for name, subwords in zip(subword_files(recipe), sides, strict=False):
        subwords.save(out / name)
    write_text(out / "card.md", _card(out, imported))
    # written last, since a run with weights counts as finished
    write_tensors(out / MODEL, imported.weights)
    model = build_model(
        recipe.model, n_source_tokens=len(imported.source), n_target_tokens=len(imported.target)
    )
    # the weights as they were written fit the model that the recipe describes
    load_weights(out / MODEL, model)
    return imported


def _family(folder: Folder) -> Family[Any]:
    name = folder.setting(str, "model_type")
    if name not in FAMILIES:
        *most, last = FAMILIES
        raise folder.refusal(
            f" holds a model of type '{name}', which is not read here. Give a model of type "
            f"{', '.join(most)} or {last}."
        )
    return FAMILIES[name]


def _named(family: Family[Any], tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
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


def _card(run: Path, imported: Imported) -> str:
    """The card of a run; all files but the weights exist already."""
    folder = imported.folder.path
    files = tuple(
        QuotedFile("published", str(path), file_hash(path))
        for path in sorted(folder.iterdir())
        if path.is_file()
    )
    own = {path.name: file_hash(path) for path in sorted(run.iterdir()) if path.suffix != PARTIAL}
    own[MODEL] = weights_hash(imported.weights)
    quoted = Quoted(files, own, None, {"regard": regard.__version__, "code": code_hash()})
    lines = "\n".join(f"| {Path(file.path).name} | SHA-256 {file.sha256} |" for file in files)
    parts = [
        f"# {run.name}",
        f"Imported from `{folder.resolve().name}`; the model learned elsewhere, and nothing was "
        "trained here.",
        "\n".join(f"* {note}" for note in imported.notes),
        f"## Imported from\n\n| | |\n|---|---|\n{lines}",
        quoted_text(quoted),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
