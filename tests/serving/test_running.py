"""regard serve: a port of its own, one clean end, and mistakes told before anything long begins."""

import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from regard.cli import main
from regard.serving import build_app
from regard.serving.running import address_of, bind, run_server, running
from tests.making import make_run


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
    assert "not a finished run" in capsys.readouterr().err


def test_one_run_twice_is_a_mistake(tmp_path, capsys):
    run = str(make_run(tmp_path / "run"))
    assert main(["serve", run, run, "--port", "0"]) == 2
    assert "given twice" in capsys.readouterr().err


def test_gold_links_need_all_three_files(tmp_path, capsys):
    assert main(["serve", str(tmp_path), "--alignment", "links.txt", "--port", "0"]) == 2
    assert "1 of the three" in capsys.readouterr().err


def test_ctrl_c_ends_it_cleanly(tmp_path):
    run = make_run(tmp_path / "run")
    command = [sys.executable, "-m", "regard", "serve", str(run), "--port", "0", "--device", "cpu"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            address = next(word for word in said.split() if word.startswith("http"))
            with urllib.request.urlopen(f"{address}health") as answer:
                assert answer.status == 200
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert errors == ""


def test_the_server_answers_over_a_real_socket_and_ends_with_its_block(shelf):
    with running(build_app(shelf)) as address:
        with urllib.request.urlopen(address) as answer:
            assert b"regard studio" in answer.read()
        host, port = address.removeprefix("http://").strip("/").split(":")
    with (
        pytest.raises(ConnectionRefusedError),
        socket.create_connection((host, int(port)), timeout=1),
    ):
        pass


def test_the_page_is_opened_once_the_server_answers(shelf):
    opened = []

    def look(address):
        with urllib.request.urlopen(f"{address}health") as answer:
            opened.append((address, answer.status))
        signal.raise_signal(signal.SIGINT)

    listening = bind("127.0.0.1", 0)
    address = address_of(listening)
    try:
        run_server(build_app(shelf), listening, opens=True, open_page=look)
    finally:
        listening.close()
    assert opened == [(address, 200)]


def test_the_address_is_one_that_a_browser_takes():
    with bind("0.0.0.0", 0) as listening:
        port = listening.getsockname()[1]
        assert address_of(listening) == f"http://127.0.0.1:{port}/"
