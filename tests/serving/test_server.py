"""regard serve: a port of its own, one clean end, and mistakes told before anything long begins."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from regard.cli import main
from regard.serving import build_app
from regard.serving.server import address_of, bind, run_server, running
from tests.factories import make_run


def test_a_port_that_is_taken_is_the_user_s_mistake(tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", str(tmp_path), "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"port {port}" in said
    assert "--port 0" in said
    assert "Traceback" not in said


def test_a_folder_that_is_no_run_is_told(tmp_path, capsys):
    assert main(["serve", str(tmp_path), "--port", "0"]) == 2
    assert "is no run: there is no recipe.toml in it. Give a folder" in capsys.readouterr().err


def test_an_address_that_is_not_of_this_machine_is_told_as_one(tmp_path, capsys):
    # TEST-NET-1, which no machine has
    for host in ("nohost.invalid", "192.0.2.1"):
        assert main(["serve", str(tmp_path), "--host", host, "--port", "0"]) == 2
        said = capsys.readouterr().err
        assert f"serve: '{host}' is no address of this machine (" in said
        assert "). Give another with --host, or leave --host out for 127.0.0.1." in said


def test_one_run_twice_is_a_mistake(tmp_path, capsys):
    run = str(make_run(tmp_path / "run"))
    assert main(["serve", run, run, "--port", "0"]) == 2
    assert "given twice" in capsys.readouterr().err


def test_gold_links_need_all_three_files(tmp_path, capsys):
    assert main(["serve", str(tmp_path), "--alignment", "links.txt", "--port", "0"]) == 2
    assert "1 of the three" in capsys.readouterr().err


@pytest.fixture
def aligned(tmp_path):
    """The files of two pairs, their links counted from 1; a last word is linked in the second."""
    (tmp_path / "h.en").write_text("a b c\nb a\n")
    (tmp_path / "h.fr").write_text("c b a\na b\n")
    (tmp_path / "gold").write_text("1-2 2p1\n1-2 2-1\n")
    named = {"--source": "h.en", "--reference": "h.fr", "--alignment": "gold"}
    return [word for name, file in named.items() for word in (name, str(tmp_path / file))]


def test_links_that_do_not_fit_the_texts_are_told_before_anything_is_loaded(
    aligned, tmp_path, capsys
):
    assert main(["serve", str(tmp_path / "none"), *aligned, "--port", "0"]) == 2
    assert capsys.readouterr().err == (
        f"regard: serve: '{tmp_path / 'gold'}': links: sentence 2: link 1-2 (counted from 0), but "
        "line 2 of the texts has 2 source and 2 target words. Is the file of this text, source "
        "first (else --alignment-swapped), and does it count from 1 (first=1, "
        "--alignment-first 1)?\n"
    )


@pytest.mark.parametrize(
    "words", [["--alignment-first", "1"], ["--alignment-format", "naacl"], ["--alignment-swapped"]]
)
def test_how_links_are_read_is_refused_where_there_are_none(words, tmp_path, capsys):
    assert main(["serve", str(tmp_path), *words, "--port", "0"]) == 2
    said = capsys.readouterr().err
    assert f"there are no gold links (--alignment), so {words[0]} would change nothing" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--alignment-first", "2"], "words count from 0 or from 1, got 2"),
        (["--alignment-format", "naac"], "--alignment-format: There is no 'naac' here. Did you"),
        (["--alignment-format", "naacl"], "line 1: '1-2 2p1' is no link in naacl format"),
    ],
)
def test_a_wrong_way_to_read_links_is_told(words, message, aligned, tmp_path, capsys):
    assert main(["serve", str(tmp_path), *aligned, *words, "--port", "0"]) == 2
    assert message in capsys.readouterr().err


@contextmanager
def _serving(*words):
    """A server in a process of its own, and its address."""
    command = [sys.executable, "-m", "regard", "serve", *words, "--port", "0", "--device", "cpu"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            yield process, next(word for word in said.split() if word.startswith("http"))
        finally:
            process.kill()


@pytest.mark.processes
def test_links_are_served_as_the_words_say_that_they_are_to_be_read(aligned, tmp_path):
    run = str(make_run(tmp_path / "run"))
    with _serving(run, *aligned, "--alignment-first", "1", "--alignment-swapped") as (_, address):
        with urllib.request.urlopen(f"{address}api/gold/run/0") as answer:
            said = json.load(answer)
        with urllib.request.urlopen(f"{address}api/gold/run") as answer:
            assert json.load(answer)["sentences"] == 2
    assert (said["source"], said["target"]) == (["a", "b", "c"], ["c", "b", "a"])
    assert (said["sure"], said["possible"]) == ([[1, 0]], [[0, 1]])


@pytest.mark.processes
def test_ctrl_c_ends_it_cleanly(tmp_path):
    with _serving(str(make_run(tmp_path / "run"))) as (process, address):
        with urllib.request.urlopen(f"{address}health") as answer:
            assert answer.status == 200
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors == ""


def test_the_server_answers_over_a_real_socket_and_ends_with_its_block(registry):
    with running(build_app(registry)) as address:
        with urllib.request.urlopen(address) as answer:
            assert b"regard studio" in answer.read()
        host, port = address.removeprefix("http://").strip("/").split(":")
    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection((host, int(port)), timeout=1),
    ):
        pass


def test_the_page_is_opened_once_the_server_answers(registry):
    opened = []

    def look(address):
        with urllib.request.urlopen(f"{address}health") as answer:
            opened.append((address, answer.status))
        signal.raise_signal(signal.SIGINT)

    listening = bind("127.0.0.1", 0)
    address = address_of(listening)
    try:
        run_server(build_app(registry), listening, opens=True, open_page=look)
    finally:
        listening.close()
    assert opened == [(address, 200)]


def test_the_address_is_one_that_a_browser_takes():
    with bind("0.0.0.0", 0) as listening:
        port = listening.getsockname()[1]
        assert address_of(listening) == f"http://127.0.0.1:{port}/"


def test_the_body_of_an_answer_does_not_wait_until_its_head_is_acknowledged():
    found = []

    async def accept_one(listening):
        accepted = asyncio.Event()

        def note(reader, writer):
            own = writer.get_extra_info("socket")
            found.append(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()
            accepted.set()

        async with await asyncio.start_server(note, sock=listening):
            with socket.create_connection(listening.getsockname()):
                await asyncio.wait_for(accepted.wait(), timeout=60)

    asyncio.run(accept_one(bind("127.0.0.1", 0)))
    assert found == [1]
