"""The reference, made from the code: verbs, keys of recipes, errors, and the public names."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING
from pathlib import Path
from types import ModuleType
from typing import Any

from regard import errors
from regard.choices import Choice
from regard.cli.verbs import VERBS, load_verb
from regard.data import GENERATORS, READERS
from regard.models.kinds import KINDS, NAMED_SIZES, Spec
from regard.models.spec import ExpertsSpec
from regard.recipes.keys import SECTIONS, keys_of

MODULES = (
    "regard", "regard.attention", "regard.parts", "regard.layers", "regard.positions",
    "regard.models", "regard.data", "regard.decoding", "regard.evaluating", "regard.inspecting",
    "regard.bridge", "regard.plots", "regard.tasks", "regard.recipes.recipe", "regard.runs.trained",
)  # fmt: skip
"""The modules whose public names are for users."""

PACKAGE = Path(errors.__file__).parent


def pages() -> Iterator[tuple[str, str]]:
    """Every page of the reference, by its path on the site."""
    yield "reference/verbs.md", verbs_page()
    yield "reference/recipe.md", recipe_page()
    yield "reference/errors.md", errors_page()
    for name in MODULES:
        yield f"reference/python/{name}.md", module_page(importlib.import_module(name))


def verbs_page() -> str:
    """The help of every verb, as the terminal shows it."""
    parts = ["# Verbs\n\nAfter this page you know every verb and every option of `regard`."]
    for verb in VERBS:
        for name, text in _helps(load_verb(verb), f"regard {verb}"):
            parts.append(f"{'#' * (len(name.split()))} {name}\n\n```text\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def _helps(command: Any, name: str) -> Iterator[tuple[str, str]]:
    """The help of a command and of those below it."""
    context = command.make_context(name, [], resilient_parsing=True, max_content_width=100)
    context.terminal_width = 100
    yield name, command.get_help(context)
    for below, each in getattr(command, "commands", {}).items():
        yield from _helps(each, f"{name} {below}")


def recipe_page() -> str:
    """Every key of a recipe with its type, default and meaning."""
    # the kinds of a model have a part of their own
    sections = {f"[{name}]": kinds[0] for name, kinds in SECTIONS.items() if name != "model"}
    parts = [
        "# Keys of a recipe",
        "After this page you know every key that a recipe may have. A key without a default has to "
        "be given. `regard train RECIPE --set section.key=value` changes one for a run, and [the "
        "page on training](../training.md) says how they work together.",
    ]
    for name, kind in sections.items():
        parts.append(f"## {name}\n\n{_summary(kind)}\n\n{key_table(kind)}")
    parts.append(
        "## [model]\n\n`model.kind` chooses the kind, and `model.size` a row of sizes for it; keys "
        "beside it win. What the kinds are for is told in [models](../models.md)."
    )
    for kind in sorted(Spec.__args__, key=lambda one: list(KINDS).index(one.kind)):
        parts.append(f'### kind = "{kind.kind}"\n\n{_summary(kind)}\n\n{key_table(kind)}')
        if sizes := NAMED_SIZES.get(kind.kind):
            parts.append(_size_table(sizes))
    parts.append(f"### model.experts\n\n{_summary(ExpertsSpec)}\n\n{key_table(ExpertsSpec)}")
    parts.append(
        "## Readers and generators\n\nWhat `data.train`, `data.valid` and `data.test` may name: "
        '`train = { name = "tsv", path = "pairs.tsv" }`.'
    )
    for name, reader in READERS.items():
        parts.append(f'### name = "{name}"\n\n{_summary(reader)}\n\n{key_table(reader)}')
    for name, generator in GENERATORS.items():
        parts.append(f'### name = "{name}"\n\n{_settings_table(generator)}')
    return "\n\n".join(parts) + "\n"


def key_table(kind: type) -> str:
    """The fields of a dataclass as a table."""
    rows = ["| key | type | default | meaning |", "|---|---|---|---|"]
    for key in keys_of(kind):
        default = _cell(_default(key.default))
        rows.append(f"| `{key.name}` | {_cell(key.annotation)} | {default} | {key.meaning} |")
    return "\n".join(rows)


def _default(value: Any) -> str:
    if value is MISSING:
        return ""
    if isinstance(value, Choice):
        value = value.name if not value.settings else {"name": value.name, **value.settings}
    if value is None:
        return "none"
    return repr(value).replace("'", '"').replace("True", "true").replace("False", "false")


def _size_table(sizes: Any) -> str:
    lines = ["| size | sets |", "|---|---|"]
    for name, keys in sizes.items():
        held = ", ".join(
            f"{key} = {getattr(value, 'name', value)!r}" for key, value in keys.items()
        )
        lines.append(f"| `{name}` | {_cell(held)} |")
    return "\n".join(lines)


GENERATOR_KEYS = {
    "count": "How many examples.",
    "seed": "Another seed gives other examples.",
    "min_letters": "The shortest source.",
    "max_letters": "The longest source.",
    "languages": "Codes of languages, such as en; all 22 unless given.",
    "first_year": "The first year that a date may have.",
    "last_year": "The last year that a date may have.",
    "min_objects": "The fewest objects of a drawn picture.",
    "max_objects": "The most objects of a drawn picture.",
}
"""What the settings of generators mean."""


def _settings_table(generator: Any) -> str:
    _, *settings = inspect.signature(generator).parameters.values()
    rows = ["| key | default | meaning |", "|---|---|---|"]
    for one in settings:
        default = "" if one.default is inspect.Parameter.empty else repr(one.default)
        shown = _cell(default) if len(default) < 60 else "all"
        rows.append(f"| `{one.name}` | {shown} | {GENERATOR_KEYS[one.name]} |")
    return "\n".join(rows)


def _cell(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else ""


def errors_page() -> str:
    """Every class of error, what it means, and the parts of regard that raise it."""
    raised = _raised()
    lines = [
        "# Errors",
        "",
        "After this page you know every error that regard raises for a user. Each is a "
        "`RegardError`, which is a `ValueError`; its message names the part, what was expected, "
        "what came, and what to do. In the shell it is one or two lines and exit code 2; 1 is a "
        "failure that is no mistake of yours, such as a full disk, and 130 a training that was "
        "stopped.",
        "",
        "```python",
        "import regard",
        "",
        "try:",
        '    regard.load("runs/nowhere")',
        "except regard.RegardError as error:",
        "    print(error)",
        "```",
        "",
        "| error | is | raised in |",
        "|---|---|---|",
    ]
    for kind in error_classes():
        rooms = ", ".join(sorted(raised.get(kind.__name__, ()))) or "its kinds"
        lines.append(f"| `{kind.__name__}` | {_summary(kind)} | {rooms} |")
    return "\n".join(lines) + "\n"


def error_classes() -> list[type[errors.RegardError]]:
    """The base class and all that stand in `regard.errors`."""
    return [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.RegardError)
    ]


def _raised() -> dict[str, set[str]]:
    """The rooms whose files raise each class."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for name in re.findall(r"raise (\w+)\(", path.read_text(encoding="utf-8")):
            found.setdefault(name, set()).add(f"`{room}`")
    return found


def module_page(module: ModuleType) -> str:
    """The public names of a module, with signatures and docstrings."""
    parts = [f"# {module.__name__}", markdown(inspect.getdoc(module) or "")]
    for name in getattr(module, "__all__", None) or _own_names(module):
        parts.append(_entry(module, name, getattr(module, name)))
    return "\n\n".join(parts) + "\n"


def _own_names(module: ModuleType) -> list[str]:
    return sorted(
        name
        for name, held in vars(module).items()
        if not name.startswith("_") and getattr(held, "__module__", "") == module.__name__
    )


def _entry(module: ModuleType, name: str, held: Any) -> str:
    if not (inspect.isclass(held) or inspect.isfunction(held)):
        keys = f": {', '.join(f'`{key}`' for key in held)}." if isinstance(held, dict) else ""
        return f"## {name}\n\n`{name}` is a constant of `{module.__name__}`{keys}"
    parts = [f"## {name}", _signature(held), markdown(inspect.getdoc(held) or "")]
    if inspect.isclass(held):
        for below, method in vars(held).items():
            is_public = not below.startswith("_") or below == "__call__"
            function = method.fget if isinstance(method, property) else method
            function = getattr(function, "__func__", function)
            if is_public and inspect.isfunction(function) and function.__doc__:
                parts += [_signature(function), markdown(inspect.getdoc(function) or "")]
    return "\n\n".join(part for part in parts if part)


def _signature(held: Any) -> str:
    """Name, parameters and types as its source has them."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(held))).body
    except (OSError, TypeError):
        return ""
    if isinstance(tree, ast.ClassDef):
        return f"```python\nclass {tree.name}{_listed(_class_parameters(tree))}\n```"
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    word = "def" if isinstance(tree, ast.FunctionDef) else "async def"
    is_property = any(ast.unparse(one) == "property" for one in tree.decorator_list)
    back = f" -> {ast.unparse(tree.returns)}" if tree.returns else ""
    start = (
        f"{tree.name}" if is_property else f"{word} {tree.name}{_listed(_parameters(tree.args))}"
    )
    return f"```python\n{start}{back}\n```"


def _class_parameters(tree: ast.ClassDef) -> list[str]:
    """What makes an instance: the parameters of `__init__`, or the fields of a dataclass."""
    for one in tree.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            return _parameters(one.args)
    is_data = any("dataclass" in ast.unparse(one) for one in tree.decorator_list)
    fields = [one for one in tree.body if isinstance(one, ast.AnnAssign)]
    public = [ast.unparse(one) for one in fields if not ast.unparse(one.target).startswith("_")]
    return [one for one in public if "ClassVar" not in one] if is_data else []


def _parameters(arguments: ast.arguments) -> list[str]:
    """Each parameter with its type and default."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    found = [_parameter(*pair) for pair in zip(plain, defaults, strict=True)]
    if arguments.vararg:
        found.append(f"*{ast.unparse(arguments.vararg)}")
    elif arguments.kwonlyargs:
        found.append("*")
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return [one for one in (*found, *(_parameter(*pair) for pair in pairs)) if one != "self"]


def _parameter(one: ast.arg, default: ast.expr | None) -> str:
    equals = " = " if one.annotation else "="
    return ast.unparse(one) + ("" if default is None else f"{equals}{ast.unparse(default)}")


def _listed(parts: list[str]) -> str:
    """Parameters in parentheses, one a line where they are many."""
    line = f"({', '.join(parts)})"
    return line if len(line) < 80 else "(\n    " + ",\n    ".join(parts) + ",\n)"


def _summary(held: Any) -> str:
    return _escaped(" ".join((inspect.getdoc(held) or "").partition("\n\n")[0].split()))


def markdown(text: str) -> str:
    """A docstring as Markdown: examples and equations as code, arguments as a list."""
    lines, out, is_example = text.splitlines(), [], False
    for number, line in enumerate(lines):
        if line.startswith(">>>") and not is_example:
            out += ["", "```pycon"]
            is_example = True
        if is_example and not line.strip():
            out.append("```")
            is_example = False
        if (found := re.fullmatch(r" {4}(\w+): (.*)", line)) and "Args:" in lines[:number]:
            out.append(f"- `{found[1]}`: {_escaped(found[2])}")
        elif re.match(r" {8}\S", line) and "Args:" in lines[:number]:
            out.append(f"  {_escaped(line.strip())}")
        elif line == "Args:":
            out.append("Arguments:\n")
        else:
            is_prose = not is_example and not line.startswith("    ")
            out.append(_escaped(line) if is_prose else line)
    return "\n".join([*out, *["```"] * is_example])


def _escaped(line: str) -> str:
    """A line whose angle brackets and stars are no markup, outside of code."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(
        part if part.startswith("`") else re.sub(r"([<*|])", r"\\\1", part) for part in parts
    )
