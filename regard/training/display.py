"""Display: a training while it runs, as a bar in a terminal and as a curve in a notebook."""

import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, final

from rich.console import Console
from rich.progress import BarColumn, TimeRemainingColumn

from regard.inspecting.token_labels import harmless
from regard.plots.charts import curves
from regard.progress import progress_line
from regard.tasks.samples import Sample
from regard.training.events import Event, Finished, Step, Validated

BAR_SECONDS = 0.2
"""Between two updates that the bar shows; it waits for each."""
SPEED_SECONDS = 5.0
"""Of updates, over which the speed on the bar is a mean."""
CURVE_SECONDS = 1.0
"""Between two drawings of a notebook's curve."""
STYLE = (
    "<style>.regard-curve{--line-1:#1f77b4;--line-2:#d1495b;--grid:#8884;max-width:44rem}"
    ".regard-curve svg text{font-size:12px;fill:currentColor}"
    ".regard-curve .grid{stroke:var(--grid)}.regard-curve .line{fill:none;stroke-width:2}"
    ".regard-curve i{display:inline-block;width:1.2em;height:3px;margin:0 .4em 0 1em;"
    "vertical-align:middle}</style>"
)
"""Only for what stands inside the curve: the rest of the notebook keeps its own."""
MAX_SHOWN_WORDS, MAX_SHOWN_CHARACTERS = 12, 100
"""Of a sample in a terminal: the most words with links, and the most characters of a text."""
MAX_POINTS = 500
"""The most points that a line of the curve has; from there on every second one is left out."""


@final
class TrainingDisplay:
    """Prints sentences, and shows a progress bar if there is a terminal."""

    def __init__(self, console: Console) -> None:
        self.console, self.speed, self.last = console, Speed(), 0.0
        step, numbers = "step {task.completed:.0f}/{task.total:.0f}", "{task.fields[numbers]}"
        self.bar = progress_line(console, step, BarColumn(), numbers, TimeRemainingColumn())
        self.task = self.bar.add_task("", total=0, numbers="")

    def show(self, event: Event) -> None:
        """Move the bar, print a sentence above it, or take it away at the end."""
        if isinstance(event, Step):
            self.bar.start()
            source, target = self.speed.with_step(event)
            if time.monotonic() - self.last >= BAR_SECONDS and self.console.is_terminal:
                self.last = time.monotonic()
                numbers = (
                    f"loss {event.nll:.3f}  rate {event.learning_rate:.1e}  "
                    f"{source:,.0f} + {target:,.0f} tokens/s"
                )
                self.bar.update(
                    self.task, completed=event.progress.step, total=event.of, numbers=numbers
                )
        elif isinstance(event, Finished):
            self.bar.stop()
        else:
            text = _validation_text(event) if isinstance(event, Validated) else event.text
            self.console.print(text, markup=False)
            if isinstance(event, Validated):
                self.console.print(_samples_text(event.samples), markup=False, end="")

    def close(self) -> None:
        """Take the bar away."""
        self.bar.stop()


@final
class Speed:
    """Source and target tokens a second, without padding, over the last few seconds."""

    def __init__(self) -> None:
        self.steps: deque[Step] = deque()

    def with_step(self, step: Step) -> tuple[float, float]:
        """Both speeds, now that this update was made too."""
        self.steps.append(step)
        seconds = sum(each.seconds for each in self.steps)
        while len(self.steps) > 1 and seconds - self.steps[0].seconds >= SPEED_SECONDS:
            seconds -= self.steps.popleft().seconds
        source = sum(each.source_tokens for each in self.steps)
        return source / seconds, sum(each.target_tokens for each in self.steps) / seconds


def _validation_text(event: Validated) -> str:
    best = ", the best so far" if event.is_best else ""
    return f"step {event.step}: validation loss {event.loss:.4f}{event.matched()}{best}"


def _samples_text(samples: Sequence[Sample]) -> str:
    """An example, its answer and the answer's links, a line each."""
    lines: list[str] = []
    for number, one in enumerate(samples, 1):
        # the strongest link of each word alone, so that a line holds them all
        links = " · ".join(
            str(replace(word, at=word.at[:1])) for word in one.looked[:MAX_SHOWN_WORDS]
        )
        more = " …" * (len(one.looked) > MAX_SHOWN_WORDS)
        lines += [
            f"  {number}  {_cut(one.source)}",
            f"     {_cut(one.answer) or '(an empty answer)'}   (wanted: {_cut(one.reference)})",
            *([f"     {links}{more}"] if links else []),
        ]
    return "".join(f"{harmless(line)}\n" for line in lines)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}…"


@final
class LiveCurve:
    """The losses of a training in a cell of a notebook, drawn anew as it goes on."""

    def __init__(self, display: Any) -> None:
        self.display, self.last = display, 0.0
        self.training: list[tuple[float, float]] = []
        self.validation: list[tuple[float, float]] = []
        self.cell = display.display(self._picture(), display_id=True)

    def show(self, event: Event) -> None:
        """Add a point; the picture follows about once a second, and at the end."""
        if isinstance(event, Step):
            if time.monotonic() - self.last < CURVE_SECONDS:
                return
            self.training.append((float(event.progress.step), event.nll))
            if len(self.training) > MAX_POINTS:
                del self.training[::2]
        elif isinstance(event, Validated):
            self.validation.append((float(event.step), event.loss))
        elif not isinstance(event, Finished):
            return
        self.last = time.monotonic()
        self.cell.update(self._picture())

    def _picture(self) -> Any:
        lines = {"training": self.training, "validation": self.validation}
        title = "Loss, nats per target token"
        drawn = curves(lines, title=title)
        return self.display.HTML(f'<div class="regard-curve">{STYLE}{drawn}</div>')


def live_curve() -> LiveCurve | None:
    """The curve in a notebook's cell, or None where no notebook runs this."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    # a terminal's shell has no kernel, and shows no pictures
    return LiveCurve(import_module("IPython.display")) if hasattr(shell, "kernel") else None
