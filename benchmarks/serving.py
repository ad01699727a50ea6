"""The API of `regard serve` beside `regard.load(RUN).predict` on the same texts.

    python benchmarks/serving.py throughput RUN --texts FILE --clients 64 --seconds 60
    python benchmarks/serving.py throughput RUN --texts FILE --lean
    python benchmarks/serving.py soak RUN --texts FILE --minutes 30

The first asks through regard.AsyncClient, the second through plain sockets. A soak asks three times
what the queue holds; some of its clients leave, some send nonsense or far too much, and the run is
loaded again every minute.

A server is started as a process of its own and asked over real sockets, one text a request. Every
answer is compared with that of `predict`. Processor time is that of client, server and workers,
as Linux counts it: on few cores the client takes a good part of the machine.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import regard
from regard.client import ServerError

Ask = Callable[[str], Awaitable[str]]
"""Gives the answer to a text."""
TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS = 300


@dataclass
class Figures:
    """What many requests gave."""

    seconds: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: int = 0

    def at(self, share: float) -> float:
        """The time within which so many were answered, in milliseconds."""
        ordered = sorted(self.seconds)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid: int) -> float:
    """Megabytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1000


def children(pid: int) -> list[int]:
    task = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(one) for one in task.read_text().split()]


@contextmanager
def serving(run: str, words: list[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "regard", "serve", run, "--port", "0", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            address = next(word for word in said.split() if word.startswith("http"))
            with regard.Client(address) as client:
                end = time.monotonic() + START_SECONDS
                while not client.is_ready() and time.monotonic() < end:
                    time.sleep(0.2)
            yield process, address
        finally:
            process.terminate()


def offline(run: str, texts: list[str], count: int, seconds: float) -> tuple[dict[str, str], float]:
    """The answers of predict to each text, and its texts a second, `count` at a time."""
    trained = regard.load(run)
    answers = {one.source: one.text for one in trained.predict(texts)}
    done, began = 0, time.perf_counter()
    while (taken := time.perf_counter() - began) < seconds:
        first = done % len(texts)
        batch = (texts * (1 + count // len(texts) + 1))[first : first + count]
        trained.predict(batch)
        done += count
    return answers, done / taken


class LeanClient:
    """One connection of plain sockets that stays open."""

    def __init__(self, address: str) -> None:
        self._host, _, port = address.removeprefix("http://").rstrip("/").rpartition(":")
        self._port = int(port)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, text: str) -> str:
        """The answer to a text."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        body = json.dumps({"texts": text}).encode()
        head = (
            f"POST /v1/predict HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        said = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(said.split(b"content-length:")[1].split(b"\r\n")[0])
        found = json.loads(await reader.readexactly(length))
        if not said.startswith(b"http/1.1 200"):
            raise ServerError(int(said.split()[1]), "", str(found))
        return str(found["answers"][0]["text"])


def public(client: regard.AsyncClient) -> Ask:
    async def ask(text: str) -> str:
        return str((await client.predict(text))["answers"][0]["text"])

    return ask


async def drive(
    asks: list[Ask], texts: list[str], answers: dict[str, str], seconds: float
) -> Figures:
    """Every client asks one text after another."""
    figures, end = Figures(), time.perf_counter() + seconds

    async def one(place: int, ask: Ask) -> None:
        while time.perf_counter() < end:
            text, began = texts[place % len(texts)], time.perf_counter()
            place += len(asks)
            try:
                answer = await ask(text)
            except ServerError as error:
                figures.statuses[error.status] += 1
                continue
            figures.seconds.append(time.perf_counter() - began)
            figures.statuses[200] += 1
            figures.wrong += answer != answers[text]

    await asyncio.gather(*(one(place, ask) for place, ask in enumerate(asks)))
    return figures


def throughput(asked: argparse.Namespace) -> dict[str, Any]:
    texts = Path(asked.texts).read_text().splitlines()
    answers, before = offline(asked.run, texts, asked.clients, asked.seconds / 4)

    async def measure(address: str) -> Figures:
        if asked.lean:
            asks: list[Ask] = [LeanClient(address).ask for _ in range(asked.clients)]
            await drive(asks, texts, answers, 2)
            return await drive(asks, texts, answers, asked.seconds)
        async with AsyncExitStack() as stack:
            # each has a connection of its own, as clients on other machines have
            clients = [
                await stack.enter_async_context(regard.AsyncClient(address))
                for _ in range(asked.clients)
            ]
            asks = [public(client) for client in clients]
            await drive(asks, texts, answers, 2)
            return await drive(asks, texts, answers, asked.seconds)

    with serving(asked.run, asked.serve) as (process, address):
        pids = {"server": process.pid, "workers": children(process.pid)[0], "client": os.getpid()}
        used = {name: processor_seconds(pid) for name, pid in pids.items()}
        figures = asyncio.run(measure(address))
        used = {name: processor_seconds(pid) - used[name] for name, pid in pids.items()}
    # what the same machine does offline, before and after, since it may be shared
    _, after = offline(asked.run, texts, asked.clients, asked.seconds / 4)
    n, rate = len(figures.seconds), len(figures.seconds) / asked.seconds
    return {
        "clients": asked.clients,
        "client": "plain sockets" if asked.lean else "regard.AsyncClient",
        "texts_a_second": rate,
        "offline_before": before,
        "offline_after": after,
        "ratio": rate / ((before + after) / 2),
        "p50_ms": figures.at(0.5),
        "p99_ms": figures.at(0.99),
        "statuses": dict(figures.statuses),
        "wrong": figures.wrong,
        "processor_ms_a_text": {name: 1000 * one / max(1, n) for name, one in used.items()},
    }


def leave(address: str, text: str) -> None:
    """Send a request and go."""
    host, _, port = address.removeprefix("http://").rstrip("/").rpartition(":")
    body = json.dumps({"texts": text}).encode()
    head = (
        f"POST /v1/predict HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(head.encode() + body)


def soak(asked: argparse.Namespace) -> dict[str, Any]:
    """Three times as many clients as fill the queue; some leave, some send nonsense or too much."""
    texts = Path(asked.texts).read_text().splitlines()
    answers, _ = offline(asked.run, texts, 64, 1)
    words = ["--max-waiting", str(asked.clients // 3), *asked.serve]
    figures, memory = Figures(), list[tuple[float, float]]()
    dice = random.Random(1)

    async def one(client: regard.AsyncClient, address: str, end: float) -> None:
        while time.monotonic() < end:
            text, chance = dice.choice(texts), dice.random()
            try:
                if chance < 0.10:
                    await asyncio.to_thread(leave, address, text)
                    continue
                if chance < 0.15:
                    await client.predict(text, options={"beem": 3})
                    continue
                if chance < 0.16:
                    await client.predict("x " * 300_000)
                    continue
                began = time.monotonic()
                found = await client.predict(text)
                figures.seconds.append(time.monotonic() - began)
                figures.statuses[200] += 1
                figures.wrong += found["answers"][0]["text"] != answers[text]
            except ServerError as error:
                figures.statuses[error.status] += 1

    async def watch(pid: int, began: float, end: float) -> None:
        minute = 0
        while time.monotonic() < end:
            await asyncio.sleep(1)
            memory.append((time.monotonic() - began, resident(pid)))
            if (time.monotonic() - began) // 60 > minute:
                minute += 1
                os.kill(pid, signal.SIGHUP)

    async def run(pid: int, address: str) -> None:
        began = time.monotonic()
        end = began + 60 * asked.minutes
        async with regard.AsyncClient(address, retries=0) as client:
            asking = [one(client, address, end) for _ in range(asked.clients)]
            await asyncio.gather(watch(pid, began, end), *asking)

    with serving(asked.run, words) as (process, address):
        asyncio.run(run(process.pid, address))
    settled = [size for when, size in memory if when > min(300, 30 * asked.minutes)]
    return {
        "minutes": asked.minutes,
        "statuses": dict(figures.statuses),
        "wrong": figures.wrong,
        "p50_ms": figures.at(0.5),
        "p99_ms": figures.at(0.99),
        "memory_mb_settled": settled[0],
        "memory_mb_end": settled[-1],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("measure", choices=["throughput", "soak"])
    parser.add_argument("run")
    parser.add_argument("--texts", required=True, help="a file of texts, one a line")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--lean", action="store_true")
    parser.add_argument("--out", type=Path)
    asked, words = parser.parse_known_args()
    asked.serve = words
    found = {"throughput": throughput, "soak": soak}[asked.measure](asked)
    print(json.dumps(found, indent=1))
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
