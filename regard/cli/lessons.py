"""The lessons of regard explain: the worked example, scaled scores, and how far words meet."""

from dataclasses import asdict
from typing import Any

from regard.cli.explain import Sizes
from regard.inspecting import WORDS, WORDS_ZH, meetings, saturation, worked


def lesson(name: str, sizes: Sizes) -> tuple[str, dict[str, object]]:
    """A lesson as text and as data."""
    return {"worked": _worked, "scaling": _scaling, "paths": _paths}[name](sizes)


def _worked(sizes: Sizes) -> tuple[str, dict[str, object]]:
    data = worked()
    return _worked_text(data), data


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


def _worked_text(steps: dict[str, Any]) -> str:
    """Lay the steps out for reading."""
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
    return "\n\n".join(blocks)


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
    """Right-aligned, where a Chinese character takes two columns."""
    taken = sum(2 if ord(char) > 0x2E7F else 1 for char in text)
    return " " * (width - taken) + text
