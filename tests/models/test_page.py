"""The page about models: its examples run, and its table names every kind."""

import re
from pathlib import Path

from regard.models.kinds import KINDS

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text()


def test_the_page_s_examples_run_one_after_another():
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        exec(compile(block, "models.md", "exec"), names)


def test_the_page_s_table_names_the_kinds_that_a_recipe_takes():
    table = re.search(r"^\| `model\.kind` .*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert table is not None
    rows = table[0].splitlines()[2:]
    assert {re.search(r"`(\w+)`", row)[1] for row in rows if row} == set(KINDS)
