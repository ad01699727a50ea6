"""The catalogue reads files; what it says is what the imported tables hold."""

import inspect
import sys

import pytest

from regard.catalogue import TABLES, mechanism, mechanisms
from regard.errors import UnknownChoice
from regard.inspecting import KINDS


def test_the_catalogue_holds_every_row_of_every_table_in_order():
    held = [(kind, name) for kind, table in KINDS.items() for name in table]
    assert [(entry.kind, entry.name) for entry in mechanisms()] == held
    assert list(TABLES) == list(KINDS)


@pytest.mark.parametrize("entry", mechanisms(), ids=lambda entry: entry.name)
def test_an_entry_says_what_the_imported_mechanism_says(entry):
    part = KINDS[entry.kind][entry.name]
    known = dict(inspect.signature(part).parameters)
    known.pop("dims", None)
    assert entry.settings == {
        name: "required" if one.default is one.empty else repr(one.default)
        for name, one in known.items()
    }
    assert entry.file == part.__module__.replace(".", "/") + ".py"
    assert entry.summary in (sys.modules[part.__module__].__doc__ or "")


def test_a_name_that_is_not_there_is_answered_with_the_nearest():
    with pytest.raises(UnknownChoice, match="Did you mean 'additive'"):
        mechanism("aditive")
