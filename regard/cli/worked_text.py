"""The worked example as text: every number, and how the next one comes from it."""

from typing import Any

from regard.inspecting import WORDS, WORDS_ZH


def worked_text(steps: dict[str, Any]) -> str:
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
