"""Many who ask at once get what each would get alone."""

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from regard.serving import build_app
from regard.serving.registry import Registry
from regard.serving.server import running

ASKED = [
    (run, text, wish)
    for run in ("first", "second")
    for text, wish in (
        ("a dog ate", {"n_best": 2}),
        ("the food", {"target": "food the"}),
    )
]
"""Fewer answers than a server keeps, since each is looked at afterwards."""
AT_ONCE = 3
"""How many ask each of them, in the same instant."""


def _get(address, path):
    with urllib.request.urlopen(f"{address}api/{path}") as answer:
        return answer.read()


def _all_that_is_seen(address, run, text, wish):
    """An answer and everything that a page asks for in order to show it."""
    request = urllib.request.Request(
        f"{address}api/runs/{run}/predict",
        json.dumps({"text": text, **wish}).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        said = json.load(answer)
    seen = [said]
    for one in said["answers"]:
        record = f"records/{one['record']}"
        seen += [
            _get(address, path)
            for path in (
                record,
                f"{record}/weights/cross",
                f"{record}/weights/encoder",
                f"{record}/statistics/decoder",
                f"{record}/mechanisms/encoder/0/1",
                f"{record}/tiles/decoder/1/0/0/0/0?type=float32",
                f"{record}/tiles/cross/0/1/0/0/0?pooling=mean",
                f"{record}/profile/cross/0/0",
            )
        ]
    return seen


def test_answers_maps_and_tiles_asked_for_at_once_are_those_asked_for_in_turn(registry):
    with running(build_app(Registry(registry.runs))) as address:
        alone = [_all_that_is_seen(address, *one) for one in ASKED]
    # nothing is kept yet: the same record and the same tile are made while others wait for them
    crowd = [(place, one) for place, one in enumerate(ASKED) for _ in range(AT_ONCE)]
    start = Barrier(len(crowd))

    def ask(address, place, one):
        start.wait(timeout=60)
        return place, _all_that_is_seen(address, *one)

    with (
        running(build_app(Registry(registry.runs))) as address,
        ThreadPoolExecutor(len(crowd)) as threads,
    ):
        waiting = [threads.submit(ask, address, place, one) for place, one in crowd]
        together = [one.result(timeout=120) for one in waiting]
    assert len(together) == len(ASKED) * AT_ONCE
    for place, seen in together:
        assert seen == alone[place]
    # what was asked differs, so an answer that went to somebody else would be noticed
    assert len({repr(seen) for seen in alone}) == len(ASKED)
