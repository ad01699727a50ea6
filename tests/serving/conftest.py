"""A server's application in this process, and somebody who asks it."""

import pytest
from starlette.testclient import TestClient

from regard.serving import build_app
from tests.serving.serving import make_registry


@pytest.fixture(scope="session")
def registry(tmp_path_factory):
    return make_registry(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def client(registry):
    with TestClient(build_app(registry), base_url="http://127.0.0.1:8000") as client:
        yield client
