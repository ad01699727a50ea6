"""The demo's report.html: what was learned, how well, and where the model looked, in one file."""

from html import escape
from pathlib import Path

from regard.data.atomic_writes import write_text
from regard.data.dates import language_name
from regard.inspecting.panels import View
from regard.plots.page import page, table
from regard.plots.shaded import error_table, shade_style, shaded_map, shaded_words
from regard.runs.demo import Findings
from regard.training.report import recipe_part, training_parts


def write_demo_report(run: Path, found: Findings) -> Path:
    """Write the page over the plainer one that every training leaves, whose parts are in it."""
    write_text(run / "report.html", demo_page(run, found))
    return run / "report.html"


def demo_page(run: Path, found: Findings) -> str:
    """The whole page; `run` gives the curves and the recipe."""
    body = [
        _lead(found),
        "<h2>Accuracy by language</h2>",
        language_table(found),
        "<h2>Where the model looked</h2>",
        *_examples(found),
        "<h2>Does a head align?</h2>",
        *_alignment(found),
        "<h2>Training</h2>",
        *training_parts(run),
        _commands(run),
        recipe_part(run),
    ]
    return page("Dates in many languages", body, style=shade_style())


def language_table(found: Findings) -> str:
    """A line for each language: how many dates, how many right, and one of them."""
    lines = []
    for name, share in found.by_language.items():
        its = [one for one in found.answered if language_name(one.example.group or "") == name]
        # a mistake says more than one more success
        shown = next((one for one in its if not one.is_right), its[0])
        lines.append([
            name, str(share), f"{share.right} of {share.count}",
            f"{_isolated(shown.example.source)} → {shown.text}", "" if shown.is_right else "wrong",
        ])  # fmt: skip
    return table(
        ["", "exact match", "right", "one of them", ""],
        lines,
        caption="Unseen dates, greedy search; a mistake is shown where there is one",
    )


def _isolated(text: str) -> str:
    """A text whose direction does not change that of what follows it."""
    return f"\u2068{text}\u2069"


def _lead(found: Findings) -> str:
    accuracy, best = found.accuracy, found.best
    return (
        "<p>A small Transformer reads dates as people write them, character by character, and "
        f"writes them as ISO 8601. It answered <strong>{accuracy.right:,} of {accuracy.count:,} "
        f"unseen dates</strong> in {len(found.by_language)} languages to the letter "
        f"({escape(str(accuracy))}); no day among them stands in a training example of any "
        f"language. Its best head ({escape(str(best.view))}) points at the characters that a digit "
        f"came from with an alignment error rate of "
        f"<strong>{100 * best.reported_on.error_rate:.1f} %</strong>.</p>"
    )


def _examples(found: Findings) -> list[str]:
    head = found.pictured
    view = View("cross", head.layer, head.head)
    letters = View("cross", head.layer, head.head, "pieces")
    parts = [
        '<p class="quiet">For each word that was written, the source, shaded by the weight of '
        f"cross attention at layer {(head.layer or 0) + 1}, head {(head.head or 0) + 1}, the head "
        "that aligns best while it predicts; then the same character by character. Point at a "
        "word or a cell for its number.</p>"
    ]
    for record in found.records:
        parts += [
            f'<h3><bdi lang="und">{escape(record.source)}</bdi> → {escape(record.target)}</h3>',
            f'<div class="maps">{shaded_words(record, view)}{shaded_map(record, letters)}</div>',
        ]
    return parts


def _alignment(found: Findings) -> list[str]:
    best = found.best
    maps = [
        shaded_map(record, View("cross", layer, head, "pieces"))
        for record in found.records[:1]
        for layer in range(len(record.attention["cross"].layers))
        for head in range(record.attention["cross"].n_heads)
    ]
    return [
        "<p>The generator knows which characters tell which digits. Each digit is linked to the "
        "one source character that a head weighs most: possible are all characters of its field, "
        "sure the same digit where the source shows it. Hyphens and end tokens are left out. The "
        "row that predicts a digit and the next one, which reads it, are both scored; the head is "
        f"chosen on other dates ({100 * best.chosen_on.error_rate:.1f} % there).</p>",
        error_table(
            found.reported_on,
            best.view,
            caption="Alignment error rate in per cent on unseen dates; 0 is best",
        ),
        f"<p>{escape(str(best.view)[:1].upper() + str(best.view)[1:])}: "
        f"{escape(str(best.reported_on))}</p>",
        f'<h3>Every head on one date</h3>\n<div class="maps">{"".join(maps)}</div>',
        '<p class="quiet">Attention shows where a model read, not why it answered as it did.</p>',
    ]


def _commands(run: Path) -> str:
    name = escape(str(run))
    return (
        "<h2>Go on from here</h2>\n"
        f"<pre>regard predict {name} --text &quot;Mittwoch, 9. Mai 2029&quot;\n"
        f"regard look {name} &quot;Mittwoch, 9. Mai 2029&quot; --out look.html</pre>"
    )
