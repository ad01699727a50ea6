"""Services whose workers are threads of this process, for tests of what is between requests."""

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import Pipe

import httpx

from regard.serving import build_app
from regard.serving.run_service import ServiceSettings
from regard.serving.server import running
from regard.serving.services import open_services
from regard.serving.worker import Worker
from tests.serving.clients import PATIENCE


class ThreadWorker:
    """A worker in a thread; one that hangs is left behind, as a process would be killed."""

    def __init__(self, trained):
        self.connection, theirs = Pipe()
        threading.Thread(target=Worker(trained, theirs).run, daemon=True).start()

    def end(self):
        self.connection.close()


class Served:
    """A running server, and a client of it."""

    def __init__(self, address, services, client):
        self.address, self.services, self.client = address, services, client

    def predict(self, texts, **options):
        """The answer to a request."""
        return self.client.post("/v1/predict", json={"texts": texts, **options})

    def predict_in_thread(self, texts, **options):
        """A function that waits for the answer of a request that is sent now."""
        found = []
        thread = threading.Thread(target=lambda: found.append(self.predict(texts, **options)))
        thread.start()

        def wait():
            thread.join(PATIENCE)
            return found[0]

        return wait

    def events(self, texts, **options):
        """The events of a request, as they come: their names and data."""
        asked = {"texts": texts, "stream": True, **options}
        with self.client.stream("POST", "/v1/predict", json=asked) as answer:
            name = None
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))

    def metric(self, line):
        """The value of a line of /metrics, 0 if there is none."""
        lines = self.client.get("/metrics").text.splitlines()
        return next((float(one.split()[-1]) for one in lines if one.startswith(line)), 0.0)


@contextmanager
def serving(registry, settings=None, launch=ThreadWorker, **app_options):
    """A server over a real socket, once all its runs are ready."""
    services = open_services(
        registry, lambda served: lambda number: launch(served.trained),
        settings or ServiceSettings(),
    )  # fmt: skip
    with (
        running(build_app(registry, services=services, **app_options)) as address,
        httpx.Client(base_url=address, timeout=PATIENCE) as client,
    ):
        end = time.monotonic() + PATIENCE
        while client.get("/health/ready").status_code != 200 and time.monotonic() < end:
            time.sleep(0.005)
        yield Served(address, services, client)


class HeldModel:
    """A stepper that waits before each step until the test lets it go on."""

    def __init__(self, model):
        self.start, self.select, self.branch = model.start, model.select, model.branch
        self._model = model
        self.rows, self.goes_on, self.is_stepping = [], threading.Event(), threading.Event()
        self.goes_on.set()

    def hold(self):
        """Wait in the next step."""
        self.is_stepping.clear()
        self.goes_on.clear()

    def step(self, state, tokens):
        """A step of the model, once it may."""
        self.rows.append(len(tokens))
        self.is_stepping.set()
        self.goes_on.wait(PATIENCE)
        return self._model.step(state, tokens)


def with_stepper(trained, wrap):
    """A run whose model is stepped by another object, and that object."""
    other = replace(trained)
    object.__setattr__(other, "stepper", wrap(other.stepper))
    return other, other.stepper


@contextmanager
def held(registry, settings=None):
    """A server whose model the test can hold, and that model."""
    models = []

    def launch(trained):
        other, model = with_stepper(trained, HeldModel)
        models.append(model)
        return ThreadWorker(other)

    with serving(registry, settings, launch) as served:
        try:
            yield served, models[0]
        finally:
            for model in models:
                model.goes_on.set()
