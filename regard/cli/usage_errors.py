"""Mistakes in the words of a command line: typer's errors → errors of ours, with their remedies.

Typer tells a mistake by its usage and a sentence, often without what came or what to do.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import takewhile
from typing import Any

import typer

from regard.catalogue import TABLES, mechanisms
from regard.choices import unknown
from regard.errors import RegardError, SettingError, UnknownChoice
from regard.familiar_words import familiar

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""The class of typer's errors about the words of a command line, which has no public name."""

EXPECTED: Mapping[str, str] = {
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
}
"""What an option must be, by the name of the check that its value did not pass."""
RECIPE_VERBS = ("regard train", "regard plan")
"""The verbs whose settings stand in a recipe."""


def as_regard_error(error: Any, words: Sequence[str]) -> RegardError:
    """The error of ours for one of typer's; `words` are those of the command line."""
    context = getattr(error, "ctx", None)
    first = next((word for word in words if not word.startswith("-")), "")
    path = context.command_path if context is not None else f"regard {first}".strip()
    verb = path.removeprefix("regard").strip()
    who = f"{verb}: " if verb else ""
    said = error.format_message()
    if getattr(error, "param", None) is not None:
        return SettingError(f"{who}{_about_parameter(error, path, words)}")
    if word := _between(r"No such command '(.*?)'", said):
        if difflib.get_close_matches(word.lower(), ["help"]):
            return UnknownChoice(f"{who}there is no verb '{word}'. Write {path} --help.")
        known = context.command.commands if context is not None else ()
        return UnknownChoice(f"{who}{unknown(word, known)}")
    if "possibilities" in vars(error):
        return SettingError(f"{who}{_about_unknown_option(error, path, words)}")
    if word := _between(r"unexpected extra arguments?(?:\(s\))? \((.*)\)", said):
        return SettingError(f"{who}{_about_extra_word(word, verb, path, context, words)}")
    if name := getattr(error, "option_name", None):
        if "does not take" in said:
            return SettingError(f"{who}{name} takes no value, got one. Write {name} alone.")
        return SettingError(
            f"{who}{name} expects a value, got none. Write one behind it; {path} --help says "
            "what it takes."
        )
    return SettingError(f"{who}{said} See {path} --help.")


def is_help(error: Any) -> bool:
    """Whether an error is the help of a command that was called without words."""
    context = getattr(error, "ctx", None)
    return context is not None and str(error) == context.get_help()


def _about_parameter(error: Any, path: str, words: Sequence[str]) -> str:
    """An option or argument that is missing, or whose value cannot be taken."""
    parameter, example = error.param, _example(error.ctx)
    is_option = parameter.param_type_name == "option"
    name = parameter.opts[0] if is_option else parameter.name.upper()
    causes = error.__cause__.errors() if hasattr(error.__cause__, "errors") else []
    if not causes and "Missing" in error.format_message():
        meaning = (getattr(parameter, "help", None) or "").rstrip(".")
        # a word in capitals stays as it is
        begins = meaning[:1] if meaning[1:2].isupper() else meaning[:1].lower()
        what = f": {begins}{meaning[1:]}" if meaning else ""
        if is_option and (spare := _spare_word(error.ctx, words)):
            return f"{name} is missing{what}. Did you mean {name} {spare}?"
        return f"{name} is missing{what}. Write, for instance: {example or path + ' --help'}"
    if not causes:
        return f"{name}: {error.message.rstrip('.')}. See {path} --help."
    first = causes[0]
    limits = first.get("ctx", {})
    wanted = EXPECTED.get(first["type"], first["msg"]).format(**limits)
    usual = parameter.default if isinstance(parameter.default, int | float) else None
    fits = next((each for each in (usual, *limits.values()) if isinstance(each, int | float)), 1)
    return (
        f"{name} must be {wanted}, got '{first['input']}'. Give one that is, such as {name} {fits}."
    )


def _spare_word(context: Any, words: Sequence[str]) -> str | None:
    """The first word before all options that no argument of the verb takes."""
    plain = list(takewhile(lambda word: not word.startswith("-"), words))
    arguments = [one for one in context.command.params if one.param_type_name == "argument"]
    taken = len(context.command_path.split()) - 1 + len(arguments)
    return None if any(one.nargs == -1 for one in arguments) else next(iter(plain[taken:]), None)


def _about_unknown_option(error: Any, path: str, words: Sequence[str]) -> str:
    name = error.option_name
    if path in RECIPE_VERBS and (remedy := _key_of_recipe(name, words)):
        return f"there is no option {name}. {remedy}"
    if path == "regard explain" and (setting := _setting_of_mechanism(name, words)):
        return f"there is no option {name}. Settings follow the mechanism's name: {path} {setting}"
    options = [each for one in error.ctx.command.params for each in one.opts if each[:2] == "--"]
    options.append("--help")
    near = error.possibilities or difflib.get_close_matches(name, options, n=3)
    near = near or [each for each in options if each.startswith((name, f"-{name}"))]
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return f"there is no option {name}. {hint}{path} --help lists the options."


def _setting_of_mechanism(option: str, words: Sequence[str]) -> str | None:
    """NAME:KEY=VALUE, if the option is named like a setting of the mechanism that is explained."""
    key, value = _key_and_value(option, words)
    for entry in mechanisms():
        if entry.name in words and key in entry.settings:
            return f"{entry.name}:{key}={value or entry.settings[key]}"
    return None


def _key_of_recipe(option: str, words: Sequence[str]) -> str | None:
    """What to write where an option is named like a key of [training], here or elsewhere."""
    from regard.recipes.training_recipe import TrainingRecipe

    key, value = _key_and_value(option, words)
    known = [field.name for field in fields(TrainingRecipe)]
    name = key if key in known else next((n for n in known if familiar(key, [n])), None)
    if name is None:
        return None
    called = familiar(key, [name]) or ""
    # a number of epochs is no number of updates
    value = "VALUE" if ":" in called or not value else value
    return f"{called} Settings of a recipe are changed by --set training.{name}={value}.".lstrip()


def _key_and_value(option: str, words: Sequence[str]) -> tuple[str, str]:
    """A mistyped option as a key of a setting, and the value behind it."""
    key, equals, value = option.removeprefix("--").partition("=")
    place = next((i for i, word in enumerate(words) if word.partition("=")[0] == option), None)
    if place is not None and not equals:
        value = words[place].partition("=")[2] or next(iter(words[place + 1 :]), "")
    return key.replace("-", "_"), value


def _about_extra_word(word: str, verb: str, path: str, context: Any, words: Sequence[str]) -> str:
    takes = [
        one.name.upper() for one in context.command.params if one.param_type_name == "argument"
    ]
    expected = f"no argument but {' '.join(takes)}" if takes else "no argument"
    remedy = _kind_of_mechanism(word) if verb == "list" else None
    before = words[max(0, words.index(word) - 2) : words.index(word)] if word in words else ()
    if len(before) == 2 and before[0] == "--set" and "=" not in before[1]:
        remedy = f"Write --set {before[1]}={word}."
    remedy = remedy or f"Leave it out, or see {path} --help."
    return f"expected {expected}, got '{word}'. {remedy}"


def _kind_of_mechanism(word: str) -> str | None:
    """What to do about a kind that stands without its option."""
    near = difflib.get_close_matches(word, TABLES, n=1, cutoff=0.8)
    return f"Write regard list --kind {near[0]}" if near else None


def _example(context: Any) -> str | None:
    """The example in a verb's help."""
    return _between(r"Example: (.*)", context.command.help or "")


def _between(pattern: str, text: str) -> str | None:
    found = re.search(pattern, text)
    return found and found.group(1)
