"""A built wheel installs and imports in a clean environment, with every file in it."""

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]


def test_a_built_wheel_works_in_a_clean_environment(tmp_path):
    built = tmp_path / "dist"
    _run([sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(built), str(ROOT)])
    (wheel,) = built.glob("*.whl")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("regard/")}
    written = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "regard").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    shipped = {f"regard/recipes/shipped/{path.name}" for path in (ROOT / "recipes").iterdir()}
    assert inside == written | shipped

    clean = tmp_path / "clean"
    venv.create(clean, with_pip=True)
    python = clean / "bin" / "python"
    _run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)])
    # what regard depends on is borrowed from this environment; regard itself is not
    site = next((clean / "lib").glob("python*/site-packages"))
    (site / "borrowed.pth").write_text(str(Path(torch.__file__).parents[1]) + "\n")
    verbs = "main(['list']); main(['recipe', 'copy'])"
    code = f"import regard; from regard.cli import main; print(regard.__file__); {verbs}"
    said = _run([str(python), "-W", "error", "-c", code], cwd=tmp_path)
    assert str(site) in said.splitlines()[0]
    assert "big_bird" in said
    assert (ROOT / "recipes/copy.toml").read_text() in said
    assert (site / "regard" / "py.typed").exists()


def _run(command: list[str], cwd: Path | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
