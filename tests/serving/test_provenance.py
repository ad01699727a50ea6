"""A run is offered lines of its own data, and of no other file that its recipe may name."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from regard.recipes import read_recipe
from regard.serving import build_app
from regard.serving.registry import open_runs
from regard.training import run as train
from regard.training.card_json import Quoted, QuotedFile, file_hash, quoted_text
from tests.captioning import draw, trained_captioner
from tests.factories import make_run
from tests.serving.serving import write_card

SECRET = "the password is swordfish"
GENERATED = 'valid = { name = "copy", count = 5 }'


@pytest.fixture
def secret(tmp_path):
    """A file of this machine that is no part of a run."""
    path = tmp_path / "home" / "secret.tsv"
    path.parent.mkdir()
    path.write_text(f"{SECRET}\t{SECRET}\n")
    return path


def _stranger_s(tmp_path, valid):
    """A run whose validation data are these."""
    run = make_run(tmp_path / "run", SECRET)
    recipe = (run / "recipe.toml").read_text()
    (run / "recipe.toml").write_text(recipe.replace(GENERATED, f"valid = {valid}"))
    return run


def _tsv(path):
    return f'{{ name = "tsv", path = "{path}" }}'


def _told(run):
    """What the server says of a run, and to a wish for its first picture."""
    registry = open_runs([run], device="cpu")
    with TestClient(build_app(registry), base_url="http://127.0.0.1:8000") as client:
        info = client.get(f"/api/runs/{run.name}/info").json()
        return info, client.get(f"/api/runs/{run.name}/caption/0")


def _withheld(run, path):
    info, _ = _told(run)
    assert SECRET not in json.dumps(info)
    assert info["examples"] == []
    assert info["why_no_examples"] == (
        f"No examples of this run's data: '{path}' is neither part of the run nor what card.md "
        "records."
    )


def test_a_file_that_the_run_was_not_made_from_is_not_shown(tmp_path, secret):
    run = _stranger_s(tmp_path, _tsv(secret))
    _withheld(run, secret)
    # a card that records another file under the same name
    other = QuotedFile("valid", str(secret), file_hash(run / "recipe.toml"))
    (run / "card.md").write_text(quoted_text(Quoted((other,), {}, None, {})))
    _withheld(run, secret)
    # the right hash, of another split
    train = QuotedFile("train", str(secret), file_hash(secret))
    (run / "card.md").write_text(quoted_text(Quoted((train,), {}, None, {})))
    _withheld(run, secret)


def test_a_file_that_changed_since_is_not_shown(tmp_path, secret):
    run = _stranger_s(tmp_path, _tsv(secret))
    secret.write_text("a\tb\n")
    write_card(run)
    secret.write_text(f"{SECRET}\t{SECRET}\n")
    _withheld(run, secret)


def test_a_file_that_leads_out_of_the_run_is_not_shown(tmp_path, secret):
    link = tmp_path / "run" / "valid.tsv"
    run = _stranger_s(tmp_path, _tsv(link))
    link.symlink_to(secret)
    _withheld(run, link)


def test_a_device_without_an_end_is_not_read(tmp_path):
    run = _stranger_s(tmp_path, _tsv("/dev/zero"))
    zero = QuotedFile("valid", "/dev/zero", "0" * 64)
    (run / "card.md").write_text(quoted_text(Quoted((zero,), {}, None, {})))
    _withheld(run, "/dev/zero")


def test_data_that_are_no_files_are_not_shown(tmp_path):
    info, _ = _told(_stranger_s(tmp_path, '{ name = "elsewhere", model = "bert" }'))
    assert info["examples"] == []
    assert info["why_no_examples"].endswith("its data are not files of this machine.")


def test_a_file_inside_the_run_is_shown(tmp_path, secret):
    run = _stranger_s(tmp_path, _tsv(tmp_path / "run" / "valid.tsv"))
    secret.rename(run / "valid.tsv")
    info, _ = _told(run)
    assert (info["examples"], info["why_no_examples"]) == ([SECRET], None)


def test_a_run_that_was_trained_here_is_offered_its_data_from_wherever_they_are(tmp_path, secret):
    recipe = (_stranger_s(tmp_path, _tsv(secret)) / "recipe.toml").read_text()
    own = recipe.replace('train = { name = "copy", count = 40 }', f"train = {_tsv(secret)}")
    (tmp_path / "own.toml").write_text(own)
    list(train(read_recipe(tmp_path / "own.toml"), tmp_path / "own"))
    info, _ = _told(tmp_path / "own")
    assert (info["examples"], info["why_no_examples"]) == ([SECRET], None)


@pytest.fixture(scope="module")
def captioner(tmp_path_factory):
    return trained_captioner(tmp_path_factory.mktemp("captioner"))


@pytest.mark.parametrize(("name", "is_shown"), [("../../home/dog.png", False), ("cat.png", True)])
def test_a_list_of_pictures_does_not_lead_out_of_their_folder(captioner, tmp_path, name, is_shown):
    for path in (tmp_path / "home" / "dog.png", tmp_path / "run" / "photos" / "cat.png"):
        path.parent.mkdir(parents=True)
        draw(path, 1)
    run = tmp_path / "run"
    for path in captioner.iterdir():
        if path.is_file() and path.name != "card.md":
            (run / path.name).write_bytes(path.read_bytes())
    (run / "list.jsonl").write_text(json.dumps({"image": name, "captions": ["a"]}) + "\n")
    listed = f'{{ name = "caption_lines", path = "{run}/list.jsonl", pictures = "{run}/photos" }}'
    recipe = (run / "recipe.toml").read_text()
    generated = '[data.valid]\nname = "scenes"\ncount = 6\n'
    assert generated in recipe
    own = recipe.replace(generated, "").replace("[data]", f"[data]\nvalid = {listed}", 1)
    (run / "recipe.toml").write_text(own)
    info, picture = _told(run)
    assert [one.endswith(name) for one in info["examples"]] == [True] * is_shown
    assert picture.status_code == (200 if is_shown else 400)
    assert "neither in the run nor in its folder" in (info["why_no_examples"] or "") or is_shown


@pytest.mark.parametrize(
    ("address", "is_shown"),
    [
        ("examples/1/cat.png", True),
        ("../home/dog.png", False),
        ("examples/1/link.png", False),
        ("/etc/hostname", False),
    ],
)
def test_kept_pictures_lie_in_the_run(captioner, tmp_path, address, is_shown):
    run = tmp_path / "run"
    for path in (tmp_path / "home" / "dog.png", run / "examples" / "1" / "cat.png"):
        path.parent.mkdir(parents=True)
        draw(path, 1)
    (run / "examples/1/link.png").symlink_to(tmp_path / "home" / "dog.png")
    for path in captioner.iterdir():
        if path.is_file():
            (run / path.name).write_bytes(path.read_bytes())
    (run / "examples.json").write_text(json.dumps({"version": 1, "inputs": [address]}))
    info, _ = _told(run)
    assert (Path(address).name in info["examples"]) == is_shown
