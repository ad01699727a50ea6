"""Tiles and summaries on demand: a bounded number at a time, and none for those who have gone."""

import asyncio
import json
import socket
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from starlette.exceptions import HTTPException

from regard.inspecting import Record
from regard.inspecting.record import Attention
from regard.inspecting.token_labels import Tokens
from regard.serving import build_app
from regard.serving.atlas import COMPUTE_LIMITS, profile
from regard.serving.lru_cache import LruCache
from regard.serving.registry import Registry
from regard.serving.request_limits import ComputeLimits, answer_while_there, check_client
from regard.serving.server import running

N = 1 << 14
"""At the first zoom a pixel is 64 × 64 cells: more than are computed without being asked for."""
PATIENCE = 20


class Slow:
    """Weights that take a while, and count how many pieces of them were asked for, and by how many
    at a time."""

    shape = (1, 1, N, N)

    def __init__(self):
        self.lock, self.n_blocks, self.n_now, self.n_most = threading.Lock(), 0, 0, 0

    def tile(self, rows, columns):
        with self.lock:
            self.n_blocks, self.n_now = self.n_blocks + 1, self.n_now + 1
            self.n_most = max(self.n_most, self.n_now)
        time.sleep(0.005)
        with self.lock:
            self.n_now -= 1
        shape = (len(range(N)[part]) for part in (rows, columns))
        return torch.full((1, 1, *shape), 1 / N)


def registry_of(layer):
    tokens = Tokens.numbered("token", layer.shape[-1])
    one = Attention(tokens, tokens, (layer,), "query (source)", "key (source)", "soft", "full")
    return Registry({}, saved={"doc": Record("", "", {"encoder": one})})


def until(is_so):
    """Wait for something that other threads do."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.002)


def ask(address, path):
    """A request whose answer nobody has read yet."""
    where = urlsplit(address)
    connection = socket.create_connection((where.hostname, where.port))
    connection.sendall(f"GET /api/{path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
    return connection


def read(address, path):
    with urllib.request.urlopen(f"{address}api/{path}") as answer:
        return answer.headers, answer.read()


def test_exact_tiles_that_were_given_up_are_not_computed():
    slow = Slow()
    with running(build_app(registry := registry_of(slow))) as address:
        places = [(1, x, y) for x in range(2) for y in range(2)] + [(0, 0, 0)]
        asked = [
            ask(address, f"records/doc/tiles/encoder/0/0/{zoom}/{x}/{y}?rows=0&type={kind}")
            for zoom, x, y in places
            for kind in ("float16", "float32")
        ]
        until(lambda: slow.n_blocks > 3)
        for one in asked:
            one.close()
        # what was under way stops at the end of a block, and what waited never begins
        until(lambda: len(registry.tiles) == 0)
        n_blocks = slow.n_blocks
        assert slow.n_most == 1
        assert n_blocks < 100
        headers, content = read(address, "records/doc/tiles/encoder/0/0/6/3/5?type=float32")
        assert headers["X-Exact"] == "true"
        np.testing.assert_allclose(np.frombuffer(content, "<f4")[: 1 << 16], 1 / N)
        assert slow.n_blocks == n_blocks + 1


def test_a_summary_that_was_given_up_ends():
    slow = Slow()
    with running(build_app(registry_of(slow))) as address:
        asked = ask(address, "records/doc/profile/encoder/0/0?every=1")
        until(lambda: slow.n_blocks > 3)
        asked.close()
        with COMPUTE_LIMITS.long():
            # its turn is over, though only few of 256 blocks were looked at
            assert slow.n_blocks < 100


def test_a_fast_pan_never_computes_more_than_a_few_tiles_at_a_time():
    slow = Slow()
    with running(build_app(registry_of(slow))) as address, ThreadPoolExecutor(12) as many:
        paths = [f"records/doc/tiles/encoder/0/0/6/{x}/{y}" for x in range(6) for y in range(4)]
        answers = list(many.map(lambda path: read(address, path), paths))
    assert all(headers["X-Exact"] == "true" for headers, _ in answers)
    assert 1 <= slow.n_most <= COMPUTE_LIMITS.max_quick


def test_the_summary_says_how_many_queries_it_used_until_all_were():
    slow = Slow()
    record = registry_of(slow).saved["doc"]
    some = profile(record, "encoder", 0, 0, far=64, every=0)
    assert (some["rows_used"], some["n_queries"], some["is_exact"]) == (512, N, False)
    assert some["every"] == 32
    more = profile(record, "encoder", 0, 0, far=64, every=8)
    assert (more["rows_used"], more["is_exact"]) == (N // 8, False)
    # it can be sent
    json.dumps(more)


def test_a_short_text_is_summarised_exactly_at_once():
    layer = Slow()
    layer.shape = (1, 1, 300, 300)
    said = profile(registry_of(layer).saved["doc"], "encoder", 0, 0, far=3, every=0)
    assert (said["rows_used"], said["every"], said["is_exact"]) == (300, 1, True)


# limits


def test_a_long_piece_gives_way_to_quick_ones_and_waits_for_no_other():
    limits, seen = ComputeLimits(max_quick=1), []
    holding, may_end = threading.Event(), threading.Event()

    def quick():
        with limits.quick():
            holding.set()
            may_end.wait(PATIENCE)
            seen.append("quick")

    def long():
        with limits.long():
            holding.wait(PATIENCE)
            limits.give_way()
            seen.append("long")

    threads = [threading.Thread(target=work) for work in (long, quick)]
    for one in threads:
        one.start()
    holding.wait(PATIENCE)
    assert seen == []
    may_end.set()
    for one in threads:
        one.join()
    assert seen == ["quick", "long"]


def test_what_fails_leaves_its_slot_to_others():
    limits = ComputeLimits(max_quick=1)
    for slot in (limits.quick, limits.long):
        with pytest.raises(ZeroDivisionError), slot():
            raise ZeroDivisionError
        with slot():
            pass
    limits.give_way()


def test_whoever_goes_is_noticed_while_an_answer_is_made():
    stages = [{"type": "http.request"}, {"type": "http.disconnect"}]
    noticed = []

    async def receive():
        return stages.pop(0)

    async def app(scope, receive, send):
        assert (await receive())["type"] == "http.request"
        assert (await receive())["type"] == "http.disconnect"
        with pytest.raises(HTTPException) as raised:
            await asyncio.to_thread(check_client)
        noticed.append(raised.value.status_code)

    asyncio.run(answer_while_there(app, {}, receive, None))
    assert noticed == [499]


def test_outside_of_a_request_nobody_goes():
    check_client()


def test_what_fails_is_computed_again_for_the_next_and_can_be_forgotten():
    tries = []

    def make():
        tries.append(1)
        if len(tries) == 1:
            raise ZeroDivisionError
        return "made"

    kept = LruCache()
    with pytest.raises(ZeroDivisionError):
        kept.computed("x", make)
    assert len(kept) == 0
    assert [kept.computed("x", make), kept.computed("x", make), len(tries)] == ["made", "made", 2]
    assert kept.get("x") == "made"
