"""Links of a user's own: from a file or an installed package, said aloud, and never from a run."""

import logging
import re

import pytest
import torch

import regard
from regard import Chain, Dims, multi_head
from regard.attention.tables import SCORES
from regard.errors import SettingError, UnknownChoice
from tests.own_parts import SOURCE, forgetting

DIMS = Dims(d_model=8, n_heads=2)


@pytest.fixture(autouse=True)
def _forgets():
    with forgetting():
        yield


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "my_parts.py"
    path.write_text(SOURCE)
    return path


def test_a_file_s_links_have_names_in_chains_and_heads(file, caplog):
    assert regard.import_parts(file) == ("distance",)
    heads = multi_head(DIMS, score="distance:start=0.25")
    assert heads.chain.score.g.flatten().tolist() == [0.25, 0.25]
    assert repr(heads.chain) == "Chain(score=distance, select=soft)"
    assert heads(torch.randn(2, 5, 8)).context.shape == (2, 5, 8)
    said = rf"parts: 'distance' is DistanceScore of {file} \(SHA-256 [0-9a-f]{{12}}…\)"
    assert re.fullmatch(said, caplog.messages[0])


def test_a_file_may_be_changed_and_imported_again(file):
    regard.import_parts(file)
    file.write_text(SOURCE.replace("0.5", "0.75"))
    regard.import_parts(str(file))
    assert multi_head(DIMS, score="distance").chain.score.g[0].item() == 0.75


WRONG = {
    "no file": (lambda f: f.with_name("other.py"), "", "import: there is no file"),
    "no part": (lambda f: f, "x = 3", r"holds no part: a class that inherits Score, Relation"),
    "a mistake in it": (lambda f: f, "x = ", r"fails \(SyntaxError: invalid syntax"),
    "a name of ours": (
        lambda f: f,
        SOURCE.replace("DistanceScore", "DotScore"),
        r"parts: 'dot' of .* is regard's own already\. Give the class another name, or own_name",
    ),
    "settings without defaults": (
        lambda f: f,
        SOURCE.replace("start: float = 0.5", "start: float"),
        r"DistanceScore of .* must be made of sizes alone \(missing a required .*'start'\)",
    ),
    "no Python": (lambda f: f.rename(f.with_suffix(".txt")), SOURCE, r"expected a Python file"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_is_told(mistake, file):
    place, text, said = WRONG[mistake]
    file.write_text(text)
    with pytest.raises(SettingError, match=said):
        regard.import_parts(place(file))


def test_nothing_inside_a_run_is_ever_run(tmp_path):
    run = tmp_path / "run"
    (run / "code").mkdir(parents=True)
    (run / "model.safetensors").touch()
    mark = tmp_path / "was_run"
    (run / "code/my_parts.py").write_text(f"open({str(mark)!r}, 'w')")
    with pytest.raises(SettingError, match=r"lies in the run 'run', and a run is data: nothing in"):
        regard.import_parts(run / "code/my_parts.py")
    assert not mark.exists()


def test_two_files_do_not_share_a_name(file, tmp_path):
    regard.import_parts(file)
    other = tmp_path / "other.py"
    other.write_text(SOURCE)
    with pytest.raises(SettingError, match=rf"'distance' of {other} is that of {file} already"):
        regard.import_parts(other)


def _install(folder, monkeypatch, *, value="own_package.scores:DistanceScore"):
    """A package with an entry point, as pip installs it."""
    (folder / "own_package").mkdir()
    (folder / "own_package/__init__.py").touch()
    (folder / "own_package/scores.py").write_text(SOURCE)
    info = folder / "own_package-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-package\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[regard.parts]\ndistance = {value}\n")
    monkeypatch.syspath_prepend(folder)


def test_an_installed_package_offers_links_that_are_loaded_by_name(tmp_path, monkeypatch, caplog):
    _install(tmp_path, monkeypatch)
    caplog.set_level(logging.WARNING)
    Chain(select="sparsemax")
    assert not caplog.messages
    heads = multi_head(DIMS, score="distance")
    assert type(heads.chain.score).__module__ == "own_package.scores"
    assert "'distance' is DistanceScore of own-package 1.2 (SHA-256 " in caplog.messages[0]
    assert SCORES.origins["distance"].source == "own-package 1.2"
    with pytest.raises(SettingError, match=r"got 'distance', which is a score\. Write score="):
        Chain(select="distance")


def test_an_installed_package_that_is_broken_is_told(tmp_path, monkeypatch):
    _install(tmp_path, monkeypatch, value="own_package.scores:Missing")
    said = r"parts: 'distance' of the installed own-package 1\.2 cannot be loaded \(AttributeError"
    with pytest.raises(SettingError, match=said):
        multi_head(DIMS, score="distance")


def test_a_name_that_is_offered_nowhere_is_answered_with_the_nearest():
    with pytest.raises(UnknownChoice, match=r"There is no 'distanse' here"):
        multi_head(DIMS, score="distanse")
