"""Choice: a name and its settings. Only this module turns a name into an object.

recipe   score = { name = "additive", d_hidden = 128 }
shell    additive:d_hidden=128
Python   AdditiveScore(dims, d_hidden=128)          the object itself, without a name
"""

import difflib
import inspect
import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args, get_type_hints

from regard.dims import Dims
from regard.errors import SettingError, UnknownChoice
from regard.familiar_words import familiar

T = TypeVar("T")

INTEGER_END = 2**63
"""The limit of torch's integers (exclusive)."""


@dataclass(frozen=True)
class Choice:
    """A name and its settings, as they arrive from a recipe, the command line or JSON."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Choice":
        """Read the shell's spelling.

        >>> Choice.parse("additive:d_hidden=128,activation=tanh")
        Choice(name='additive', settings={'d_hidden': 128, 'activation': 'tanh'})
        """
        name, _, rest = text.partition(":")
        settings = {}
        for part in filter(None, rest.split(",")):
            key, equals, value = part.partition("=")
            if not equals:
                raise SettingError(
                    f"'{text}': '{part}' is not a setting. Write {name}:KEY=VALUE,KEY=VALUE."
                )
            settings[key.strip()] = toml_value(value.strip())
        return cls(name.strip(), settings)

    def build(self, table: Mapping[str, Callable[..., T]], dims: Dims) -> T:
        """Make the part with this name in `table`."""
        part = find(self.name, table)
        self.check_settings(part)
        return part(dims, **self.fitted(part))

    def check_settings(self, part: Callable[..., Any]) -> None:
        """Refuse a setting that `part` does not have."""
        known = inspect.signature(part).parameters
        for key in self.settings:
            if key not in known or key == "dims":
                takes = ", ".join(str(known[k]) for k in known if k != "dims") or "no settings"
                raise SettingError(f"'{self.name}' has no setting '{key}'; it takes {takes}.")

    def fitted(self, part: Callable[..., Any]) -> dict[str, Any]:
        """The settings in the types that `part` takes; a value of another type is refused."""
        hints = get_type_hints(part.__init__ if inspect.isclass(part) else part)
        return {
            # a setting of a part from elsewhere may have no type
            key: _fit(self.name, key, value, hints.get(key, object))
            for key, value in self.settings.items()
        }


def find(name: str, table: Mapping[str, T], *, key: str = "") -> T:
    """The entry under `name`, or an error that names the nearest one, and the key it was given for.

    >>> find("gruu", {"gru": 1}, key="cell")
    Traceback (most recent call last):
    regard.errors.UnknownChoice: cell: There is no 'gruu' here. Did you mean 'gru'? Known: gru.
    """
    if name not in table:
        raise UnknownChoice(f"{key}: {unknown(name, table)}" if key else unknown(name, table))
    return table[name]


def unknown(name: str, known: Iterable[str]) -> str:
    """The message for an unknown name: what it is called here or the nearest name, then all names.

    A table that takes names of a user's own says in its `remedy` how, where no name is near.
    """
    names = list(known)
    if called := familiar(name, names):
        return f"There is no '{name}' here. {called} Known: {', '.join(names)}."
    near = difflib.get_close_matches(name, names, n=1)
    near = near or difflib.get_close_matches(name.lower(), names, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    remedy = "" if near else getattr(known, "remedy", "")
    return f"There is no '{name}' here.{hint} Known: {', '.join(names)}.{remedy}"


def _fit(name: str, key: str, value: Any, hint: Any) -> Any:
    """The value; a whole number becomes a real one, and true and false are no numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingError(f"'{name}': {key} must be a finite number, got {value}.")
    if type(value) is int and abs(value) >= INTEGER_END:
        raise SettingError(f"'{name}': {key} must be below 2^63, got {value}.")
    if type(value) is int and float in (hint, *get_args(hint)):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint not in (bool, object)):
        wanted = getattr(hint, "__name__", str(hint))
        raise SettingError(f"'{name}': {key} must be {wanted}, got {value!r}.")
    return value


def toml_value(text: str) -> Any:
    """The TOML value of a text, or the text itself if it is none: the same types as in a recipe."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as error:
        if text.lstrip().startswith("{"):
            raise SettingError(
                f"'{text[:60]}' begins like a table but is no TOML. Write "
                '{ name = "tsv", path = "a.tsv" }, and in a shell all of it in single quotes, '
                "since a shell takes double ones away."
            ) from error
        return text
    except (ValueError, RecursionError) as error:
        # tomllib raises other errors for thousands of digits or hundreds of brackets
        raise SettingError(
            f"'{text[:20]}…' ({len(text):,} characters) has too many digits or brackets. Give a "
            "shorter value."
        ) from error
