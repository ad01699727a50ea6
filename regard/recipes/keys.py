"""Keys of a recipe: what each is called, takes, has by default and means, and all as JSON Schema.

They are read off the dataclasses that recipes become, and the texts below their fields.
"""

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

from regard.choices import Choice
from regard.models.kinds import NAMED_SIZES, Spec
from regard.recipes.cache_recipe import CacheRecipe
from regard.recipes.decoding_recipe import DecodingRecipe
from regard.recipes.recipe import DataRecipe, PicturesRecipe, TokensRecipe
from regard.recipes.training_recipe import TrainingRecipe

SECTIONS: Mapping[str, tuple[type, ...]] = {
    "data": (DataRecipe,),
    "tokens": (TokensRecipe,),
    "pictures": (PicturesRecipe,),
    "model": get_args(Spec),
    "decoding": (DecodingRecipe,),
    "cache": (CacheRecipe,),
    "training": (TrainingRecipe,),
}
"""The sections of a recipe, and the dataclasses that each may become; a model's by its kind."""
JSON_TYPES: Mapping[Any, str] = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    Path: "string",
}


@dataclass(frozen=True)
class RecipeKey:
    """A key of a section."""

    name: str
    hint: Any
    """Its type."""
    default: Any
    """MISSING if it must be given."""
    annotation: str
    """Its type as the code writes it."""
    meaning: str
    """Empty if its name says all."""


@cache
def keys_of(kind: type) -> tuple[RecipeKey, ...]:
    """The keys of a dataclass of settings, in their order."""
    hints, written = get_type_hints(kind), _written(kind)
    return tuple(
        RecipeKey(field.name, hints[field.name], default_of(field), *written[field.name])
        for field in fields(kind)
    )


def _written(kind: type) -> dict[str, tuple[str, str]]:
    """The annotation and the text below each field, where a class or one of its bases has them."""
    found: dict[str, tuple[str, str]] = {}
    for each in reversed(kind.__mro__):
        if not each.__module__.startswith("regard"):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(tree, ast.ClassDef)
        for one, below in zip(tree.body, [*tree.body[1:], None], strict=True):
            match one, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name), annotation=annotation),
                    ast.Expr(value=ast.Constant(value=str() as text)),
                ):
                    found[name] = (ast.unparse(annotation), " ".join(text.split()))
                case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation), _:
                    found[name] = (ast.unparse(annotation), found.get(name, ("", ""))[1])
    return found


def default_of(field: "Field[Any]") -> Any:
    """The default of a field; MISSING if it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def key_paths() -> Iterator[str]:
    """Every key with its section, such as training.steps; those of all kinds of models."""
    for section, kinds in SECTIONS.items():
        yield from dict.fromkeys(f"{section}.{key.name}" for kind in kinds for key in keys_of(kind))


def json_schema() -> dict[str, Any]:
    """A JSON Schema of recipes, with which editors complete and explain keys."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a recipe of regard",
        "type": "object",
        "properties": {name: _section(name, kinds) for name, kinds in SECTIONS.items()},
        "required": ["data", "training"],
        "additionalProperties": False,
    }


def _section(name: str, kinds: Sequence[type]) -> dict[str, Any]:
    if len(kinds) == 1:
        return _table(kinds[0], {})
    # a model without a kind is of the first
    by_kind = {str(default_of(fields(kind)[0])): kind for kind in kinds}
    first = next(iter(by_kind))
    tables = {kind: _table(spec, _fixed(kind)) for kind, spec in by_kind.items()}
    others = [
        {
            "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
            "then": table,
        }
        for kind, table in tables.items()
        if kind != first
    ]
    without = {"not": {"required": ["kind"]}}
    is_first = {"anyOf": [without, {"properties": {"kind": {"const": first}}}]}
    kind_key = {"kind": {"enum": list(by_kind)}}
    return {
        "type": "object",
        "properties": kind_key,
        "allOf": [{"if": is_first, "then": tables[first]}, *others],
    }


def _fixed(kind: str) -> dict[str, Any]:
    sizes = NAMED_SIZES.get(kind, {})
    size = {"size": {"enum": list(sizes), "description": "A named size; other keys win."}}
    return {"kind": {"const": kind}, **(size if sizes else {})}


def _table(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a dataclass; `given` are keys that are known otherwise."""
    tables = getattr(kind, "tables", {})
    properties = {
        key.name: {**_value(key.hint, tables.get(key.name)), **_described(key)}
        for key in keys_of(kind)
    }
    required = [key.name for key in keys_of(kind) if key.default is MISSING]
    return {
        "type": "object",
        "properties": {**properties, **given},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _described(key: RecipeKey) -> dict[str, Any]:
    described = {"description": key.meaning} if key.meaning else {}
    is_plain = isinstance(key.default, int | float | str | bool)
    return {**described, **({"default": key.default} if is_plain else {})}


def _value(hint: Any, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The schema of a value; `names` are those that it may have, alone or with settings."""
    if get_origin(hint) in (Union, types.UnionType):
        options = [_value(each, names) for each in get_args(hint) if each is not type(None)]
        return options[0] if len(options) == 1 else {"anyOf": options}
    if hint is Choice:
        name = {"enum": list(names)} if names else {"type": "string"}
        table = {"type": "object", "properties": {"name": name}, "required": ["name"]}
        # a text may hold settings too: "shaw:clip=16"
        return {"anyOf": [{"type": "string"}, table]}
    if get_origin(hint) in (tuple, Sequence):
        one = _value(get_args(hint)[0], names)
        return {"anyOf": [one, {"type": "array", "items": one}]}
    if get_origin(hint) in (dict, Mapping):
        return {"type": "object", "additionalProperties": _value(get_args(hint)[1])}
    if hint in JSON_TYPES:
        return {"enum": list(names)} if names and hint is str else {"type": JSON_TYPES[hint]}
    return _table(hint, {})
