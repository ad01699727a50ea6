"""Annotation stores: what an encoder gave is what is read, in 16 bits, chunk by chunk."""

import json

import numpy as np
import pytest
import torch

from regard.data.annotation_store import AnnotationStore, write_annotations
from regard.data.picture_store import write_pictures
from regard.errors import DataError, SettingError, ShapeError


@pytest.fixture
def pictures(tmp_path):
    return write_pictures(tmp_path / "pictures", [f"scene:2-{i}" for i in range(7)], size=8)


def _cells(batch):
    """Each of 2 x 2 cells by its 48 numbers."""
    cells = batch.float().unfold(2, 4, 4).unfold(3, 4, 4)
    return cells.permute(0, 2, 3, 1, 4, 5).reshape(len(batch), 4, 48) / 255


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_annotations_are_those_of_the_pictures_in_their_rows(tmp_path, pictures, chunk):
    store = write_annotations(tmp_path / "cells", pictures, _cells, maker="cells", chunk=chunk)
    assert store.maker == "cells"
    assert len(store) == 7
    assert isinstance(store.numbers, np.memmap)
    rows = np.array([6, 0, 3])
    wanted = _cells(pictures.pictures(rows))
    found = AnnotationStore.open(tmp_path / "cells").annotations(rows)
    assert found.dtype == torch.float16
    torch.testing.assert_close(found.float(), wanted, atol=5e-4, rtol=0)


def test_no_more_than_a_chunk_is_annotated_at_once_and_without_gradients(tmp_path, pictures):
    weight, seen = torch.ones(1, requires_grad=True), []

    def annotate(batch):
        made = _cells(batch) * weight
        seen.append((len(batch), made.requires_grad))
        return made

    write_annotations(tmp_path / "cells", pictures, annotate, maker="m", chunk=3)
    assert seen == [(3, False), (3, False), (1, False)]


def test_numbers_too_large_for_sixteen_bits_are_refused_with_their_row(tmp_path, pictures):
    def annotate(batch):
        made = _cells(batch)
        made[-1, 2, 5] = 1e6
        return made

    said = r"annotations: row 2 holds numbers that 16 bits cannot .*65,504, here 1e\+06"
    with pytest.raises(DataError, match=said):
        write_annotations(tmp_path / "cells", pictures, annotate, maker="m", chunk=3)
    assert not (tmp_path / "cells").exists()


def test_an_encoder_that_changes_its_shape_is_refused(tmp_path, pictures):
    said = r"rows 6 to 6, \(1, 4, 48\), got \(1, 3, 48\)"
    with pytest.raises(ShapeError, match=said):
        write_annotations(
            tmp_path / "cells", pictures, lambda b: _cells(b)[:, : 2 + len(b)][:, :4], maker="m",
            chunk=3,
        )  # fmt: skip
    with pytest.raises(SettingError, match="annotations: chunk must be at least 1, got 0"):
        write_annotations(tmp_path / "cells", pictures, _cells, maker="m", chunk=0)


def test_a_damaged_store_is_refused(tmp_path, pictures):
    path = write_annotations(tmp_path / "cells", pictures, _cells, maker="m").path
    numbers, facts = path / "annotations.bin", path / "annotations.json"
    numbers.write_bytes(numbers.read_bytes()[:-2])
    with pytest.raises(DataError, match="has 2,686 bytes; 7 × 4 × 48 take 2,688"):
        AnnotationStore.open(path)
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "maker": 3}))
    with pytest.raises(DataError, match=r"annotations\.json does not say what it should"):
        AnnotationStore.open(path)
    facts.unlink()
    with pytest.raises(DataError, match=r"annotations\.json is missing"):
        AnnotationStore.open(path)
