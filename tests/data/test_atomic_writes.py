"""A name stands for contents that are on disk: they are synchronised before the rename."""

import errno
import fcntl
import os
import re
import stat
from pathlib import Path

import pytest
import torch
from torch import nn

import regard
from regard.cli import main
from regard.cli.predict import write_vectors
from regard.data import Example, Subwords, atomic_writes, write_corpus
from regard.data.atomic_writes import move_into_place, write_text, written_beside
from regard.data.mapped_arrays import new_folder, write_facts
from regard.inspecting.record_files import save_record
from regard.training.checkpoints import Progress, save_checkpoint, write_tensors
from tests.factories import ENCODER, make_run
from tests.inspecting.hand_made import of_a_model

PACKAGE = Path(__file__).parents[2] / "regard"


def _checkpoint(folder):
    model = nn.Linear(2, 1)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    return save_checkpoint(folder, model, optimiser, Progress(step=3))


def _corpus(folder):
    subwords = Subwords.train(["a b c"], size=300)
    write_corpus(folder / "corpus", [Example("a b", ("c",))], subwords, subwords)
    return folder / "corpus"


def _facts(folder):
    with new_folder(folder / "array", "test") as made:
        write_facts(made / "array.json", {"shape": [1]})
    return folder / "array"


def _vectors(folder):
    model = ENCODER.format(task="words")
    trained = regard.load(make_run(folder / "run", model=model), device="cpu")
    write_vectors(trained, ["a b"], folder / "vectors.npy")
    return folder / "vectors.npy"


def _mean(folder):
    run = make_run(folder / "run")
    assert main(["average", str(run), str(run), "--out", str(folder / "mean")]) == 0
    return folder / "mean"


def _at(name, write):
    """A writer that gives back what it wrote."""

    def written(folder):
        write(folder / name)
        return folder / name

    return written


WRITERS = {
    "text": _at("card.md", lambda path: write_text(path, "words\n")),
    "tensors": _at("model.safetensors", lambda path: write_tensors(path, {"x": torch.ones(3)})),
    "checkpoint": _checkpoint,
    "sub-words": _at("tokenizer.json", lambda path: Subwords.train(["a b"], size=300).save(path)),
    "corpus": _corpus,
    "array": _facts,
    "record": _at("look.safetensors", lambda path: save_record(of_a_model()[0], path)),
    "vectors": _vectors,
    "mean of runs": _mean,
}


class Disk:
    """Remembers which contents and names were synchronised when something was renamed."""

    def __init__(self, monkeypatch):
        self.synced, self.renamed = {}, []
        self._fsync, self._replace = os.fsync, os.replace
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "replace", self.replace)
        monkeypatch.setattr(os, "rename", self.replace)

    def fsync(self, handle):
        state = os.fstat(handle)
        self.synced[state.st_ino] = state.st_mtime_ns
        self._fsync(handle)

    def replace(self, source, target):
        held = [Path(source), *Path(source).rglob("*")]
        late = [path.name for path in held if not self.is_synced(path)]
        assert not late, f"renamed before they were synchronised: {late}"
        self._replace(source, target)
        self.renamed.append(Path(target))

    def is_synced(self, path):
        """Whether nothing was written to a file, or into a folder, since it was synchronised."""
        state = path.stat()
        return self.synced.get(state.st_ino) == state.st_mtime_ns


@pytest.mark.parametrize("kind", WRITERS)
def test_contents_are_on_disk_before_they_have_their_name_and_the_name_after(
    tmp_path, monkeypatch, kind
):
    disk = Disk(monkeypatch)
    path = WRITERS[kind](tmp_path)
    assert disk.renamed[-1] == path
    assert disk.is_synced(path.parent)


def test_files_are_renamed_in_one_place_only():
    renames = re.compile(r"\.rename\(|os\.replace\(|shutil\.move\(|\.replace\(path\)")
    found = [path.name for path in PACKAGE.rglob("*.py") if renames.search(path.read_text())]
    assert found == ["atomic_writes.py"]


def test_a_file_system_that_cannot_synchronise_folders_is_written_to(tmp_path, monkeypatch):
    def refuse_folders(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse_folders)
    (tmp_path / "new").write_text("words")
    move_into_place(tmp_path / "new", tmp_path / "name")
    assert (tmp_path / "name").read_text() == "words"


@pytest.mark.parametrize("where", ["the file", "its folder"])
def test_contents_that_do_not_reach_the_disk_are_an_error(tmp_path, monkeypatch, where):
    def fail(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode) == (where == "its folder"):
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    (tmp_path / "name").write_text("old")
    (tmp_path / "new").write_text("new")
    with pytest.raises(OSError, match="Input/output error"):
        move_into_place(tmp_path / "new", tmp_path / "name")
    assert (tmp_path / "name").read_text() == ("old" if where == "the file" else "new")


def test_windows_is_given_a_handle_that_it_may_write_to(tmp_path, monkeypatch):
    def refuse_readers(handle):
        if not fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_RDWR:
            raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(atomic_writes, "IS_WINDOWS", True)
    monkeypatch.setattr(os, "fsync", refuse_readers)
    (tmp_path / "new").write_text("words")
    move_into_place(tmp_path / "new", tmp_path / "name")
    assert (tmp_path / "name").read_text() == "words"


def _a_file(path):
    path.write_text("half")


def _a_folder(path):
    path.mkdir()
    (path / "file").write_text("half")


@pytest.mark.parametrize("write", [_a_file, _a_folder])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_could_not_be_written_whole_is_removed(tmp_path, write, error):
    def fail():
        with written_beside(tmp_path / "name") as partial:
            write(partial)
            raise error

    with pytest.raises(error):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [_a_file, _a_folder])
@pytest.mark.parametrize("left", [_a_file, _a_folder])
def test_what_a_kill_left_is_not_in_the_way(tmp_path, write, left):
    left(tmp_path / "name.partial")
    with written_beside(tmp_path / "name") as partial:
        assert partial == tmp_path / "name.partial"
        assert not partial.exists()
        write(partial)
    assert list(tmp_path.iterdir()) == [tmp_path / "name"]


def test_two_writers_of_one_name_write_apart(tmp_path):
    with (
        written_beside(tmp_path / "name", writer=1) as one,
        written_beside(tmp_path / "name", writer=2) as other,
    ):
        one.write_text("one")
        other.write_text("other")
    assert (tmp_path / "name").read_text() == "one"
    assert list(tmp_path.iterdir()) == [tmp_path / "name"]
