"""The demo: scores of a run that reads dates, on days it was not trained on, and report.html.

Exact match is greedy search's, by language. Alignments come from a teacher-forced pass over the
reference, one link for each digit: hyphens and end tokens have none. The head is chosen on dates of
the validation split and reported on those of the test split; no day is in two splits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import islice
from pathlib import Path
from typing import final

from regard.data.atomic_writes import write_text
from regard.data.dates import language_name
from regard.data.examples import Example
from regard.data.subword_kinds import EOS
from regard.decoding import Greedy, Limits
from regard.errors import RunError, SettingError
from regard.evaluating.accuracy import Share, exact_by_group
from regard.evaluating.alignment import AlignmentCounts, Gold, digit_gold
from regard.evaluating.attention_links import (
    LEFT_OUT,
    BestHead,
    DecoderRow,
    HeadView,
    PieceWords,
    best_head,
)
from regard.hardware.hardware import Hardware
from regard.hardware.threads import Threads, given_threads
from regard.inspecting.capture import attention_of, weights_of
from regard.inspecting.panels import View
from regard.inspecting.record import Record
from regard.plots.head_errors import error_table
from regard.plots.page import page, table
from regard.plots.shaded import shade_style, shaded_map, shaded_words
from regard.recipes.recipe import Recipe, examples, read_recipe
from regard.recipes.shipped import shipped_recipe
from regard.runs.alignment import PieceWeights
from regard.runs.trained import Trained
from regard.tasks.predictions import AnswerOptions
from regard.training.report import recipe_part, training_parts

RECIPE = shipped_recipe("demo-dates")
ONE_THREAD = Threads(1, "the demo's numbers are the same on any number of cores")
MAX_ANSWER_CHARACTERS = 16
"""A date has ten."""
MAX_ALIGNED_DATES = 500
"""The most dates from which a head is chosen, and the most on which it is reported."""
SHOWN_LANGUAGES = ("de", "fr", "ru", "el", "zh", "hi")
"""Languages whose first unseen date is shown."""


@final
@dataclass(frozen=True)
class DateAnswer:
    """An unseen date and the model's answer."""

    example: Example
    text: str

    @property
    def language(self) -> str:
        """The English name of its language."""
        return language_name(self.example.group or "")

    @property
    def is_right(self) -> bool:
        """Whether the answer equals a reference exactly."""
        return self.text in self.example.targets


@final
@dataclass(frozen=True)
class Findings:
    """The results that the demo shows."""

    answered: Sequence[DateAnswer]
    chosen_on: Mapping[HeadView, AlignmentCounts]
    """Alignment errors of every head on the dates from which the best one is chosen."""
    reported_on: Mapping[HeadView, AlignmentCounts]
    """The same on unseen dates."""
    records: Sequence[Record]
    """Some of the answers with the attention that produced them."""

    @cached_property
    def by_language(self) -> dict[str, Share]:
        """Exact match of each language, by its English name."""
        return exact_by_group(
            [one.language for one in self.answered],
            [one.text for one in self.answered],
            [one.example.targets for one in self.answered],
        )

    @property
    def accuracy(self) -> Share:
        """Exact match over all languages."""
        return sum(self.by_language.values(), Share())

    @property
    def best(self) -> BestHead:
        """The head that aligns best by the dates it is chosen on, of both rows."""
        return best_head(self.chosen_on, self.reported_on)

    @property
    def pictured(self) -> HeadView:
        """The head to draw: the best of the row that predicts, whose maps are drawn as they are."""
        heads = [v for v in self.chosen_on if v.is_head and v.row is DecoderRow.PREDICTING]
        return min(heads, key=lambda view: self.chosen_on[view].error_rate)


def demo_hardware(threads: int | None = None) -> Hardware:
    """The CPU with one thread, or with so many."""
    return Hardware(threads=ONE_THREAD if threads is None else given_threads(threads))


def demo_recipe(changes: Sequence[str] = ()) -> Recipe:
    """The recipe of the demo, with `section.key=value` changes on top."""
    return read_recipe(RECIPE, changes)


def check_out(out: Path, recipe: Recipe) -> None:
    """Refuse a directory that holds anything but this recipe's run, finished or not."""
    if out.exists() and not out.is_dir():
        raise RunError(f"demo: '{out}' is a file; a run is a folder. Choose another --out.")
    if not out.exists() or not any(out.iterdir()):
        return
    held = out / "recipe.toml"
    if not held.is_file():
        raise RunError(
            f"demo: '{out}' is not empty and holds no run; nothing is ever overwritten. Choose "
            "another --out."
        )
    if read_recipe(held).as_table() != recipe.as_table():
        raise RunError(
            f"demo: '{out}' holds a run of another recipe or seed, which is never overwritten. "
            "Choose another --out."
        )


def unseen(recipe: Recipe) -> list[Example]:
    """The dates of the test split."""
    if recipe.data.test is None:
        raise SettingError("demo: the recipe has no data.test; name the dates to be tested on.")
    return list(examples(recipe.data.test, "test")())


def to_choose_from(recipe: Recipe) -> list[Example]:
    """The dates of the validation split from which a head is chosen."""
    return list(islice(examples(recipe.data.valid, "valid")(), MAX_ALIGNED_DATES))


def answers(trained: Trained, asked: Sequence[Example]) -> Iterator[tuple[int, DateAnswer]]:
    """Answers as they come, each with the place of its date, so that a bar can count them."""
    options = AnswerOptions(Greedy(limits=Limits(max_tokens=MAX_ANSWER_CHARACTERS)))
    for place, found in trained.predict_each([one.source for one in asked], options):
        yield place, DateAnswer(asked[place], found.text)


def aligned(trained: Trained, example: Example) -> tuple[PieceWeights, PieceWords, Gold]:
    """A date's cross-attention, the characters of its pieces, and its true links."""
    source, target = trained.loaded.source, trained.loaded.target
    read, written = [*source.encode(example.source), EOS], example.targets[0]
    maps = attention_of(trained.loaded.model, read, target.encode(written))
    pieces = PieceWords(
        [*(start for start, _ in source.offsets(example.source)), LEFT_OUT],
        [start if written[start].isdigit() else LEFT_OUT for start, _ in target.offsets(written)],
    )
    gold = digit_gold(example.source, written, example.links or ())
    return weights_of(maps["cross"]), pieces, gold


def to_show(
    answered: Sequence[DateAnswer], languages: Sequence[str] = SHOWN_LANGUAGES
) -> list[DateAnswer]:
    """The first date of each of these languages; others where a language has none."""
    first: dict[str | None, DateAnswer] = {}
    for one in answered:
        first.setdefault(one.example.group, one)
    wanted = [code for code in languages if code in first]
    others = [code for code in first if code not in wanted]
    return [first[code] for code in [*wanted, *others][: len(languages)]]


def write_demo_report(run: Path, found: Findings) -> Path:
    """Replace the training's `report.html` by one that has its parts and the findings."""
    name = escape(str(run))
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
        "<h2>Go on from here</h2>\n"
        f"<pre>regard predict {name} --text &quot;Mittwoch, 9. Mai 2029&quot;\n"
        f"regard look {name} &quot;Mittwoch, 9. Mai 2029&quot; --out look.html</pre>",
        recipe_part(run),
    ]
    write_text(run / "report.html", page("Dates in many languages", body, style=shade_style()))
    return run / "report.html"


def language_table(found: Findings) -> str:
    """A line for each language: how many dates, how many right, and one of them."""
    lines = []
    for name, share in found.by_language.items():
        its = [one for one in found.answered if one.language == name]
        # a mistake is more informative than another success
        shown = next((one for one in its if not one.is_right), its[0])
        lines.append([
            name, str(share), f"{share.right} of {share.count}",
            # isolated, so that right-to-left text does not reorder what follows
            f"\u2068{shown.example.source}\u2069 → {shown.text}", "" if shown.is_right else "wrong",
        ])  # fmt: skip
    return table(
        ["", "exact match", "right", "one of them", ""],
        lines,
        caption="Unseen dates, greedy search; a mistake is shown where there is one",
    )


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
