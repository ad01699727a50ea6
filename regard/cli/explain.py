"""regard explain: one mechanism in full, or one of the small lessons."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import NamedTuple

import typer
from torch import Tensor

from regard.attention import HEADS, GroupedQueryHeads
from regard.attention.engine import Explanation
from regard.choices import Choice, unknown
from regard.cli.worked_text import worked_text
from regard.dims import Dims
from regard.errors import SettingError, UnknownChoice
from regard.inspecting import (
    CHAINS,
    KINDS,
    Mechanism,
    example,
    mechanism,
    mechanisms,
    meetings,
    saturation,
    worked,
)
from regard.inspecting.examples import SMALL
from regard.plots import shade

MOST = 10**12
"""So many queries or keys can be asked about, and no more."""


class Sizes(NamedTuple):
    """The sizes a question is asked for."""

    queries: int
    keys: int
    heads: int
    width: int
    length: int
    window: int


def explain(
    name: str = typer.Argument(
        help="A mechanism (regard list), or a lesson: worked, scaling, paths."
    ),
    queries: int = typer.Option(1024, min=1, max=MOST, help="Number of queries."),
    keys: int | None = typer.Option(
        None, min=1, max=MOST, help="Number of keys; as many as queries unless given."
    ),
    heads: int = typer.Option(8, min=1, help="Number of heads."),
    width: int = typer.Option(512, min=1, help="Model width, shared by the heads."),
    length: int = typer.Option(50, help="Words in the sentence (paths)."),
    window: int = typer.Option(5, help="Words in a window (paths)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Explain a mechanism: equation, settings, cost, the path it takes, a drawing.

    Settings may follow the name, as in sliding_window:size=128.

    Example: regard explain sliding_window --queries 4096
    """
    sizes = Sizes(queries, keys or queries, heads, width, length, window)
    choice = Choice.parse(name)
    known = [*LESSONS, *(entry.name for entry in mechanisms())]
    if choice.name not in known:
        raise UnknownChoice(unknown(choice.name, known))
    lesson = LESSONS.get(choice.name)
    if lesson:
        _check_settings(choice, {})
    text, data = lesson(sizes) if lesson else _mechanism(choice, sizes)
    print(json.dumps(data, ensure_ascii=False) if as_json else text)


def _check_settings(choice: Choice, known: Mapping[str, str]) -> None:
    """Refuse names that would be printed and change nothing."""
    for key in choice.settings:
        if key not in known:
            takes = ", ".join(f"{name}={value}" for name, value in known.items()) or "no settings"
            raise SettingError(f"'{choice.name}' has no setting '{key}'; it takes {takes}.")


def _mechanism(choice: Choice, sizes: Sizes) -> tuple[str, dict[str, object]]:
    entry = mechanism(choice.name)
    plan = _plan(entry, choice, sizes)
    picture = example(choice.name)
    settings = {**entry.settings, **{k: repr(v) for k, v in choice.settings.items()}}
    lines = [f"{entry.name} ({entry.kind})", entry.summary, ""]
    lines += [f"    {line}" for line in entry.equation.splitlines()]
    lines += ["", f"paper     {entry.paper}", f"cost      {entry.cost}"]
    shown = ", ".join(f"{name} = {value}" for name, value in settings.items())
    lines += [f"settings  {shown or 'none'}", f"file      {entry.file}"]
    if plan is not None:
        asked = f"{sizes.queries} queries, {sizes.keys} keys, {sizes.heads} heads"
        lines += ["", f"path for {asked} of {sizes.width // sizes.heads}:"]
        lines += [f"  {line}" for line in str(plan).splitlines()]
    lines += [
        "",
        f"{picture.meaning} on 16 positions ({picture.rows} down, {picture.columns} across)"
        f"{_drawn(choice)}:",
    ]
    lines += [f"  |{line:<{2 * picture.numbers.shape[-1]}}|" for line in _drawing(picture.numbers)]
    data: dict[str, object] = {
        "kind": entry.kind,
        "name": entry.name,
        "summary": entry.summary,
        "equation": entry.equation,
        "paper": entry.paper,
        "cost": entry.cost,
        "settings": settings,
        "path": None if plan is None else _as_data(plan),
        "picture": picture.numbers.tolist(),
    }
    return "\n".join(lines), data


def _drawn(choice: Choice) -> str:
    """By which settings the picture was drawn, where they are not those that were asked for."""
    small = ", ".join(f"{name} = {value}" for name, value in SMALL.get(choice.name, {}).items())
    if small:
        return f", drawn with {small}"
    return ", drawn with its own settings" if choice.settings else ""


def _drawing(numbers: Tensor) -> list[str]:
    lines = shade(numbers).splitlines()
    return lines + [""] * (len(numbers) - len(lines))


def _plan(entry: Mechanism, choice: Choice, sizes: Sizes) -> Explanation | None:
    """Which path an attention with this part would take; None for parts outside the chain."""
    longest = max(sizes.queries, sizes.keys)
    dims = Dims(d_model=sizes.width, n_heads=sizes.heads, max_len=longest)
    if entry.kind == "heads":
        heads = choice.build(HEADS, dims)
        assert isinstance(heads, GroupedQueryHeads)
        return heads.explain(sizes.queries, sizes.keys)
    if entry.kind not in CHAINS:
        # nothing is built that would refuse them
        _check_settings(choice, entry.settings)
        choice.fitted(KINDS[entry.kind][choice.name])
        return None
    chain = CHAINS[entry.kind](choice.build(KINDS[entry.kind], dims.head()))
    return chain.explain(sizes.queries, sizes.keys, n_heads=sizes.heads, d_query=dims.d_head)


def _as_data(plan: Explanation) -> dict[str, object]:
    return {
        "name": plan.path,
        "why": plan.why,
        "refused": dict(plan.refused),
        "multiply_adds": plan.cost.multiply_adds,
        "numbers": plan.cost.numbers,
        "share_of_dense": plan.cost.multiply_adds / plan.dense.multiply_adds,
    }


def _worked(sizes: Sizes) -> tuple[str, dict[str, object]]:
    data = worked()
    return worked_text(data), data


def _scaling(sizes: Sizes) -> tuple[str, dict[str, object]]:
    rows = saturation()
    lines = [
        "Scores of random queries and 64 keys. Gradient: the trace of the softmax's Jacobian.",
        "",
        f"{'width':>6} {'':>9} {'variance':>10} {'largest weight':>15} {'gradient':>9}",
    ]
    for row in rows:
        form = "/ sqrt(d)" if row.scaled else "unscaled"
        lines.append(
            f"{row.width:>6} {form:>9} {row.variance:>10.2f} {row.largest_weight:>15.3f} "
            f"{row.gradient:>9.3f}"
        )
    lines += ["", "Unscaled, wide vectors leave one weight near 1 and almost no gradient."]
    return "\n".join(lines), {"rows": [asdict(row) for row in rows]}


def _paths(sizes: Sizes) -> tuple[str, dict[str, object]]:
    rows = meetings(sizes.length, sizes.window, sizes.width)
    lines = [
        f"What it takes for word 1 to meet word {sizes.length} "
        f"(window {sizes.window}, width {sizes.width}):",
        "",
        f"{'':<36} {'layers':>7} {'sees':>6} {'in sequence':>12} {'path':>6} "
        f"{'multiply-adds a layer':>24}",
    ]
    for row in rows:
        sees = "all" if row.receptive_field is None else row.receptive_field
        cost = f"{row.multiply_adds:.3g} = {row.formula}"
        lines.append(
            f"{row.name:<36} {row.layers:>7} {sees:>6} {row.steps:>12} {row.path:>6} {cost:>24}"
        )
    lines += [
        "",
        "Two words meet where the output at one depends on the other. Sees: the receptive field,",
        "the words that an output of so many layers depends on, in a text without end.",
        "",
        "L windows of k words see 1 + L (k - 1) words, and dilated ones (1, 2, 4, … apart)",
        "1 + (k - 1)(2^L - 1). Words D apart meet after ceil(D / r) layers, where r is (k - 1) / 2",
        "(rounded up), or k - 1 if causal; dilated, after the fewest with r (2^L - 1) >= D.",
    ]
    return "\n".join(lines), {"rows": [row.as_dict() for row in rows]}


LESSONS: Mapping[str, Callable[[Sizes], tuple[str, dict[str, object]]]] = {
    "worked": _worked,
    "scaling": _scaling,
    "paths": _paths,
}
