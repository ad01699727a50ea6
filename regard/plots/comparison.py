"""A comparison of systems, as text for the terminal and as a page in one file, with verdicts."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from html import escape

from rich.cells import cell_len

from regard.evaluating.comparison import Bucket, ComparedSentence, Comparison
from regard.evaluating.significance import Difference
from regard.plots.charts import Whisker, bars, whiskers
from regard.plots.page import page, table

# a word, a character of a script without spaces, a space, or any other sign
TOKEN = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9f\u0e00-\u0eff]|\w+|\s+|[^\w\s]")

VERSUS = (
    "measure", "difference", "interval", "p, bootstrap", "p, randomisation", "wins", "verdict",
)  # fmt: skip
"""Columns of a comparison with the baseline."""


def comparison_text(comparison: Comparison, *, shown: int = 3) -> str:
    """Tables in plain text, with so many of the sentences that differ most."""
    parts = [
        f"{comparison.sentences} sentences; baseline {comparison.baseline}",
        _aligned([_score_head(comparison), *_score_rows(comparison, " ({})")]),
        *(f"{title}\n{_aligned([VERSUS, *rows])}" for title, rows in _versus(comparison)),
        *(
            f"{title}\n"
            + _aligned([("", *(b.label for b in found)), *_bucket_rows(comparison, found)])
            for title, _, found in _buckets(comparison)
        ),
        *(_sentence_text(comparison, sentence) for sentence in comparison.most_different[:shown]),
        _how(comparison),
        "\n".join(_signatures(comparison)),
    ]
    return "\n\n".join(parts)


def comparison_page(comparison: Comparison) -> str:
    """One HTML file with tables, pictures and the sentences that differ most."""
    title = f"{' · '.join(comparison.names)}: a comparison"
    body = [
        f"<p>{comparison.sentences:,} sentences; every system is compared with "
        f"<b>{escape(comparison.baseline)}</b>.</p>",
        table(
            _score_head(comparison),
            _score_rows(comparison, "\n{}"),
            caption=f"Scores, with {_confidence(comparison)} intervals",
        ),
        "<h2>What differs beyond chance</h2>",
        whiskers(
            _whiskers(comparison),
            title=f"Difference from {comparison.baseline}",
            x_title=f"points, with {_confidence(comparison)} intervals; above zero is better",
        ),
        *(table(VERSUS, rows, caption=title) for title, rows in _versus(comparison)),
        f'<p class="quiet">{escape(_how(comparison))}</p>',
        "<h2>Where</h2>",
        *(
            _bucket_part(comparison, title, x_title, found)
            for title, x_title, found in _buckets(comparison)
        ),
        "<h2>Sentences that differ most</h2>",
        f'<p class="quiet">By {comparison.sentence_measure} of the sentence. Words that the '
        "closest reference does not have there are <mark>marked</mark>; <mark>‸</mark> stands "
        "where words of it are missing.</p>",
        *(_sentence_part(comparison, sentence) for sentence in comparison.most_different),
        "<h2>Signatures</h2>",
        "<ul>",
        *(f"<li><code>{escape(line)}</code></li>" for line in _signatures(comparison)),
        "</ul>",
    ]
    return page(title, body)


def _score_head(comparison: Comparison) -> list[str]:
    return ["system", *(score.name for score in comparison.systems[0].scores)]


def _score_rows(comparison: Comparison, form: str) -> list[list[str]]:
    rows = []
    for system in comparison.systems:
        intervals = [form.format(interval) for interval in system.intervals]
        intervals += [""] * (len(system.scores) - len(intervals))
        cells = zip(system.scores, intervals, strict=True)
        rows.append([system.name, *(f"{score.value:.2f}{said}" for score, said in cells)])
    return rows


def _versus(comparison: Comparison) -> list[tuple[str, list[list[str]]]]:
    """For every system but the baseline a title, and a row for each measure."""
    return [
        (
            f"{versus.name} against {comparison.baseline}",
            [_difference(comparison, one) for one in versus.differences],
        )
        for versus in comparison.versus
    ]


def _difference(comparison: Comparison, one: Difference) -> list[str]:
    if one.value == one.interval.low == one.interval.high == 0:
        # difference and interval are 0: there is nothing to test
        return [one.name, "0.00", "none", "", "", "", "equal"]
    is_sure = max(one.p_bootstrap, one.p_randomisation) <= 1 - comparison.resampling.confidence
    return [
        one.name,
        f"{one.value:+.2f}",
        f"{one.interval.low:+.2f} to {one.interval.high:+.2f}",
        f"{one.p_bootstrap:.4f}",
        f"{one.p_randomisation:.4f}",
        f"{100 * one.wins:.1f} %",
        # the threshold of a verdict: both p-values at most 1 - confidence (0.05 by default)
        ("better" if one.is_better else "worse") if is_sure else "no sure difference",
    ]


def _whiskers(comparison: Comparison) -> list[Whisker]:
    return [
        Whisker(
            f"{_short(versus.name)}, {one.name}", one.value, one.interval.low, one.interval.high,
            number,
        )
        for number, versus in enumerate(comparison.versus, 1)
        for one in versus.differences
        if one.name in {comparison.length_measure, comparison.sentence_measure}
    ]  # fmt: skip


def _buckets(comparison: Comparison) -> list[tuple[str, str, tuple[Bucket, ...]]]:
    frequency = "F1 of words by frequency in training, per cent"
    by_length = f"{comparison.length_measure} by length of"
    every = [
        (f"{by_length} source", "words of the source", comparison.by_source_length),
        (f"{by_length} reference", "words of the reference", comparison.by_reference_length),
        (frequency, "times seen in training", comparison.by_frequency),
    ]
    return [one for one in every if one[2]]


def _bucket_rows(comparison: Comparison, found: Sequence[Bucket]) -> list[list[str]]:
    counts = ["count", *(f"{bucket.count:,}" for bucket in found)]
    values = [
        [name, *(f"{bucket.values[number]:.1f}" for bucket in found)]
        for number, name in enumerate(comparison.names)
    ]
    return [counts, *values]


def _bucket_part(comparison: Comparison, title: str, x_title: str, found: Sequence[Bucket]) -> str:
    series = {
        name: [bucket.values[number] for bucket in found]
        for number, name in enumerate(comparison.names)
    }
    labels = [bucket.label for bucket in found]
    rows = _bucket_rows(comparison, found)
    numbers = table([x_title, *labels], rows, caption="The same in numbers")
    return bars(labels, series, title=title, x_title=x_title) + numbers


def _sentence_text(comparison: Comparison, sentence: ComparedSentence) -> str:
    named = zip(comparison.names, sentence.values, sentence.texts, strict=True)
    answers = [(f"{name} {value:.1f}", text) for name, value, text in named]
    rows = [*_given(sentence), *answers]
    return (
        f"line {sentence.line}, {comparison.sentence_measure} apart by {sentence.spread:.1f}\n"
        + _aligned(rows)
    )


def _given(sentence: ComparedSentence) -> list[tuple[str, str]]:
    source = [("source", sentence.source)] if sentence.source else []
    return source + [("reference", text) for text in sentence.references]


def _sentence_part(comparison: Comparison, sentence: ComparedSentence) -> str:
    rows = [(name, "", escape(text)) for name, text in _given(sentence)]
    named = zip(comparison.names, sentence.values, sentence.texts, strict=True)
    rows += [
        (name, f"{value:.1f}", _marked(text, sentence.references)) for name, value, text in named
    ]
    cells = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{value}</td><td dir="auto">{text}</td></tr>'
        for name, value, text in rows
    )
    caption = f"Line {sentence.line}, apart by {sentence.spread:.1f}"
    return (
        f'<div class="wide"><table><caption>{caption}</caption><tbody>{cells}</tbody></table></div>'
    )


def _marked(text: str, references: Sequence[str]) -> str:
    own = TOKEN.findall(text)
    split = [TOKEN.findall(reference) for reference in references]
    matchers = [SequenceMatcher(None, tokens, own, autojunk=False) for tokens in split]
    closest = max(range(len(split)), key=lambda number: matchers[number].ratio())
    wanted, parts = split[closest], []
    for kind, old_start, old_end, start, end in matchers[closest].get_opcodes():
        said, missing = "".join(own[start:end]), "".join(wanted[old_start:old_end]).strip()
        if kind == "equal" or not (said.strip() or missing):
            parts.append(escape(said))
        elif said.strip():
            parts.append(f"<mark>{escape(said)}</mark>")
        else:
            parts.append(f'{escape(said)}<mark title="{escape(missing)}">‸</mark>')
    return "".join(parts)


def _confidence(comparison: Comparison) -> str:
    return f"{100 * comparison.resampling.confidence:g} %"


def _how(comparison: Comparison) -> str:
    how = comparison.resampling
    several = (
        f" {len(comparison.versus)} systems were tried, and the p-values are not corrected for it."
        if len(comparison.versus) > 1
        else ""
    )
    return (
        f"Two-sided p-values by paired bootstrap ({how.samples:,} samples) and approximate "
        f"randomisation ({how.trials:,} trials), seed {how.seed}; wins: the share of bootstrap "
        "samples in which the system beats the baseline; a verdict needs both p-values to be at "
        f"most {1 - how.confidence:.2g}.{several}"
    )


def _signatures(comparison: Comparison) -> list[str]:
    scores = comparison.systems[0].scores
    notes = sorted({s.note for system in comparison.systems for s in system.scores if s.note})
    return [*(f"{score.name}: {score.signature}" for score in scores), *notes]


def _short(name: str, width: int = 16) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side; Chinese characters take two places."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )
