"""What an imported run can be exported to, and what is refused with what to take instead."""

import pytest

from regard.cli import main
from tests.interop.importing.families import bart, llama, m2m100, t5

REFUSED = {
    "bart": (bart, {}, (), "pieces of its own stand around every text, such as those of languages"),
    "nllb": (
        m2m100, {"is_nllb": True}, ("--source-language", "deu", "--target-language", "eng"),
        "pieces of its own stand around every text, such as those of languages",
    ),
    "t5": (t5, {}, (), "its norms are not centred .RMS norm., and other runtimes are given layer"),
    "llama": (llama, {}, (), "its norms are not centred .RMS norm., and other runtimes are given"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_layout_that_would_lose_something_is_refused(tmp_path, capsys, name):
    make, sizes, options, said = REFUSED[name]
    folder, _ = make(tmp_path / "published", **sizes)
    run, out = str(tmp_path / "run"), str(tmp_path / "out")
    assert main(["import", str(folder), "--out", run, *options]) == 0
    assert main(["export", run, "--to", "huggingface", "--out", out]) == 2
    told = capsys.readouterr().err
    assert "Hugging Face's layouts cannot hold the run" in told
    assert said.replace(".RMS norm.", "(RMS norm)") in told
    assert not (tmp_path / "out").exists()
