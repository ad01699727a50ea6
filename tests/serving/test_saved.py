"""Records in files are served beside runs, or alone; colour maps are those that figures have."""

import json

import matplotlib as mpl
import numpy as np
import pytest
from starlette.testclient import TestClient

from regard.data.pictures import pillow
from regard.errors import DataError
from regard.inspecting import save_caption, save_record
from regard.plots.colours import colour
from regard.serving import build_app
from regard.serving.colour_maps import MAPS, colour_ramps
from regard.serving.registry import open_runs
from tests.factories import make_run
from tests.inspecting.captions_by_hand import captioned, random_maps, written


@pytest.fixture
def saved(tmp_path, registry):
    caption = captioned([list(random_maps(2, 3, 16))], written("a", "dog"), gates=(0.5, 0.25, 1.0))
    save_caption(caption, tmp_path / "dog.safetensors")
    save_record(registry.run("first").trained.look("a dog", "dog"), tmp_path / "text.safetensors")
    return caption, [tmp_path / "dog.safetensors", tmp_path / "text.safetensors"]


def test_a_file_that_is_given_like_a_run_is_the_record_that_it_says_it_is(saved):
    caption, paths = saved
    with TestClient(build_app(open_runs(paths)), base_url="http://127.0.0.1") as client:
        said = client.get("/api/runs").json()
        assert (said["runs"], said["records"], said["captions"]) == (
            [],
            ["text.safetensors"],
            ["dog.safetensors"],
        )
        told = client.get("/api/captions/dog.safetensors").json()
        assert told == {"record": "dog.safetensors", **json.loads(json.dumps(caption.as_json()))}
        png = client.get("/api/captions/dog.safetensors/picture")
        (path := paths[0].with_suffix(".png")).write_bytes(png.content)
        with pillow().open(path) as picture:
            np.testing.assert_array_equal(np.asarray(picture), caption.picture.pixels)
        text = client.get("/api/records/text.safetensors/weights/cross")
        assert text.status_code == 200
        assert client.get("/api/captions/cat").status_code == 404


def test_records_are_named_apart_wherever_they_stand(saved):
    _, (dog, text) = saved
    registry = open_runs([dog], saved=[text])
    assert (list(registry.saved_captions), list(registry.saved)) == (
        ["dog.safetensors"],
        ["text.safetensors"],
    )


def test_a_file_that_is_no_record_is_told_as_one(tmp_path):
    (tmp_path / "x.safetensors").write_text("no record")
    remedy = "Give the folder of a run, or a record made by save_record or save_caption."
    with pytest.raises(DataError, match=rf"x.safetensors' cannot be read as a record .*{remedy}"):
        open_runs([tmp_path / "x.safetensors"])
    weights = make_run(tmp_path / "run") / "model.safetensors"
    with pytest.raises(DataError, match=rf"model.safetensors' is no record\. {remedy}"):
        open_runs([weights])


@pytest.mark.parametrize("name", MAPS)
def test_a_colour_map_is_matplotlib_s_of_the_same_name(name):
    ramps = colour_ramps()
    for theme in ("light", "dark"):
        told = ramps[theme]["maps"][name]
        table = mpl.colormaps[told["name"]]
        for share in np.linspace(0, 1, 101):
            want = [255 * part for part in table(float(share))[:3]]
            assert colour(told["ramp"], float(share)) == pytest.approx(want, abs=8)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_map_goes_from_the_ground_evenly_to_the_other_end(theme):
    for told in colour_ramps()[theme]["maps"].values():
        grey = [sum(w * int(stop[i : i + 2], 16) for w, i in ((0.3, 1), (0.59, 3), (0.11, 5)))
                for stop in told["ramp"]]  # fmt: skip
        assert grey == sorted(grey, reverse=theme == "light")
