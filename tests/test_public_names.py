"""`import regard` is quick, and every public name is there when it is first used."""

import subprocess
import sys

import pytest

import regard


def test_importing_regard_does_not_load_torch():
    code = "import sys, regard; print('torch' in sys.modules, regard.__version__)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == f"False {regard.__version__}\n"


@pytest.mark.parametrize("name", regard.__all__)
def test_every_public_name_can_be_used_and_is_listed(name):
    assert getattr(regard, name).__name__ == name
    assert name in dir(regard)


def test_packages_are_there_without_an_import_of_their_own():
    code = "import regard; print(regard.attention.attend.__name__, regard.errors.__name__)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "attend regard.errors\n"


def test_a_name_that_there_is_not_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'regard' has no attribute 'atend'"):
        _ = regard.atend
