"""A published model: a folder in Hugging Face's layout → a run directory like any other.

No code is run and no value is guessed: sizes come from config.json, every tensor has its place in a
family's table, and what is missing, left over or of another shape is named.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import tomli_w
from torch import Tensor

import regard
from regard.choices import Choice
from regard.data.atomic_writes import PARTIAL, write_text
from regard.data.subwords import Subwords
from regard.errors import RunError
from regard.hardware.memory import available_memory
from regard.interop.importing.bart import BART, M2M100, MBART
from regard.interop.importing.bert import BERT
from regard.interop.importing.big_bird import BIG_BIRD
from regard.interop.importing.family import (
    GOES_ON,
    NO_LANGUAGES,
    READS,
    WRITES,
    Family,
    Languages,
    PieceRows,
    check_forms,
    converted,
    left_rows,
)
from regard.interop.importing.folder import CONFIG, Folder
from regard.interop.importing.gpt2 import GPT2
from regard.interop.importing.llama import LLAMA, QWEN2, QWEN3
from regard.interop.importing.marian import MARIAN
from regard.interop.importing.roberta import ROBERTA, XLM_ROBERTA
from regard.interop.importing.t5 import T5
from regard.interop.importing.vocabularies import Vocabulary, vocabularies
from regard.models import Spec, build_model, shapes_of
from regard.recipes.recipe import DataRecipe, Recipe, TokensRecipe
from regard.recipes.training_recipe import TrainingRecipe
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
    one.model_type: one
    for one in (
        BERT,
        ROBERTA,
        XLM_ROBERTA,
        BIG_BIRD,
        MARIAN,
        BART,
        MBART,
        M2M100,
        T5,
        GPT2,
        LLAMA,
        QWEN2,
        QWEN3,
    )
}
"""By config.json's `model_type`."""
BYTES = 4
"""Of a number as it is kept."""


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


def read_published(path: Path, languages: Languages = NO_LANGUAGES) -> Imported:
    """Read a folder; inconsistent files are refused.

    A model of many languages is read as one that translates between two of them.
    """
    folder = Folder(path)
    folder.check_safe()
    family = _family(folder)
    spec = family.spec(folder)
    sides = vocabularies(folder, family.sides, languages)
    source, target = sides[0], sides[-1]
    recipe = _recipe(folder, spec, sides)
    if task_of(recipe).hides_words and not source.subwords.has_mask:
        raise folder.refusal(
            ": the model guesses hidden words, but its vocabulary has no piece ([MASK] or "
            "<mask>) to hide them with."
        )
    n_source, n_target = len(source.subwords), len(target.subwords)
    layout = family.layout(folder, spec)
    rows = {"source": source.rows, "target": target.rows}
    shapes = shapes_of(spec, n_source_tokens=n_source, n_target_tokens=n_target)
    _check_memory(folder, shapes)
    stored = folder.tensor_shapes()
    names = {_name(family, name): name for name in stored}
    found = {name: stored[there] for name, there in names.items()}
    needed = check_forms(layout, found, shapes)
    read = folder.tensors({names[name] for name in needed})
    tensors = {name: read[names[name]] for name in needed}
    return Imported(
        folder,
        recipe,
        converted(layout, tensors, rows, shapes),
        source.subwords,
        target.subwords,
        rows,
        family.notes(folder) + left_rows(layout, tensors, rows),
    )


def import_run(path: Path, out: Path, languages: Languages = NO_LANGUAGES) -> Imported:
    """Write a run directory from a folder; a run is never overwritten."""
    check_can_be_made(out, "import")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"import: '{out}' is not empty. Choose another --out.")
    imported = read_published(path, languages)
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
        form = _form(folder.config)
        *most, last = [one.model_type for one in FAMILIES.values() if one.form == form]
        raise folder.refusal(
            f" holds a model of type '{name}', which is not read here. It is {form}; of those, "
            f"{', '.join(most)} and {last} are read. It can be looked at as it is: regard look "
            f"--model {folder.path}."
        )
    return FAMILIES[name]


def _form(config: Mapping[str, Any]) -> str:
    """What a model does, by what its configuration says; that of an encoder if it says nothing."""
    names = config.get("architectures")
    named = str(names[0]) if isinstance(names, list) and names else ""
    if config.get("is_encoder_decoder") is True or "ConditionalGeneration" in named:
        return WRITES
    goes_on = "CausalLM" in named or "LMHead" in named or config.get("is_decoder") is True
    return GOES_ON if goes_on else READS


def _name(family: Family[Any], name: str) -> str:
    """A tensor's name without the prefix of some files, by the later of two habits of naming."""
    return (
        name.removeprefix(family.prefix)
        .replace("LayerNorm.gamma", "LayerNorm.weight")
        .replace("LayerNorm.beta", "LayerNorm.bias")
    )


def _check_memory(folder: Folder, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a model that does not fit here, before any of it is read."""
    needed = BYTES * sum(map(math.prod, shapes.values()))
    if needed > (free := available_memory()):
        raise folder.refusal(
            f": the model that it describes takes {needed / 2**30:,.1f} GiB, and this machine has "
            f"{free / 2**30:,.1f} free. Import it on a larger one.",
            CONFIG,
        )


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
