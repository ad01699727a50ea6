"""The page about models: its examples run, and its table names every kind."""

import re
from pathlib import Path

from regard.models import MODELS

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()


def test_the_page_s_examples_run_one_after_another():
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= len(MODELS)
    for block in blocks:
        exec(compile(block, "models.md", "exec"), names)


def test_the_page_s_table_names_every_kind():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == list(MODELS)
