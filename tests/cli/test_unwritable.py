"""Where nothing can be written, the place and the reason are told, and nothing is left behind."""

import errno
import os
from pathlib import Path

import pytest

from regard.cli import main
from regard.data import atomic_writes
from regard.training.preparation import Prepared
from tests.factories import make_run
from tests.small_recipe import RECIPE

LONG = "n" * 300
VERBS = {
    "train": ["train", "{folder}/recipe.toml", "--out", "{out}"],
    "plan": ["plan", "{folder}/recipe.toml", "--out", "{out}"],
    "look": ["look", "{folder}/run", "a b", "--out", "{out}.html"],
    "evaluate": ["evaluate", "{folder}/run", "--split", "valid", "--out", "{out}"],
    "export": ["export", "{folder}/run", "--to", "huggingface", "--out", "{out}"],
    "average": ["average", "{folder}/run", "{folder}/run", "--out", "{out}"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unwritable")
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "file").write_text("mine")
    make_run(folder / "run", "a b c d")
    return folder


def _words(verb, folder, out):
    return [word.format(folder=folder, out=out) for word in VERBS[verb]]


@pytest.mark.parametrize("verb", VERBS)
def test_a_name_that_no_file_system_takes_is_told_before_any_work(verb, folder, capsys):
    assert main(_words(verb, folder, folder / LONG)) == 2
    said = capsys.readouterr().err
    n_bytes = 305 if verb == "look" else 300
    assert said == (
        f"regard: {verb}: the name '{LONG[:40]}…' has {n_bytes} bytes, and a file system takes "
        "names of 240 beside its own. Choose a shorter one.\n"
    )


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_that_may_not_be_written_is_named(verb, folder, capsys, monkeypatch):
    (folder / "closed").mkdir(exist_ok=True)
    honest = os.access
    # a user without rights, whom root cannot play
    monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path).name != "closed" and honest(path, mode)
    )
    assert main(_words(verb, folder, folder / "closed" / "x")) == 2
    assert capsys.readouterr().err == (
        f"regard: {verb}: nothing may be written into '{folder}/closed'. Choose another place.\n"
    )
    assert not list((folder / "closed").iterdir())


def _full_disk(monkeypatch, at):
    honest = atomic_writes.sync_all

    def sync_all(path):
        if at in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        honest(path)

    monkeypatch.setattr(atomic_writes, "sync_all", sync_all)


def test_a_full_disk_is_told_with_the_file_and_leaves_nothing(
    folder, tmp_path, capsys, monkeypatch
):
    _full_disk(monkeypatch, at="tokenizer.json")
    out = tmp_path / "runs" / "new"
    assert main(_words("train", folder, out)) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"regard: '{out}/tokenizer.json': no space left on device. Make room, or choose another "
        "place."
    )
    assert not out.parent.exists()


@pytest.mark.parametrize(
    "failure", [RuntimeError("a fault"), MemoryError("full"), KeyboardInterrupt()], ids=repr
)
def test_whatever_stops_a_training_before_its_first_update_leaves_nothing(
    failure, folder, tmp_path, monkeypatch, capsys
):
    def build(self):
        raise failure

    monkeypatch.setattr(Prepared, "build", build)
    out = tmp_path / "runs" / "new"
    if str(failure) == "a fault":
        with pytest.raises(RuntimeError, match="a fault"):
            main(_words("train", folder, out))
    else:
        code = main(_words("train", folder, out))
        assert code == (130 if isinstance(failure, KeyboardInterrupt) else 2)
    assert not out.parent.exists()
    said = " ".join(capsys.readouterr().err.split())
    is_stop = isinstance(failure, KeyboardInterrupt)
    assert (f"stopped before the first update of {out}: nothing is left of it" in said) == is_stop
