"""The server under load: latency, what waits behind predictions, memory, and work for clients gone.

    python benchmarks/server.py --name after --out after.json [--beside before.json]

Starts `regard serve` as a process of its own, with whichever regard Python finds, and asks it over
real sockets. So the same script measures other code:

    PYTHONPATH=/path/to/other/code python benchmarks/server.py --name before --out before.json

It makes two small runs in --folder unless they are there: one that answers texts and one that
captions pictures. Nothing is measured before the server's answers are those of `regard predict`.
Memory and processor time are the server's own, as Linux counts them.
"""

import argparse
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

TEXTS = """\
[data]
train = { name = "copy", count = 400, min_letters = 60, max_letters = 80 }
valid = { name = "copy", count = 20, min_letters = 60, max_letters = 80 }

[tokens]
kind = "bpe"
size = 300

[model]
d_model = 128
n_heads = 4
d_hidden = 256
n_encoder_layers = 3
n_decoder_layers = 3
max_len = 256

[training]
steps = 40
target_tokens_per_update = 1000
target_tokens_per_batch = 1000
schedule = "constant"
learning_rate = 2e-3
warmup_steps = 5
"""
PICTURES = """\
[data]
train = { name = "scenes", count = 24 }
valid = { name = "scenes", count = 6 }

[tokens]
kind = "words"
size = 40

[model]
kind = "captioner"
encoder = { name = "residual", width = 8, n_stages = 1 }
picture_size = 16
d_embedding = 8
d_hidden = 8
max_len = 30

[training]
steps = 60
target_tokens_per_update = 100
target_tokens_per_batch = 60
schedule = "constant"
learning_rate = 0.02
warmup_steps = 2
"""
RECIPES = {"texts": TEXTS, "pictures": PICTURES}
TEXT = "a b c d e f g h i j " * 7
LONG = "a b c d e " * 39_000
"""Near the most characters that a request may have."""
N_LATENCIES = 200
N_CLIENTS = 50
N_UPLOADS, AT_ONCE = 80, 40
UPLOAD = 30_000_000
"""Bytes of a picture that are sent; two megabytes more are announced and never come."""
PATIENCE = 600
"""Seconds until a figure is given up."""
QUIET = 2.0
"""Seconds without work after which the server counts as idle."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    pid: int
    port: int

    def connection(self) -> HTTPConnection:
        """A connection that stays open."""
        return HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(self, path: str, body: bytes | None = None, kind: str = "application/json") -> Any:
        """The status and the JSON of one answer, over a connection of its own."""
        connection = self.connection()
        try:
            headers = {} if body is None else {"Content-Type": kind}
            connection.request("GET" if body is None else "POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def predict(self, text: str) -> Any:
        """The answer to a text."""
        return self.ask("/api/runs/texts/predict", json.dumps({"text": text}).encode())

    def sends(self, path: str, kind: str, length: int, body: bytes) -> socket.socket:
        """A connection over which the head of a request was sent, and all of its body or some."""
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {length}\r\n\r\n"
        )
        sending = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        sending.sendall(head.encode() + body)
        return sending

    def memory(self) -> float:
        """Megabytes that it holds."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1000

    def processor_seconds(self) -> float:
        """That it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def wait_until_idle(self) -> None:
        """Return once it does nothing any more."""
        end, used = time.monotonic() + PATIENCE, -1.0
        while self.processor_seconds() - used > QUIET / 50 and time.monotonic() < end:
            used = self.processor_seconds()
            time.sleep(QUIET)


def regard(*words: str) -> str:
    """What a command of regard prints."""
    command = [sys.executable, "-m", "regard", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def made_runs(folder: Path) -> list[Path]:
    """The two runs; after so few updates their answers are long and not yet right."""
    for name, recipe in RECIPES.items():
        if not (folder / name / "model.safetensors").is_file():
            (folder / f"{name}.toml").write_text(recipe)
            regard("train", str(folder / f"{name}.toml"), "--out", str(folder / name),
                   "--device", "cpu")  # fmt: skip
    return [folder / name for name in RECIPES]


@contextmanager
def serving(runs: list[Path]) -> Iterator[Server]:
    words = [*map(str, runs), "--port", "0", "--device", "cpu"]
    command = [sys.executable, "-m", "regard", "serve", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            address = next(word for word in said.split() if word.startswith("http://"))
            yield Server(process.pid, int(address.rstrip("/").rpartition(":")[2]))
        finally:
            process.terminate()


def picture(side: int = 24) -> bytes:
    """A picture with one red square, as PNG."""
    row = b"\0" + b"".join(b"\xd0\0\0" if 6 < x < 18 else b"\xff\xff\xff" for x in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(row * side)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def check(server: Server, runs: list[Path], folder: Path) -> None:
    """Answers and captions are those of `regard predict`; what cannot be answered is refused."""
    texts, pictures = runs
    status, said = server.predict(TEXT)
    want = regard("predict", str(texts), "--text", TEXT, "--device", "cpu")
    assert (status, said["answers"][0]["text"]) == (200, want.removesuffix("\n")), said
    assert len(want.split()) > 20, "the run ends its answers too soon to be measured with"
    (folder / "picture.png").write_bytes(picture())
    want = regard("predict", str(pictures), str(folder / "picture.png"), "--device", "cpu")
    status, said = server.ask("/api/runs/pictures/caption", picture(), "image/png")
    assert want.strip(), "the run's caption is empty"
    assert (status, " ".join(said["words"])) == (200, want.strip()), said
    assert server.ask("/health")[1]["status"] == "good"
    assert server.predict(LONG)[0] == 413


def keep_alive(server: Server) -> dict[str, float]:
    """Milliseconds from request to answer over one connection that stays open."""
    connection, taken = server.connection(), []
    for _ in range(N_LATENCIES):
        began = time.perf_counter()
        connection.request("GET", "/health")
        assert connection.getresponse().read()
        taken.append(1000 * (time.perf_counter() - began))
    connection.close()
    return {"keep_alive_ms": statistics.median(taken[10:])}


def health_under_load(server: Server) -> dict[str, float]:
    """Milliseconds of /health while many predictions are asked for; the slowest of all."""
    texts = [f"{TEXT}{'a b ' * (number % 3)}" for number in range(N_CLIENTS)]
    wanted = {text: server.predict(text) for text in dict.fromkeys(texts)}
    began, taken = time.perf_counter(), []
    with ThreadPoolExecutor(N_CLIENTS) as clients:
        asked: list[Future[Any]] = [clients.submit(server.predict, text) for text in texts]
        time.sleep(0.5)
        while not all(one.done() for one in asked):
            sent = time.perf_counter()
            assert server.ask("/health")[0] == 200
            taken.append(1000 * (time.perf_counter() - sent))
            time.sleep(0.05)
        for text, one in zip(texts, asked, strict=True):
            assert one.result() == wanted[text]
    return {
        "health_slowest_ms": max(taken),
        "health_median_ms": statistics.median(taken),
        "predictions_s": time.perf_counter() - began,
    }


def clients_leave(server: Server) -> dict[str, float]:
    """Seconds of processor time that the server uses after many clients asked and left."""
    body = json.dumps({"text": TEXT}).encode()
    sent = [
        server.sends("/api/runs/texts/predict", "application/json", len(body), body)
        for _ in range(N_CLIENTS)
    ]
    time.sleep(0.5)
    used = server.processor_seconds()
    for one in sent:
        one.close()
    server.wait_until_idle()
    return {"after_leaving_s": server.processor_seconds() - used}


def refused_text(server: Server) -> dict[str, float]:
    """Milliseconds until a text that is much too long is refused."""
    taken = []
    for _ in range(3):
        began = time.perf_counter()
        assert server.predict(LONG)[0] == 413
        taken.append(1000 * (time.perf_counter() - began))
    return {"refused_ms": statistics.median(taken)}


def aborted_uploads(server: Server) -> dict[str, float]:
    """Megabytes that the server holds more after many pictures began to arrive and never did."""
    before, content = server.memory(), bytes(UPLOAD)

    def send() -> socket.socket:
        path = "/api/runs/pictures/caption"
        return server.sends(path, "image/png", UPLOAD + 2_000_000, content)

    with ThreadPoolExecutor(AT_ONCE) as clients:
        for _ in range(N_UPLOADS // AT_ONCE):
            sent = [clients.submit(send) for _ in range(AT_ONCE)]
            for one in [each.result() for each in sent]:
                one.close()
            server.wait_until_idle()
    assert server.ask("/api/runs/pictures/caption", picture(), "image/png")[0] == 200
    return {"after_uploads_mb": server.memory() - before}


FIGURES = {
    "keep_alive_ms": "a request over an open connection, median, ms",
    "health_slowest_ms": f"/health with {N_CLIENTS} predictions asked for, slowest, ms",
    "health_median_ms": "the same, median, ms",
    "predictions_s": f"those {N_CLIENTS} predictions, s",
    "after_leaving_s": f"processor time after {N_CLIENTS} clients asked and left, s",
    "refused_ms": f"a text of {len(LONG):,} characters is refused, ms",
    "after_uploads_mb": f"memory more after {N_UPLOADS} aborted uploads of 30 MB, MB",
}
MEASURES = (keep_alive, health_under_load, clients_leave, refused_text, aborted_uploads)


def table(columns: list[dict[str, Any]]) -> str:
    names = " | ".join(column["name"] for column in columns)
    lines = [f"| | {names} |", "|---" + "|---:" * len(columns) + "|"]
    lines += [
        f"| {said} | " + " | ".join(f"{column[key]:,.1f}" for column in columns) + " |"
        for key, said in FIGURES.items()
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--name", default="regard", help="of the column")
    parser.add_argument("--folder", type=Path, help="where the runs are, or are made")
    parser.add_argument("--out", type=Path, help="a file for the figures as JSON")
    parser.add_argument("--beside", type=Path, help="figures of other code, for the table")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        runs = made_runs(folder)
        found: dict[str, Any] = {"name": asked.name}
        for measure in MEASURES:
            # a server that has done nothing yet for each of them
            with serving(runs) as server:
                check(server, runs, folder)
                server.wait_until_idle()
                found |= measure(server)
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
    others = [json.loads(asked.beside.read_text())] if asked.beside else []
    print(table([*others, found]))


if __name__ == "__main__":
    main()
