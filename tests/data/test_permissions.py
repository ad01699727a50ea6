"""Files of tensors have the permissions of any other file."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.cli.predict import FORMATS
from regard.data.atomic_writes import as_any_file
from regard.inspecting.record_files import save_record
from tests.inspecting.hand_made import of_a_model


@pytest.fixture
def usual(tmp_path):
    (tmp_path / "any").write_text("")
    return (tmp_path / "any").stat().st_mode


def test_whoever_may_read_other_files_may_read_tensors(tmp_path, usual):
    path = tmp_path / "x.safetensors"
    with as_any_file(path):
        save_file({"x": torch.ones(3)}, path)
    assert path.stat().st_mode == usual
    assert load_file(path)["x"].tolist() == [1.0, 1.0, 1.0]


def test_a_file_that_was_there_keeps_its_permissions(tmp_path):
    path = tmp_path / "x.safetensors"
    path.touch(mode=0o640)
    before = path.stat().st_mode
    with as_any_file(path):
        save_file({"x": torch.ones(3)}, path)
    assert path.stat().st_mode == before


def test_what_could_not_be_written_is_not_there(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(ValueError, match="received"), as_any_file(path):
        save_file({"x": [1.0]}, path)
    assert not path.exists()


def test_records_and_vectors_are_such_files(tmp_path, usual):
    save_record(of_a_model()[0], tmp_path / "record.safetensors")
    FORMATS[".safetensors"](tmp_path / "vectors.safetensors", np.ones((2, 3)))
    made = [path.stat().st_mode for path in tmp_path.glob("*.safetensors")]
    assert made == [usual, usual]
