"""Computes the content of regard explain: a mechanism's path, cost and drawing, and the lessons.

The lessons are the worked example, scaled scores, and how far words meet.
"""

import json
from dataclasses import asdict
from typing import Any

import torch
from rich.cells import cell_len

from regard.attention import HEADS, GroupedQueryHeads
from regard.attention.engine import Explanation
from regard.catalogue import mechanism, mechanisms
from regard.choices import Choice
from regard.cli.explain import USUAL, Sizes, all_settings, check_settings
from regard.dims import Dims
from regard.inspecting import (
    CHAINS,
    KINDS,
    WORDS,
    WORDS_ZH,
    example,
    meetings,
    saturation,
    worked,
)
from regard.inspecting.mechanism_pictures import SMALL_SETTINGS
from regard.plots import shade

SHIFTED, SHIFT_WIDTH = 3, 4
"""The shift in positions and the width of the matrix that is shown."""


def computed_lines(choice: Choice, sizes: Sizes) -> list[str]:
    """The path for these sizes, where the mechanism is part of a chain, and the drawing."""
    plan = _plan(choice, sizes)
    picture = example(choice.name)
    lines = []
    if plan is not None:
        counts = f"{sizes.queries} queries, {sizes.keys} keys, {sizes.heads} heads"
        lines += ["", f"path for {counts} of {sizes.width // sizes.heads}:"]
        lines += [f"  {line}" for line in str(plan).splitlines()]
    small = ", ".join(
        f"{name} = {value}" for name, value in SMALL_SETTINGS.get(choice.name, {}).items()
    )
    drawn_with = f", drawn with {small}" if small else ""
    if choice.settings and not small:
        drawn_with = ", drawn with its own settings"
    lines += _shift_lines(choice)
    axes = f"({picture.rows} down, {picture.columns} across)"
    lines += ["", f"{picture.meaning} on 16 positions {axes}{drawn_with}:"]
    drawing = shade(picture.numbers).splitlines()
    drawing += [""] * (len(picture.numbers) - len(drawing))
    return lines + [f"  |{line:<{2 * picture.numbers.shape[-1]}}|" for line in drawing]


def _shift_lines(choice: Choice) -> list[str]:
    """T(k) with its numbers, where a step to the side is a product with one matrix."""
    if (shift := _shift(choice)) is None:
        return []
    matrix, before, after = (shift[name] for name in ("matrix", "before", "after"))
    title = f"PE[p + {SHIFTED}] = T({SHIFTED}) PE[p] for every p, here T({SHIFTED}) of width"
    numbers = ["  ".join(f"{each:7.4f}" for each in row) for row in matrix]
    vectors = ["  ".join(f"{each:.4f}" for each in row) for row in (before, after)]
    return [
        "",
        f"{title} {SHIFT_WIDTH}: turns by {SHIFTED} w[i], T(a) T(b) = T(a + b):",
        *(f"  {row}" for row in numbers),
        f"  PE[2] = {vectors[0]},  T({SHIFTED}) PE[2] = PE[{2 + SHIFTED}] = {vectors[1]}",
    ]


def _shift(choice: Choice) -> dict[str, Any] | None:
    """The matrix T(k) of small positions, and what it makes of position 2."""
    part = KINDS[mechanism(choice.name).kind].get(choice.name)
    if part is None or not hasattr(part, "shift"):
        return None
    positions = choice.build({choice.name: part}, Dims(d_model=SHIFT_WIDTH))
    matrix, before = positions.shift(SHIFTED), positions(torch.tensor([2]))[0]
    after = matrix @ before
    named = {"matrix": matrix, "before": before, "after": after}
    return {"k": SHIFTED, **{name: each.tolist() for name, each in named.items()}}


def kept_lines() -> str:
    """The text of computed.json: the lines of every mechanism without options."""
    lines = {entry.name: computed_lines(Choice(entry.name), USUAL) for entry in mechanisms()}
    return json.dumps(lines, ensure_ascii=False, indent=0) + "\n"


def mechanism_data(choice: Choice, sizes: Sizes) -> dict[str, object]:
    """Everything about a mechanism, for JSON."""
    entry = mechanism(choice.name)
    plan = _plan(choice, sizes)
    fields = ("kind", "name", "summary", "equation", "paper", "cost")
    path = plan and {
        "name": plan.path,
        "why": plan.why,
        "refused": dict(plan.refused),
        "multiply_adds": plan.cost.multiply_adds,
        "numbers": plan.cost.numbers,
        "share_of_dense": plan.cost.multiply_adds / plan.dense.multiply_adds,
    }
    return {
        **{name: getattr(entry, name) for name in fields},
        "settings": all_settings(entry, choice),
        "path": path,
        "picture": example(choice.name).numbers.tolist(),
        "shift": _shift(choice),
    }


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
        # the part is not built, which would check its settings
        check_settings(choice, entry.settings)
        choice.fitted(KINDS[entry.kind][choice.name])
        return None
    chain = CHAINS[entry.kind](choice.build(KINDS[entry.kind], dims.head()))
    return chain.explain(sizes.queries, sizes.keys, n_heads=sizes.heads, d_query=dims.d_head)


def lesson(name: str, sizes: Sizes) -> tuple[str, dict[str, object]]:
    """A lesson as text and as data."""
    return {"worked": _worked, "scaling": _scaling, "paths": _paths}[name](sizes)


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
    return "\n".join(lines), {"rows": [asdict(row) for row in rows]}


def _worked(sizes: Sizes) -> tuple[str, dict[str, object]]:
    steps: dict[str, Any] = worked()
    x, weights, context = steps["inputs"], steps["weights"], steps["context"]
    terms = " + ".join(f"{a:g}·{b:g}" for a, b in zip(x[0], x[1], strict=True))
    share = " + ".join(f"{w:.6f}·{row[1]:g}" for w, row in zip(weights[0], x, strict=True))
    blocks = [
        "Three words, three numbers each. They are queries, keys and values at once.",
        _matrix("inputs X", x, WORDS, "{:8.0f}"),
        f"Scores are dot products: I · am = {terms} = {steps['scores'][0][1]:g}.",
        _matrix("scores X Xᵀ", steps["scores"], WORDS, "{:8.0f}", WORDS),
        "Each row's softmax gives weights that sum to 1.",
        _matrix("weights", weights, WORDS, "{:8.6f}", WORDS),
        "The context is the weighted mean of the rows of X. For 'I', second number:",
        f"    {share} = {context[0][1]:.6f}",
        _matrix("context", context, WORDS, "{:8.6f}"),
        "Divided by sqrt(3) before the softmax, as the Transformer does, the weights are softer.",
        _matrix("scaled weights", steps["scaled"]["weights"], WORDS, "{:8.6f}", WORDS),
        _matrix("scaled context", steps["scaled"]["context"], WORDS, "{:8.6f}"),
        "Cross-attention: the same queries look at another sentence, Y.",
        _matrix("inputs Y", steps["cross"]["inputs"], WORDS_ZH, "{:8.4f}"),
        _matrix("cross weights", steps["cross"]["weights"], WORDS, "{:8.6f}", WORDS_ZH),
        _matrix("cross context", steps["cross"]["context"], WORDS, "{:8.6f}"),
    ]
    return "\n\n".join(blocks), steps


def _matrix(
    title: str,
    rows: list[list[float]],
    names: tuple[str, ...],
    form: str,
    columns: tuple[str, ...] = (),
) -> str:
    lines = [title]
    if columns:
        lines.append(" " * 8 + "".join(_right(name, 10) for name in columns))
    for name, row in zip(names, rows, strict=True):
        lines.append(_right(name, 8) + "".join(f"  {form.format(number)}" for number in row))
    return "\n".join(lines)


def _right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text
