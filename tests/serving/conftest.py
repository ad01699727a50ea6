"""A server's application in this process, and somebody who asks it."""

import pytest
from starlette.testclient import TestClient

from regard.serving import build_app
from tests.serving.serving import make_shelf


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    return make_shelf(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def client(shelf):
    with TestClient(build_app(shelf), base_url="http://127.0.0.1:8000") as client:
        yield client
