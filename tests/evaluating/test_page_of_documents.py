"""The programs on docs/evaluating.md run and print."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "evaluating.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_python_of_the_page_runs(block, capsys):
    exec(compile(block, PAGE.name, "exec"), {})
    assert capsys.readouterr().out.strip()
