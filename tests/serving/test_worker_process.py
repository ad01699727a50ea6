"""Worker processes: how many threads each has."""

import pytest

from regard.serving import worker_process
from regard.serving.worker_process import launcher, threads_of_worker
from tests.serving.serving import make_registry


@pytest.mark.parametrize(
    ("cores", "quota", "n_workers", "threads"),
    [(2, None, 1, 1), (16, None, 1, 15), (16, None, 4, 3), (16, 4.0, 1, 3), (1, None, 8, 1)],
)
def test_workers_share_the_cores_and_leave_one_to_the_server(
    cores, quota, n_workers, threads, monkeypatch
):
    monkeypatch.setattr(worker_process.os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.setattr(worker_process, "cpu_quota", lambda: quota)
    monkeypatch.setattr(worker_process, "asked_by", lambda: None)
    assert threads_of_worker(n_workers) == threads


def test_a_number_of_threads_that_the_user_chose_stays(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads_of_worker(2) is None


def test_the_threads_of_the_command_line_are_those_of_each_worker(tmp_path, monkeypatch):
    specs = []
    monkeypatch.setattr(worker_process, "WorkerProcess", specs.append)
    served = next(iter(make_registry(tmp_path).runs.values()))
    for threads in (3, None):
        monkeypatch.setattr(worker_process, "threads_of_worker", lambda _: 7)
        launcher(device="cpu", engine="torch", imports=(), n_workers=2, threads=threads)(served)(0)
    assert [spec.threads for spec in specs] == [3, 7]
