"""The demo's measurements: what a run that reads dates can do, on days it has never seen.

Exact match is greedy search's, by language. Alignments are read off a pass over source and right
answer, one link for each digit: hyphens and end tokens have none. The head is chosen on dates of
the validation split and reported on those of the test split; no day is in two splits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import final

from jaxtyping import Float
from torch import Tensor

from regard.data.dates import language_name
from regard.data.examples import Example
from regard.data.kinds import EOS
from regard.decoding import Greedy, Limits
from regard.errors import RunError, SettingError
from regard.evaluating.alignment import AlignmentCounts
from regard.evaluating.digits import digit_gold
from regard.evaluating.groups import Share, exact_by_group
from regard.evaluating.heads import LEFT_OUT, BestHead, Pieces, Row, View, best_head
from regard.evaluating.links import Gold
from regard.hardware.hardware import Hardware
from regard.hardware.threads import Threads
from regard.inspecting.capture import attention_of, weights_of
from regard.inspecting.record import Record
from regard.recipes.recipe import Recipe, examples, read_recipe
from regard.runs.trained import Trained

RECIPE = Path(__file__).with_name("demo-dates.toml")
"""A link to the recipe of the same name, so that an installed package has it too."""
HARDWARE = Hardware(threads=Threads(1, "the demo's numbers are the same on any number of cores"))
LONGEST = 16
"""The most characters of an answer; a date has ten."""
ALIGNED = 500
"""From so many dates a head is chosen, and on so many others it is reported."""
SHOWN = ("de", "fr", "ru", "el", "zh", "hi")
"""Languages whose first unseen date is shown."""

Aligned = tuple[Float[Tensor, "layers heads rows columns"], Pieces, Gold]
"""A date's cross-attention, the characters of its pieces, and its true links."""


@final
@dataclass(frozen=True)
class Answered:
    """An unseen date and what the model made of it."""

    example: Example
    text: str

    @property
    def is_right(self) -> bool:
        """To the letter."""
        return self.text in self.example.targets


@final
@dataclass(frozen=True)
class Findings:
    """All that the demo shows."""

    answered: Sequence[Answered]
    chosen_on: Mapping[View, AlignmentCounts]
    """Alignment errors of every head on the dates from which the best one is chosen."""
    reported_on: Mapping[View, AlignmentCounts]
    """The same on unseen dates."""
    records: Sequence[Record]
    """Some of the answers with the attention that produced them."""

    @cached_property
    def by_language(self) -> dict[str, Share]:
        """Exact match of each language, by its English name."""
        return exact_by_group(
            [language_name(one.example.group or "") for one in self.answered],
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
    def pictured(self) -> View:
        """The head to draw: the best of the row that predicts, whose maps are drawn as they are."""
        heads = [v for v in self.chosen_on if v.is_head and v.row is Row.PREDICTING]
        return min(heads, key=lambda view: self.chosen_on[view].error_rate)


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
    return list(islice(examples(recipe.data.valid, "valid")(), ALIGNED))


def answers(trained: Trained, asked: Sequence[Example]) -> Iterator[tuple[int, Answered]]:
    """Answers as they come, each with the place of its date, so that a bar can count them."""
    search = Greedy(limits=Limits(max_tokens=LONGEST))
    for place, said in trained.predict_each([one.source for one in asked], search=search):
        yield place, Answered(asked[place], said.text)


def aligned(trained: Trained, example: Example) -> Aligned:
    """What `view_table` needs to know of one date."""
    source, target = trained.loaded.source, trained.loaded.target
    written = example.targets[0]
    maps = attention_of(
        trained.loaded.model, [*source.encode(example.source), EOS], target.encode(written)
    )
    pieces = Pieces(
        [*(start for start, _ in source.offsets(example.source)), LEFT_OUT],
        [start if written[start].isdigit() else LEFT_OUT for start, _ in target.offsets(written)],
    )
    gold = digit_gold(example.source, written, example.links or ())
    return weights_of(maps["cross"]), pieces, gold


def to_show(answered: Sequence[Answered], languages: Sequence[str] = SHOWN) -> list[Answered]:
    """The first date of each of these languages; others where a language has none."""
    first: dict[str | None, Answered] = {}
    for one in answered:
        first.setdefault(one.example.group, one)
    wanted = [code for code in languages if code in first]
    others = [code for code in first if code not in wanted]
    return [first[code] for code in [*wanted, *others][: len(languages)]]
