"""Scenes: the caption follows from the picture, each word from its object, the split from both."""

from itertools import pairwise

import numpy as np
import pytest

from regard.data.boxes import Box
from regard.data.scenes import COLOURS, HALVES, RELATIONS, SHAPES, scene, scene_at, scenes
from regard.errors import DataError, SettingError
from tests.oracles.boxes import area, shared

SOME = [scene(7, number) for number in range(300)]


def _seen(drawn, size):
    """Where each colour is, found in the pixels alone: left, top, right, bottom, and how many."""
    pixels = drawn.draw(size).astype(float)
    found = {}
    for name, colour in COLOURS.items():
        y, x = np.nonzero(np.linalg.norm(pixels - colour, axis=-1) < 40)
        if len(y):
            found[name] = (x.min(), y.min(), x.max() + 1, y.max() + 1, len(y))
    return found


def _read_off(seen, size):
    """A caption made from what is seen alone, by the rules that the module states."""
    words, before = [], None
    for colour in COLOURS:
        if colour not in seen:
            continue
        left, top, right, bottom, count = seen[colour]
        share = count / ((right - left) * (bottom - top))
        # a square is full, a circle π/4, a cross 0.59 and a triangle half of its box
        areas = {"square": 1.0, "circle": np.pi / 4, "cross": 0.5904, "triangle": 0.5}
        shape = min(areas, key=lambda name: abs(areas[name] - share))
        look = "large" if right - left > 0.24 * size else "small"
        if words:
            x, y = (left + right - before[0] - before[2]), (top + bottom - before[1] - before[3])
            across = "left of" if x > 0 else "right of"
            words.append(across if abs(x) > abs(y) else "above" if y > 0 else "below")
        words.append(f"a {look} {colour} {shape}")
        before = seen[colour]
    return " ".join(words)


def test_the_caption_can_be_read_off_the_picture_in_one_way():
    for drawn in SOME[:40]:
        assert _read_off(_seen(drawn, 256), 256) == drawn.caption


def test_boxes_are_where_the_pixels_are():
    for drawn in SOME[:20]:
        seen = _seen(drawn, 256)
        for each in drawn.objects:
            np.testing.assert_allclose(each.box(256), seen[each.colour][:4], atol=2.5)


def test_every_content_word_has_its_objects_box_and_no_other_word_has_one():
    for drawn in SOME:
        words, boxes = drawn.caption.split(), drawn.word_boxes(100)
        assert len(words) == len(boxes)
        content = {*HALVES, *COLOURS, *SHAPES}
        assert [box is not None for box in boxes] == [word in content for word in words]
        of_colour = {each.colour: each.box(100) for each in drawn.objects}
        for place, word in enumerate(words):
            if word in COLOURS:
                assert set(boxes[place - 1 : place + 2]) == {of_colour[word]}


def test_objects_lie_apart_inside_the_picture_and_clearly_related():
    for drawn in SOME:
        boxes = [each.box(1000) for each in drawn.objects]
        assert all(
            shared(Box(20.0, 20.0, 980.0, 980.0), b) == pytest.approx(area(b)) for b in boxes
        )
        for i, box in enumerate(boxes):
            wider = Box(box.left - 45, box.top - 45, box.right + 45, box.bottom + 45)
            assert all(shared(wider, other) == 0 for other in boxes[i + 1 :])
        for relation, (former, latter) in zip(
            drawn.relations, pairwise(drawn.objects), strict=True
        ):
            right, down = RELATIONS[relation]
            x, y = former.x - latter.x, former.y - latter.y
            along, across = (x * right, y) if right else (y * down, x)
            assert along >= 3 * abs(across) - 1e-9


def test_colours_of_a_scene_differ_and_follow_the_rainbow():
    order = list(COLOURS)
    for drawn in SOME:
        places = [order.index(each.colour) for each in drawn.objects]
        assert places == sorted(set(places))


def test_every_word_is_about_as_frequent_as_its_like():
    words = " ".join(drawn.caption for drawn in (scene(1, n) for n in range(2000))).split()
    for table in (HALVES, COLOURS, SHAPES, ["left", "right", "above", "below"]):
        counts = [words.count(word) for word in table]
        assert max(counts) < 1.25 * min(counts)
    assert len(set(words)) == 18


def test_a_scene_follows_from_its_address_at_every_size():
    first, again = scene(3, 8), scene_at("scene:3-8")
    assert first == again
    assert np.array_equal(first.draw(), again.draw())
    assert first.draw().shape == (64, 64, 3)
    assert first.draw(31).shape == (31, 31, 3)
    assert first != scene(4, 8)
    assert not np.array_equal(scene(3, 9).draw(), scene(4, 9).draw())


def test_the_splits_share_no_caption_with_its_layout_under_any_seed():
    counts = {"train": 150, "valid": 40, "test": 40}
    layouts = {split: set() for split in counts}
    for split, found in layouts.items():
        for seed in range(2):
            for example in scenes(split, counts[split], seed=seed, max_objects=1):
                drawn = scene_at(example.source)
                assert example.targets == (drawn.caption,)
                found.add(drawn.layout)
    assert not layouts["train"] & layouts["test"]
    assert not layouts["train"] & layouts["valid"]
    assert not layouts["valid"] & layouts["test"]
    captions = [{layout.split(" @ ")[0] for layout in layouts[split]} for split in layouts]
    assert captions[0] & captions[2]


def test_as_many_objects_as_are_asked_for():
    for least, most in ((1, 1), (2, 2), (2, 3)):
        found = list(scenes("valid", 30, min_objects=least, max_objects=most))
        counts = {len(scene_at(example.source).objects) for example in found}
        assert counts == set(range(least, most + 1))
        assert {example.group for example in found} <= {"1 object", "2 objects", "3 objects"}
    some = [example.source for example in scenes("train", 5)]
    assert some == [example.source for example in scenes("train", 9)][:5]


def test_impossible_settings_and_addresses_are_refused():
    with pytest.raises(SettingError, match="scenes: expected 1 <= min_objects <= max_objects <= 3"):
        scenes("train", 1, min_objects=2, max_objects=4)
    with pytest.raises(SettingError, match="seed and number must be at least 0, got -1 and 2"):
        scene(-1, 2)
    for address in ("scene:", "scene:1", "scene:1-2-3", "scene:-1-2", "scene:1-²"):
        with pytest.raises(
            DataError, match=f"scenes: '{address}' is no scene; expected scene:SEED"
        ):
            scene_at(address)
