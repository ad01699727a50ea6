"""`regard.parts` has every class of the tables, loads none before its use, and knows no other."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import regard.parts
from regard.inspecting import KINDS


def test_it_holds_every_part_of_every_table():
    for table in KINDS.values():
        for part in table.values():
            assert getattr(regard.parts, part.__name__) is part
            assert part.__name__ in dir(regard.parts)


def test_type_checkers_see_what_there_is():
    tree = ast.parse(Path(regard.parts.__file__).read_text())
    (known,) = (node for node in tree.body if isinstance(node, ast.If))
    assert sorted(line.names[0].name for line in known.body) == dir(regard.parts)
    for line in known.body:
        assert getattr(regard.parts, line.names[0].name).__module__ == line.module


def test_importing_it_does_not_load_torch():
    code = "import sys, regard.parts; print('torch' in sys.modules, len(regard.parts.__all__) > 40)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False True\n"


def test_a_part_that_there_is_not_is_answered_with_the_nearest():
    with pytest.raises(AttributeError, match=r"Did you mean 'AdditiveScore'\?"):
        _ = regard.parts.AditiveScore
