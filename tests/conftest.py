"""Every test starts from its own seed, in deterministic mode (which fills `empty` with NaN)."""

import gc
import os
import zlib

import pytest
import torch
from hypothesis import settings

# jaxtyping finds its checker by this name, and only if somebody has imported it
import tests.type_checker
from tests.small_recipe import RECIPE

# processes that tests start share the cores with the tests beside them
os.environ.setdefault("OMP_NUM_THREADS", "1")

# a shared machine may take its time over any example; how long is no promise of ours
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


@pytest.fixture(autouse=True)
def _fixed_ground(request):
    tests.type_checker.begin_test()
    torch.manual_seed(zlib.crc32(request.node.nodeid.encode()))
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


def pytest_collection_finish():
    # what was imported stays, so nobody need look through it again
    gc.freeze()
