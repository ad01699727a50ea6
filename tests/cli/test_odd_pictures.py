"""Odd pictures among good ones: each is spoken of by name, and the others are captioned as ever."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regard
from regard.cli import main
from regard.recipes import read_recipe
from regard.training import run
from regard.training.events import Notice
from regard.training.preparation import prepare
from regard.training.workers import SINGLE_PROCESS
from tests.captioning import RECIPE, draw, trained_captioner

NOISE = np.random.default_rng(2).integers(0, 256, (60, 80, 3), dtype=np.uint8)

REFUSED = {
    "truncated.jpg": "is damaged: image file is truncated",
    "dot.png": "has 1 by 1 pixels; the least is 8 by 8. Leave it out",
    "text.jpg": "is no picture that can be read",
}
"""What is said of the files that cannot be captioned."""

GOOD = ("first.png", "cmyk.jpg", "moving.gif", "wide.jpg", "last.png")
"""Files that can; the animation with a note."""

FIRST_IS_TAKEN = "it holds more than one picture; the first is taken"


@pytest.fixture(scope="module")
def captioner(tmp_path_factory):
    return trained_captioner(tmp_path_factory.mktemp("captioner"))


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder with pictures of every kind."""
    folder = tmp_path_factory.mktemp("photos")
    for number, name in enumerate(("first.png", "last.png")):
        draw(folder / name, number)
    photo = Image.fromarray(NOISE)
    photo.save(folder / "whole.jpg")
    whole = (folder / "whole.jpg").read_bytes()
    (folder / "whole.jpg").unlink()
    (folder / "truncated.jpg").write_bytes(whole[: len(whole) // 2])
    photo.convert("CMYK").save(folder / "cmyk.jpg")
    photo.crop((0, 0, 1, 1)).save(folder / "dot.png")
    photo.resize((20_000, 40)).save(folder / "wide.jpg")
    (folder / "text.jpg").write_text("this is no picture")
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    frames[0].save(folder / "moving.gif", save_all=True, append_images=frames[1:])
    return folder


def _mixed(photos: Path) -> list[Path]:
    """Good ones first and last, the others between them."""
    middle = sorted(set(photos.iterdir()) - {photos / GOOD[0], photos / GOOD[-1]})
    return [photos / GOOD[0], *middle, photos / GOOD[-1]]


def test_the_animation_and_the_wide_picture_are_what_they_claim_to_be(photos):
    with Image.open(photos / "moving.gif") as moving, Image.open(photos / "wide.jpg") as wide:
        assert (moving.n_frames, wide.size) == (2, (20_000, 40))
    with Image.open(photos / "cmyk.jpg") as printed:
        assert printed.mode == "CMYK"


def test_predict_speaks_of_each_odd_picture_and_captions_the_rest_as_if_alone(
    captioner, photos, capsys
):
    paths = _mixed(photos)
    assert main(["predict", str(captioner), *map(str, paths)]) == 1
    said = capsys.readouterr()
    captions = dict(zip((path.name for path in paths), said.out.splitlines(), strict=True))
    alone = {name: regard.load(captioner).predict([str(photos / name)])[0] for name in GOOD}
    assert captions == {**dict.fromkeys(REFUSED, ""), **{k: v.text for k, v in alone.items()}}
    told = " ".join(said.err.split())
    for name, why in REFUSED.items():
        number = 1 + [path.name for path in paths].index(name)
        assert f"input {number}: picture: '{photos / name}' {why}" in told
    number = 1 + [path.name for path in paths].index("moving.gif")
    assert f"input {number}: {FIRST_IS_TAKEN}" in told
    assert f"3 of {len(paths)} pictures could not be read" in told


def test_training_leaves_out_the_odd_pictures_by_name_and_learns_from_the_rest(tmp_path, photos):
    rows = [{"image": path.name, "captions": ["a red circle"]} for path in _mixed(photos)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "captions.jsonl").write_text(lines)
    choice = (
        f'{{ name = "caption_lines", path = "{tmp_path}/captions.jsonl", pictures = "{photos}" }}'
    )
    text = RECIPE
    for split, count in (("train", 24), ("valid", 6), ("test", 4)):
        old = f'{split} = {{ name = "scenes", count = {count} }}'
        text = text.replace(old, f"{split} = {choice}")
    (tmp_path / "recipe.toml").write_text(text)
    recipe = read_recipe(tmp_path / "recipe.toml")
    events = list(run(recipe, tmp_path / "run"))
    said = [event.text for event in events if isinstance(event, Notice)]
    assert "train: 3 pictures cannot be read and are left out" in said
    for name, why in REFUSED.items():
        assert any(f"train: picture: '{photos / name}' {why}" in each for each in said)
    assert "train: 1 picture is taken with a remark" in said
    assert f"train: '{photos / 'moving.gif'}': {FIRST_IS_TAKEN}" in said
    corpus = prepare(recipe, tmp_path / "run", SINGLE_PROCESS).train.corpus
    facts = json.loads((tmp_path / "run" / "pictures" / "train" / "pictures.json").read_text())
    kept = [path for path in map(str, _mixed(photos)) if Path(path).name in GOOD]
    assert facts["addresses"] == kept
    assert facts["notes"] == [[str(photos / "moving.gif"), FIRST_IS_TAKEN]]
    assert len(corpus) == len(GOOD)
