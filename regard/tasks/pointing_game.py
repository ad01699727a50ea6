"""The pointing game of a captioner on scenes, where the box of every content word is known.

The run is made to write the reference, so that its maps can be held against boxes of just these
words. A word's map is the sum over its pieces, of the mean over all layers and heads.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.data import Example
from regard.data.boxes import Box
from regard.data.kinds import BOS
from regard.data.scenes import Scene, is_scene, scene_at
from regard.evaluating import Score
from regard.evaluating.pointing_game import Pointing, all_words, grid_cells, pointing_game, together
from regard.inspecting.alignments import words_of
from regard.layers.vision import ImageEncoder
from regard.models import Captioner
from regard.tasks.picture_sources import captioner_spec, see
from regard.tasks.ready_run import ReadyRun

SCENES_PER_BATCH = 64
"""How many scenes are looked at together."""
CLASSES = ("size", "colour", "shape")
"""What the content words of an object say, in their order."""


def scene_pointing(run: ReadyRun, examples: Sequence[Example]) -> dict[str, Pointing]:
    """The game over all scenes among these examples, by class of word; empty without scenes."""
    scenes = [example for example in examples if is_scene(example.source)]
    model = run.loaded.model
    if not isinstance(model, Captioner) or not scenes:
        return {}
    encoder = cast(ImageEncoder, model.encoder)
    size = captioner_spec(run.loaded.recipe).picture_size
    grid, cell = encoder.grid_of(size), encoder.pixels_per_cell
    # the last cells may reach over the picture's edge
    shown = Box(0.0, 0.0, float(grid.columns * cell), float(grid.rows * cell))
    cells = grid_cells(grid.rows, grid.columns, shown)
    games = []
    for first in range(0, len(scenes), SCENES_PER_BATCH):
        some = scenes[first : first + SCENES_PER_BATCH]
        for example, maps in zip(some, _word_maps(run, some), strict=True):
            scene = scene_at(example.source)
            boxes = scene.word_boxes(size)
            if len(boxes) == len(maps):
                games.append(pointing_game(maps, boxes, _classes(scene), cells))
    return together(games)


def pointing_scores(run: ReadyRun, examples: Sequence[Example]) -> tuple[Score, ...]:
    """How often a content word's map peaks in its object's box, and how much of it lies there."""
    game = scene_pointing(run, examples)
    return all_words(game).scores() if game else ()


@torch.inference_mode()
def _word_maps(run: ReadyRun, some: Sequence[Example]) -> list[Float[Tensor, "words cells"]]:
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
    """What each word of a caption says; words without a box may have any name."""
    number, found = 0, []
    for box in scene.word_boxes():
        found.append("other" if box is None else CLASSES[number % len(CLASSES)])
        number += box is not None
    return found
