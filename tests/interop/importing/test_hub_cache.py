"""A model's name on a hub means what the hub's library keeps of it on this machine."""

import re
import shutil

import pytest

from regard.cli import main
from regard.errors import CheckpointError
from regard.interop.importing import folder_named, read_published
from tests.interop.importing.published import gpt2

REVISION = "0123abcd"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A model in a cache: its files are links to blobs."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    folder, _ = gpt2(tmp_path / "plain")
    kept = tmp_path / "home" / "hub" / "models--somebody--gpt2-tiny"
    snapshot = kept / "snapshots" / REVISION
    (kept / "blobs").mkdir(parents=True)
    (kept / "refs").mkdir()
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(folder.iterdir())):
        shutil.move(path, kept / "blobs" / str(number))
        (snapshot / path.name).symlink_to(f"../../blobs/{number}")
    (kept / "refs" / "main").write_text(REVISION)
    return kept


def test_a_name_means_the_main_revision_in_the_cache(kept, tmp_path):
    assert folder_named("somebody/gpt2-tiny", "import") == kept / "snapshots" / REVISION
    assert main(["import", "somebody/gpt2-tiny", "--out", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_the_folder_of_the_cache_itself_may_be_given(kept):
    assert folder_named(str(kept), "import") == kept / "snapshots" / REVISION
    assert read_published(kept / "snapshots" / REVISION).recipe.model.kind == "gpt2"


def test_the_only_revision_is_meant_where_none_is_named(kept):
    (kept / "refs" / "main").unlink()
    assert folder_named("somebody/gpt2-tiny", "import") == kept / "snapshots" / REVISION


def test_a_reference_that_leads_out_of_the_cache_is_not_followed(kept, tmp_path):
    (kept / "refs" / "main").write_text("../../../plain")
    (tmp_path / "plain" / "config.json").write_text("{}")
    assert folder_named("somebody/gpt2-tiny", "import") == kept / "snapshots" / REVISION


def test_a_path_comes_before_a_name(kept, tmp_path, monkeypatch):
    (tmp_path / "somebody" / "gpt2-tiny").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert str(folder_named("somebody/gpt2-tiny", "import")) == "somebody/gpt2-tiny"


def test_without_a_network_the_cache_is_named(kept, tmp_path, capsys):
    with pytest.raises(CheckpointError) as caught:
        folder_named("somebody/else", "import")
    where = re.escape(str(tmp_path / "home" / "hub" / "models--somebody--else"))
    assert re.match(
        f"import: there is no folder 'somebody/else', and no model of that name in '{where}'; "
        "fetching it failed: .* or say with HF_HOME where the cache is",
        str(caught.value),
    )
    assert main(["import", "somebody/else", "--out", str(tmp_path / "run")]) == 2
    assert "models--somebody--else" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
