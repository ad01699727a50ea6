"""Picture stores: what is written is what is read, bad pictures are named, damage is refused."""

import json
import os
import zipfile
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data import picture_store
from regard.data.framings import FRAMINGS
from regard.data.picture_store import PictureNote, PictureStore, write_pictures
from regard.data.pictures import read_picture
from regard.data.processes import Died
from regard.data.scenes import scene
from regard.errors import DataError, SettingError, UnknownChoice

SCENES = [f"scene:5-{number}" for number in range(7)]


def _picture(seed, width, height):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def mixed(tmp_path):
    """Addresses of good and bad pictures, in files and in a zip."""
    (tmp_path / "wide.png").write_bytes(_picture(1, 40, 20))
    (tmp_path / "short.png").write_bytes(_picture(2, 40, 20)[:700])
    (tmp_path / "text.jpg").write_text("no picture")
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "moving.gif", save_all=True, append_images=frames[1:])
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        packed.writestr("high.png", _picture(3, 20, 50))
    names = ("wide.png", "short.png", "moving.gif", "text.jpg", "all.zip/high.png", "none.png")
    return [*(f"{tmp_path}/{name}" for name in names), "scene:5-1", f"{tmp_path}/wide.png"]


def _check(store, mixed):
    wide, short, moving, text, high, none, drawn, _ = mixed
    assert list(store.rows) == [wide, moving, high, drawn]
    for address, row in store.rows.items():
        framing = store.framing(row)
        picture = read_picture(address, enough=24)
        assert framing == FRAMINGS["crop"](picture.width, picture.height, 24)
        assert np.array_equal(store.pixels[row], framing.square(picture))
    assert [one.address for one in store.refused] == [short, text, none]
    assert "is damaged" in store.refused[0].text
    assert "is no picture" in store.refused[1].text
    assert "there is no file" in store.refused[2].text
    assert store.notes == (
        PictureNote(moving, "it holds more than one picture; the first is taken"),
    )


def test_good_pictures_are_kept_and_bad_ones_are_named_with_the_reason(tmp_path, mixed):
    store = write_pictures(tmp_path / "store", mixed, size=24)
    _check(store, mixed)
    assert store.framing(0).box == (10.0, 0.0, 30.0, 20.0)
    assert {file.name for file in (tmp_path / "store").iterdir()} == {
        "pictures.bin", "pictures.json", "framings.npy",
    }  # fmt: skip


@pytest.mark.processes
def test_processes_write_what_one_alone_writes(tmp_path, mixed, monkeypatch):
    monkeypatch.setattr(picture_store, "CHUNK", 3)
    _check(write_pictures(tmp_path / "store", mixed, size=24, n_processes=2), mixed)


def test_the_picture_that_kills_a_process_is_found_and_the_rest_is_kept(tmp_path, monkeypatch):
    def dying(job, things, n_processes):
        """Processes that die of the third scene, alone or with others."""
        yield from (Died(-9) if SCENES[2] in thing else job(thing) for thing in things)

    monkeypatch.setattr(picture_store, "in_processes", dying)
    monkeypatch.setattr(picture_store, "CHUNK", 4)
    store = write_pictures(tmp_path / "store", SCENES, size=16, n_processes=2)
    assert list(store.rows) == SCENES[:2] + SCENES[3:]
    assert [one.address for one in store.refused] == [SCENES[2]]
    assert "ended its decoder (exit code -9). Leave it out" in store.refused[0].text


def test_rows_are_mapped_from_disk_and_given_as_copies(tmp_path):
    store = write_pictures(tmp_path / "store", SCENES, size=32)
    assert isinstance(store.pixels, np.memmap)
    assert len(store) == 7
    assert store.size == 32
    batch = store.pictures(np.array([4, 0, 4]))
    assert batch.dtype == torch.uint8
    wanted = [scene(5, number).draw(32).transpose(2, 0, 1) for number in (4, 0, 4)]
    assert np.array_equal(batch.numpy(), wanted)
    batch.zero_()
    assert np.array_equal(store.pictures(np.array([4])).numpy(), wanted[:1])


def test_a_row_is_found_by_its_address_and_a_refused_one_gives_its_reason(tmp_path, mixed):
    store = write_pictures(tmp_path / "store", mixed, size=24, framing="squeeze")
    assert store.row(mixed[4]) == 2
    assert store.framing_name == "squeeze"
    with pytest.raises(DataError, match=r"holds no '.*text\.jpg'; it was refused: .*no picture"):
        store.row(mixed[3])
    with pytest.raises(DataError, match=r"holds no 'b\.jpg'; it was never asked for"):
        store.row("b.jpg")


def test_nothing_is_left_half_written(tmp_path, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    path = tmp_path / "store"
    with monkeypatch.context() as broken:
        broken.setattr(picture_store, "write_facts", stop)
        with pytest.raises(KeyboardInterrupt):
            write_pictures(path, SCENES, size=8)
    assert not path.exists()
    # what a stopped run left beside does not matter to the next one
    write_pictures(path, SCENES, size=8)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(DataError, match="store' exists; take it away, or open it as it is"):
        write_pictures(path, SCENES, size=8)


def test_a_store_of_nothing_is_refused(tmp_path, mixed):
    with pytest.raises(DataError, match=r"none of 2 pictures .* The first: picture: '.*short\.png"):
        write_pictures(tmp_path / "store", [mixed[1], mixed[3]], size=8)
    with pytest.raises(DataError, match=r"none of 0 pictures could be written to '.*store'\."):
        write_pictures(tmp_path / "store", [], size=8)
    assert not (tmp_path / "store").exists()


def test_impossible_settings_are_refused(tmp_path):
    with pytest.raises(SettingError, match="pictures: size must be at least 1, got 0"):
        write_pictures(tmp_path / "store", SCENES, size=0)
    with pytest.raises(
        UnknownChoice, match=r"framing: There is no 'crp' here\. Did you mean 'crop'"
    ):
        write_pictures(tmp_path / "store", SCENES, size=8, framing="crp")


def _facts(**changes):
    def change(path):
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


WRONG = r"pictures\.json does not say what it should"
DAMAGE = [
    (
        "pictures.bin",
        lambda path: path.write_bytes(b"123"),
        "has 3 bytes; 7 × 3 × 8 × 8 take 1,344",
    ),
    ("pictures.bin", lambda path: path.unlink(), "has 0 bytes; 7 × 3 × 8 × 8 take 1,344"),
    ("framings.npy", lambda path: path.unlink(), r"framings\.npy is missing"),
    ("framings.npy", lambda path: (path.unlink(), os.mkfifo(path)), r"framings\.npy is a FIFO"),
    ("pictures.json", lambda path: (path.unlink(), os.mkfifo(path)), r"pictures\.json is a FIFO"),
    ("pictures.json", lambda path: path.write_text("9" * 5000), "thousands of digits"),
    ("framings.npy", lambda path: np.save(path, np.ones((6, 6))), "six numbers for 7 pictures"),
    ("framings.npy", lambda path: np.save(path, np.full((7, 6), np.nan)), "pictures of no size"),
    (
        "framings.npy",
        lambda path: np.save(path, np.array([{}])),
        r"npy cannot be read \(Array can",
    ),
    ("pictures.json", _facts(version=2), WRONG),
    ("pictures.json", _facts(count="7"), WRONG),
    ("pictures.json", _facts(count=6), WRONG),
    ("pictures.json", _facts(addresses=[*SCENES[:6], SCENES[0]]), WRONG),
    ("pictures.json", _facts(addresses=[*SCENES[:6], []]), WRONG),
    ("pictures.json", _facts(refused=[["a"]]), WRONG),
    ("pictures.json", _facts(size=-8), "7 × 3 × -8 × -8 take"),
    ("pictures.json", lambda path: path.write_text("[1]"), WRONG),
]


@pytest.mark.parametrize(("name", "damage", "said"), DAMAGE, ids=range(len(DAMAGE)))
def test_a_damaged_store_is_refused(tmp_path, name, damage, said):
    path = write_pictures(tmp_path / "store", SCENES, size=8).path
    damage(path / name)
    with pytest.raises(DataError, match=rf"store' is damaged: .*{said}.*Take it away and write it"):
        PictureStore.open(path)


@pytest.mark.parametrize("text", [None, "{", b"\xff"])
def test_a_folder_without_facts_is_refused(tmp_path, text):
    if text is not None:
        (tmp_path / "pictures.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=r"pictures\.json is .* write it anew"):
        PictureStore.open(tmp_path)
