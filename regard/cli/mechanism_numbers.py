"""What regard explain computes of a mechanism: the path it takes, its cost and a drawing."""

import json

from regard.attention import HEADS, GroupedQueryHeads
from regard.attention.engine import Explanation
from regard.catalogue import mechanism, mechanisms
from regard.choices import Choice
from regard.cli.explain import USUAL, Sizes, all_settings, check_settings
from regard.dims import Dims
from regard.inspecting import CHAINS, KINDS, example
from regard.inspecting.examples import SMALL
from regard.plots import shade


def computed_lines(choice: Choice, sizes: Sizes) -> list[str]:
    """The path for these sizes, where the mechanism is part of a chain, and the drawing."""
    plan = _plan(choice, sizes)
    picture = example(choice.name)
    lines = []
    if plan is not None:
        counts = f"{sizes.queries} queries, {sizes.keys} keys, {sizes.heads} heads"
        lines += ["", f"path for {counts} of {sizes.width // sizes.heads}:"]
        lines += [f"  {line}" for line in str(plan).splitlines()]
    lines += [
        "",
        f"{picture.meaning} on 16 positions ({picture.rows} down, {picture.columns} across)"
        f"{_drawn_with(choice)}:",
    ]
    drawing = shade(picture.numbers).splitlines()
    drawing += [""] * (len(picture.numbers) - len(drawing))
    return lines + [f"  |{line:<{2 * picture.numbers.shape[-1]}}|" for line in drawing]


def kept_lines() -> str:
    """The text of computed.json: the lines of every mechanism without options."""
    lines = {entry.name: computed_lines(Choice(entry.name), USUAL) for entry in mechanisms()}
    return json.dumps(lines, ensure_ascii=False, indent=0) + "\n"


def mechanism_data(choice: Choice, sizes: Sizes) -> dict[str, object]:
    """Everything about a mechanism, for JSON."""
    entry = mechanism(choice.name)
    plan = _plan(choice, sizes)
    return {
        "kind": entry.kind,
        "name": entry.name,
        "summary": entry.summary,
        "equation": entry.equation,
        "paper": entry.paper,
        "cost": entry.cost,
        "settings": all_settings(entry, choice),
        "path": None if plan is None else _path_data(plan),
        "picture": example(choice.name).numbers.tolist(),
    }


def _drawn_with(choice: Choice) -> str:
    """The settings of the drawing, where they are not those of the choice."""
    small = ", ".join(f"{name} = {value}" for name, value in SMALL.get(choice.name, {}).items())
    if small:
        return f", drawn with {small}"
    return ", drawn with its own settings" if choice.settings else ""


def _plan(choice: Choice, sizes: Sizes) -> Explanation | None:
    """Which path an attention with this part would take; None for parts outside the chain."""
    entry = mechanism(choice.name)
    longest = max(sizes.queries, sizes.keys)
    dims = Dims(d_model=sizes.width, n_heads=sizes.heads, max_len=longest)
    if entry.kind == "heads":
        heads = choice.build(HEADS, dims)
        assert isinstance(heads, GroupedQueryHeads)
        return heads.explain(sizes.queries, sizes.keys)
    if entry.kind not in CHAINS:
        # nothing is built that would refuse them
        check_settings(choice, entry.settings)
        choice.fitted(KINDS[entry.kind][choice.name])
        return None
    chain = CHAINS[entry.kind](choice.build(KINDS[entry.kind], dims.head()))
    return chain.explain(sizes.queries, sizes.keys, n_heads=sizes.heads, d_query=dims.d_head)


def _path_data(plan: Explanation) -> dict[str, object]:
    return {
        "name": plan.path,
        "why": plan.why,
        "refused": dict(plan.refused),
        "multiply_adds": plan.cost.multiply_adds,
        "numbers": plan.cost.numbers,
        "share_of_dense": plan.cost.multiply_adds / plan.dense.multiply_adds,
    }
