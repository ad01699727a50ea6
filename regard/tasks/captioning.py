"""Captioning: addresses of pictures in, captions out; unreadable files do not stop the others.

    address → pixels as the run was trained on them → the same search as for texts

A picture that cannot be read has an empty caption and a note with the reason; the others are
captioned as usual.

For the pointing game of scenes a teacher-forced pass over the reference gives the maps, which are
compared with the boxes of its words. A word's map is the sum over its pieces, of the mean over all
layers and heads.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.data import GENERATORS, Example
from regard.data.atomic_writes import write_text
from regard.data.boxes import Box
from regard.data.examples import in_form
from regard.data.framings import FRAMINGS
from regard.data.pictures import read_picture
from regard.data.scenes import Scene, is_scene, scene_at
from regard.data.subword_kinds import BOS
from regard.decoding import Decodable, Search, Sentence
from regard.decoding.batching import decode_each
from regard.errors import DataError, SettingError
from regard.evaluating import MetricScore
from regard.evaluating.pointing_game import Pointing, grid_cells, pointing_game, together
from regard.inspecting.caption_record import CaptionRecord, caption_record
from regard.inspecting.panels import View
from regard.inspecting.record import Record
from regard.inspecting.token_labels import words_of
from regard.models import Captioner
from regard.models.captioner.network import Album
from regard.models.spec_choices import frozen_encoder
from regard.plots.picture_page import picture_page
from regard.plots.pictures import caption_sheet
from regard.recipes.recipe import Recipe
from regard.tasks.input_format import form_name
from regard.tasks.loaded_run import LoadedRun
from regard.tasks.looks import DOTS_PER_INCH, LookRequest, ShownLook, Waiting
from regard.tasks.picture_sources import PictureSources, SeenPicture, captioner_spec, see
from regard.tasks.predictions import AnswerOptions, Prediction, Request, WithPrecision, prediction
from regard.tasks.samples import WordLooks, strongest_links
from regard.tasks.searched_texts import constrained, streamed_text
from regard.tasks.task import NO_CACHE, Task

PICTURES_READ_AHEAD = 512
"""How many pictures are read before the first is captioned."""
PICTURES_PER_BATCH = 64
CLASSES = ("size", "colour", "shape")
"""The classes of the content words of a scene's object, in their order."""


@final
class Captioning(Task):
    """A model looks at a picture and writes what it shows."""

    does = "captions pictures"
    needs_kind = "captioner"
    sources = PictureSources()
    meaningless: Mapping[str, str] = {
        "cache": NO_CACHE,
        "lengths": "a picture has no length, by which losses are sorted",
    }

    def verb(self, recipe: Recipe) -> str:
        """A picture in words."""
        return "Caption"

    def request_words(self, example: str) -> tuple[str, ...]:
        """A picture is a file."""
        return (example,)

    def as_trained(self, recipe: Recipe, examples: Iterable[Example]) -> list[Example]:
        """Examples with normalised captions; an address stays as it is."""
        return list(in_form(form_name(recipe), examples, has_texts=False))

    def is_blank(self, run: LoadedRun, text: str) -> bool:
        """An empty address is an error of its reader, not a blank request."""
        return False

    def plan_notes(self, recipe: Recipe) -> Iterator[str]:
        """How the trial updates of a plan differ from a training."""
        if frozen_encoder(recipe.model) is not None:
            yield (
                "the frozen encoder looks at every picture once, before the first update; here it "
                "looked again in every update, so that the time is too long, and its annotations "
                "are not counted on disk"
            )

    def answer_each(
        self, run: LoadedRun, requests: Sequence[Request], options: AnswerOptions
    ) -> Iterator[tuple[int, Prediction]]:
        """Captions as they come, each with the place of its picture."""
        _check_options(options)
        sentences = [constrained(run.loaded, one) for one in requests]
        search = WithPrecision(options.search, run.hardware)
        for first in range(0, len(requests), PICTURES_READ_AHEAD):
            seen: dict[int, SeenPicture] = {}
            for place, one in enumerate(requests[first : first + PICTURES_READ_AHEAD], first):
                try:
                    seen[place] = see(run.loaded.recipe, one.text)
                except DataError as error:
                    yield place, Prediction(one.text, "", math.nan, (), note=str(error))
            if not seen:
                continue
            places = list(seen)
            found = decode_each(
                _album(run, [each.pixels for each in seen.values()]),
                [replace(sentences[place], source=[i]) for i, place in enumerate(places)],
                search,
                batch_tokens=PICTURES_PER_BATCH,
                device=run.hardware.device,
            )
            for number, hypotheses in found:
                place = places[number]
                answer = prediction(
                    requests[place].text, hypotheses, run.loaded.target, search=run.last_search
                )
                notes = [*seen[place].notes, *([answer.note] if answer.note else [])]
                yield place, replace(answer, note="; ".join(notes) or None)

    def stream(self, run: LoadedRun, request: Request, search: Search) -> Iterator[str]:
        """The caption of a picture in parts, each as soon as it is written."""
        pixels, sentence = (
            see(run.loaded.recipe, request.text).pixels,
            constrained(run.loaded, request),
        )
        yield from streamed_text(run, _album(run, [pixels]), replace(sentence, source=[0]), search)

    def has_failed(self, answer: Prediction) -> bool:
        """A picture that could not be read has no score."""
        return math.isnan(answer.score)

    def look(self, run: LoadedRun, text: str, target: str | None, search: Search | None) -> Record:
        """Refuse a text."""
        raise pictures_refusal("look")

    def inputs_of(
        self, typed: Sequence[str], one_text: Callable[[Sequence[str]], str]
    ) -> list[str]:
        """The addresses that were typed."""
        return list(typed)

    def shown_look(self, run: LoadedRun, request: LookRequest, waiting: Waiting) -> ShownLook:
        """Caption each picture, and gather where its words looked."""
        view = request.view
        check_pictures(request.inputs, view, request.target, request.out, has_grid=request.has_grid)
        records: list[CaptionRecord] = []
        for address in request.inputs:
            record = self.look_at_picture(run, address, request.target, request.search)
            # a missing layer raises at the first picture, before the others are captioned
            view.chosen(record.n_layers, record.n_heads)
            records.append(record)
        return shown_pictures(records, view)

    def look_at_picture(
        self, run: LoadedRun, address: str, target: str | None, search: Search | None
    ) -> CaptionRecord:
        """Where each word of a picture's caption looked; `target` is a caption to look at."""
        loaded, hardware = run.loaded, run.hardware
        tokens: Sequence[int] | None = None if target is None else run.answer_tokens(target)
        assert isinstance(loaded.model, Captioner)
        seen, original = see(loaded.recipe, address), read_picture(address)
        # the shown original of a scene is drawn larger than the model's input
        framing = FRAMINGS[loaded.recipe.pictures_or_default.framing](
            original.width, original.height, seen.framing.size
        )
        with hardware.on_threads():
            if tokens is None:
                exact = WithPrecision(search or run.default_search(), hardware)
                found = exact(_album(run, [seen.pixels]), [Sentence([0])], device=hardware.device)
                tokens = found[0][0].tokens
            return caption_record(
                loaded.model, seen.pixels, framing, original, loaded.target, list(tokens)
            )

    def sample_links(
        self, run: LoadedRun, text: str, answer: str, search: Search
    ) -> tuple[WordLooks, ...]:
        """The cells of the picture that each word of the caption looked at."""
        return strongest_links(self.look_at_picture(run, text, answer, search).read)

    def default_metrics(self, recipe: Recipe) -> Sequence[str]:
        """Scores of captions, the loss, and for scenes the pointing game."""
        return ("captions", "loss", "pointing")

    def validation_scores(self, recipe: Recipe) -> Sequence[str]:
        """BLEU, which is quick; captions of generated scenes have one form, and need none."""
        return () if recipe.data.train.name in GENERATORS else ("bleu",)


def shown_pictures(records: Sequence[CaptionRecord], view: View) -> ShownLook:
    """The records of pictures, in each form of output."""
    return ShownLook(
        notes=tuple(f"look: {one.picture.name}: {one.warning}" for one in records if one.warning),
        as_json=lambda: _json(records),
        show=lambda console: console.print(
            _text(records, view), markup=False, highlight=False, soft_wrap=True
        ),
        write=lambda out: WRITERS[out.suffix](records, view, out),
    )


def pictures_refusal(who: str) -> SettingError:
    """The error of work that needs the words of a source."""
    return SettingError(
        f"{who}: this run looks at pictures, but the words of a source are needed here. Take a "
        "run that reads texts."
    )


def _album(run: LoadedRun, pictures: Sequence[np.ndarray]) -> Decodable:
    pixels = torch.from_numpy(np.stack(pictures))
    return run.reading(
        lambda model: Album(model, lambda numbers: run.hardware.put(pixels[numbers.cpu()]))
    )


def _check_options(options: AnswerOptions) -> None:
    """Refuse options that need words or a length of the source."""
    refused = {
        "--alignments links the words of two texts": options.has_alignments,
        "--on-long split cuts texts in pieces": options.on_long == "split",
    }
    for what, is_asked in refused.items():
        if is_asked:
            raise SettingError(f"captions: {what}, but this run looks at pictures. Leave it out.")


def _json(records: Sequence[CaptionRecord]) -> str:
    return "\n".join(json.dumps(one.as_json(), ensure_ascii=False) for one in records)


def _text(records: Sequence[CaptionRecord], view: View) -> str:
    return "\n\n".join(_word_by_word(one, view) for one in records)


def _word_by_word(record: CaptionRecord, view: View) -> str:
    """A caption word by word: its strongest cell, how spread its map is, and its gate."""
    maps, spread = record.maps(view.layer, view.head), record.entropies(view.layer, view.head)
    gates = record.gates or (None,) * len(record.words)
    wide = max((len(word) for word in record.words), default=0)
    lines = [f"{record.picture.name}: {record.caption}", record.title(view.layer, view.head)]
    for word, cells, entropy, gate in zip(record.words, maps, spread, gates, strict=True):
        row, column = divmod(int(cells.argmax()), record.grid.columns)
        beta = "" if gate is None else f", gate {gate:.2f}"
        lines.append(
            f"  {word:<{wide}}  row {row + 1}, column {column + 1} of {record.grid.rows} by "
            f"{record.grid.columns}: {float(cells.max()):.2f}, entropy {float(entropy):.2f}{beta}"
        )
    return "\n".join(lines)


def _write_sheet(records: Sequence[CaptionRecord], view: View, out: Path) -> None:
    (record,) = records
    caption_sheet(record, view.layer, view.head).savefig(out, dpi=DOTS_PER_INCH)


WRITERS: Mapping[str, Callable[[Sequence[CaptionRecord], View, Path], object]] = {
    ".html": lambda records, view, out: write_text(out, picture_page(records)),
    ".png": _write_sheet,
    ".svg": _write_sheet,
    ".pdf": _write_sheet,
    ".txt": lambda records, view, out: write_text(out, _text(records, view) + "\n"),
    ".json": lambda records, view, out: write_text(out, _json(records) + "\n"),
}


def check_pictures(
    addresses: Sequence[str], view: View, target: str | None, out: Path | None, *, has_grid: bool
) -> None:
    """Refuse what a look at pictures does not have."""
    if has_grid:
        raise SettingError(
            "look: --heads draws words at words; this run captions pictures. Write a page (--out "
            "x.html), where layer and head are chosen."
        )
    if out is not None and out.suffix not in WRITERS:
        raise SettingError(f"look: a caption's look ends in {', '.join(WRITERS)}; got '{out}'.")
    if not addresses:
        raise SettingError(
            "look: this run captions pictures; expected one, got none. Write regard look RUN "
            "picture.jpg."
        )
    if view.kind != "cross":
        raise SettingError(
            f"look: the words of a caption look at cells of the picture (--kind cross); got --kind "
            f"{view.kind}."
        )
    if view.unit != "words":
        raise SettingError("look: a caption is shown by its words. Leave --pieces out.")
    is_sheet = out is not None and WRITERS.get(out.suffix) is _write_sheet
    several = {"--target": target is not None, f"a {out and out.suffix}": is_sheet}
    if len(addresses) > 1 and any(several.values()):
        name = next(name for name, is_given in several.items() if is_given)
        raise SettingError(
            f"look: {name} is for one picture, got {len(addresses)}. Give one, or write a page "
            "(--out x.html) without a target."
        )


def pointing_scores(run: LoadedRun, examples: Sequence[Example]) -> tuple[MetricScore, ...]:
    """How often a content word's map peaks in its object's box, and how much of it lies there."""
    scenes = [example for example in examples if is_scene(example.source)]
    model = run.loaded.model
    if not isinstance(model, Captioner) or not scenes:
        return ()
    size = captioner_spec(run.loaded.recipe).picture_size
    grid, cell = model.encoder.grid_of(size), model.encoder.pixels_per_cell
    # the last cells may reach over the picture's edge
    shown = Box(0.0, 0.0, float(grid.columns * cell), float(grid.rows * cell))
    cells = grid_cells(grid.rows, grid.columns, shown)
    games = []
    for first in range(0, len(scenes), PICTURES_PER_BATCH):
        some = scenes[first : first + PICTURES_PER_BATCH]
        for example, maps in zip(some, _word_maps(run, some), strict=True):
            scene = scene_at(example.source)
            boxes = scene.word_boxes(size)
            if len(boxes) == len(maps):
                games.append(pointing_game(maps, boxes, _classes(scene), cells))
    total = sum(together(games).values(), Pointing())
    return total.scores() if total.words else ()


@torch.inference_mode()
def _word_maps(run: LoadedRun, some: Sequence[Example]) -> list[Float[Tensor, "words cells"]]:
    """Where a run looks for each word of the first reference of each example."""
    loaded, hardware = run.loaded, run.hardware
    pixels = np.stack([see(loaded.recipe, example.source).pixels for example in some])
    texts = [example.targets[0] for example in some]
    tokens = [loaded.target.encode(text) for text in texts]
    read = pad_sequence([torch.tensor([BOS, *each]) for each in tokens], batch_first=True)
    maps = loaded.model.maps(hardware.put(torch.from_numpy(pixels)), hardware.put(read))["cross"]
    weights = torch.stack([layer.dense() for layer in maps]).mean((0, 2)).cpu()
    found = []
    for row, text in enumerate(texts):
        words = torch.tensor(words_of(text, loaded.target.offsets(text)))
        summed = weights.new_zeros(len(text.split()), weights.shape[-1])
        found.append(summed.index_add(0, words, weights[row, : len(words)]))
    return found


def _classes(scene: Scene) -> list[str]:
    """The class of each word of a caption; the class of a word without a box is not used."""
    names = cycle(CLASSES)
    return ["other" if box is None else next(names) for box in scene.word_boxes()]
