"""Threads: as many as there are free cores, said, recorded, and the same when a run goes on."""

import json

import pytest
import torch

from regard.cli import main
from regard.errors import CheckpointError, SettingError
from regard.hardware import hardware as hardware_module
from regard.hardware import threads
from regard.hardware.hardware import Hardware
from regard.hardware.threads import busy_cores, cpu_quota, free_threads
from regard.recipes import read_recipe
from regard.runs.trained import load
from regard.serving.server import take_one_thread
from regard.tasks import loaded_run, searched_texts
from regard.training import run, thread_choice
from regard.training.checkpoints import checkpoints, read_progress
from regard.training.events import ChosenThreads, Notice, Step
from tests.factories import make_run

SENTENCES = (Notice, ChosenThreads)
CORE = "cpu{core} {user} 0 {system} {idle} {waiting} 0 0 {stolen} 0 0"


@pytest.fixture
def machine(monkeypatch):
    """A machine of four cores: nothing runs there, nothing is limited, nothing is chosen."""
    for name in threads.ASKED_BY:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_own_cores", lambda: {0, 1, 2, 3})
    monkeypatch.setattr(threads, "busy_cores", lambda cores: 0)
    monkeypatch.setattr(threads, "cpu_quota", lambda: None)
    # too short for a trial, however slow the machine is
    monkeypatch.setattr(thread_choice, "TRIAL_SHARE", 0.0)
    torch.set_num_threads(4)
    return monkeypatch


def _core(core, **ticks):
    kinds = dict.fromkeys(("user", "system", "idle", "waiting", "stolen"), 100)
    return CORE.format(core=core, **{name: kinds[name] + ticks.get(name, 0) for name in kinds})


def _busy(tmp_path, cores, *rows):
    path = tmp_path / "stat"
    path.write_text("\n".join(["cpu 0 0 0 0 0 0 0 0 0 0", *map(_core, range(4)), "intr 5"]))
    later = [_core(core, **row) for core, row in enumerate(rows)]
    return busy_cores(cores, times=path, wait=lambda s: path.write_text("\n".join(later)))


def test_a_core_is_busy_that_works_for_others_or_is_lent_to_another_machine(tmp_path):
    working, idle, waiting = {"user": 6, "system": 4}, {"idle": 10}, {"waiting": 10}
    stolen, briefly = {"stolen": 9, "idle": 1}, {"user": 2, "idle": 8}
    assert _busy(tmp_path, {0, 1, 2, 3}, working, idle, waiting, stolen) == 2
    assert _busy(tmp_path, {0, 1, 2, 3}, working, working, briefly, idle) == 2
    # cores on which this process may not run are the others' own
    assert _busy(tmp_path, {2, 3}, working, working, idle, idle) == 0


def test_where_nothing_is_known_of_other_programs_no_core_is_busy(tmp_path):
    assert busy_cores({0, 1}, times=tmp_path / "none") == 0


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "50000\n"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "50000\n"}, None),
        ({"cpu.max": "800000 100000\n", "batch/cpu.max": "max 100000\n"}, 8.0),
        ({"cpu.max": "800000 100000\n", "batch/job/cpu.max": "300000 100000\n"}, 3.0),
        ({}, None),
    ],
)
def test_the_quota_is_the_tightest_of_the_control_groups_that_hold_the_process(
    files, expected, tmp_path
):
    own, groups = tmp_path / "cgroup", tmp_path / "fs"
    own.write_text("4:cpu,cpuacct:/\n0::/batch/job\n")
    for name, text in files.items():
        (groups / name).parent.mkdir(parents=True, exist_ok=True)
        (groups / name).write_text(text)
    assert cpu_quota(own=own, groups=groups) == expected


def test_free_cores_are_all_taken(machine):
    assert str(free_threads()) == "4 threads: 4 of 4 cores are free"


def test_cores_that_others_keep_busy_are_left_to_them(machine):
    machine.setattr(threads, "busy_cores", lambda cores: 3)
    assert str(free_threads()) == (
        "1 thread: other programs keep 3 of 4 cores busy; --threads 4 takes 4 all the same"
    )
    machine.setattr(threads, "busy_cores", lambda cores: 4)
    assert free_threads().count == 1


def test_a_quota_is_not_exceeded(machine):
    machine.setattr(threads, "cpu_quota", lambda: 2.5)
    assert str(free_threads()) == (
        "2 threads: a quota gives this process 2.5 of 4 cores; --threads 4 takes 4 all the same"
    )
    machine.setattr(threads, "cpu_quota", lambda: 0.5)
    assert free_threads().count == 1


@pytest.mark.parametrize(
    ("quota", "count", "candidates"),
    [(None, 4, (1, 2, 4)), (2.5, 2, (1, 2, 3)), (1.5, 1, (1, 2)), (1.0, 1, ()), (0.5, 1, ())],
)
def test_a_training_may_try_what_a_quota_pays_for_in_part(quota, count, candidates, machine):
    machine.setattr(threads, "cpu_quota", lambda: quota)
    found = free_threads()
    assert (found.count, found.candidates) == (count, candidates)


def test_a_number_that_is_given_wins_over_everything_and_is_for_the_cpu(machine):
    machine.setattr(threads, "cpu_quota", lambda: 0.5)
    machine.setenv("OMP_NUM_THREADS", "4")
    found = Hardware.chosen("cpu", None, threads=3).threads
    assert (str(found), found.candidates) == ("3 threads: --threads says so", ())
    machine.setattr(hardware_module, "device_named", lambda name: torch.device("cuda"))
    with pytest.raises(SettingError) as caught:
        Hardware.chosen(None, "float32", threads=3)
    assert str(caught.value) == (
        "--threads: 3 are for the CPU, but cuda computes. Add --device cpu, or leave --threads out."
    )
    with pytest.raises(SettingError, match="--threads must be between 1 and 1,024, got 0"):
        load("run", device="cpu", threads=0)


def test_what_the_user_chose_is_taken(machine):
    machine.setattr(threads, "busy_cores", lambda cores: 4)
    machine.setenv("OMP_NUM_THREADS", "4")
    assert str(free_threads()) == "4 threads: OMP_NUM_THREADS says so"
    machine.delenv("OMP_NUM_THREADS")
    torch.set_num_threads(1)
    assert str(free_threads()) == "1 thread: torch is set so"
    torch.set_num_threads(3)
    machine.setenv("OMP_NUM_THREADS", "4")
    assert str(free_threads()) == "3 threads: torch is set so"


def test_only_a_cpu_has_threads_and_a_context_gives_them_back(machine):
    machine.setattr(threads, "busy_cores", lambda cores: 1)
    hardware = Hardware.chosen("cpu", None)
    assert hardware.threads is not None and hardware.threads.count == 3
    with hardware.on_threads():
        assert torch.get_num_threads() == 3
    assert torch.get_num_threads() == 4
    with Hardware().on_threads():
        assert torch.get_num_threads() == 4


def test_a_training_says_and_records_its_threads_and_gives_them_back(machine, recipe, tmp_path):
    machine.setattr(threads, "busy_cores", lambda cores: 2)
    begun = run(read_recipe(recipe), tmp_path / "run", hardware=Hardware.chosen("cpu", None))
    said = [event.text for event in begun if isinstance(event, SENTENCES)]
    reason = "other programs keep 2 of 4 cores busy; --threads 4 takes 4 all the same"
    assert f"on 2 threads: {reason}" in said
    newest = checkpoints(tmp_path / "run" / "checkpoints")[-1]
    assert read_progress(newest).environment["threads"] == "2"
    assert f"| threads | 2: {reason} |" in (tmp_path / "run" / "card.md").read_text()
    assert torch.get_num_threads() == 4


def test_a_run_goes_on_with_the_threads_it_was_begun_with(machine, recipe, tmp_path):
    wanted, out = read_recipe(recipe), tmp_path / "run"
    machine.setattr(threads, "busy_cores", lambda cores: 3)
    begun = run(wanted, out, hardware=Hardware.chosen("cpu", None))
    while not checkpoints(out / "checkpoints"):
        next(begun)
    begun.close()
    machine.setattr(threads, "busy_cores", lambda cores: 0)
    said, seen = [], set()
    for event in run(wanted, out, resume=True, hardware=Hardware.chosen("cpu", None)):
        said += [event.text] if isinstance(event, SENTENCES) else []
        seen |= set() if isinstance(event, SENTENCES) else {torch.get_num_threads()}
    assert "on 1 thread: the run was begun so" in said
    assert seen == {1}
    assert torch.get_num_threads() == 4


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again_as_it_began(
    machine, recipe, tmp_path
):
    wanted, out = read_recipe(recipe), tmp_path / "run"
    machine.setattr(threads, "busy_cores", lambda cores: 3)
    begun = run(wanted, out, hardware=Hardware.chosen("cpu", None))
    while not isinstance(next(begun), Step):
        pass
    begun.close()
    assert not checkpoints(out / "checkpoints")
    machine.setattr(threads, "busy_cores", lambda cores: 0)
    again = run(wanted, out, resume=True, hardware=Hardware.chosen("cpu", None))
    said = [event.text for event in again if isinstance(event, SENTENCES)]
    assert "on 1 thread: the run was begun so" in said
    newest = checkpoints(out / "checkpoints")[-1]
    assert read_progress(newest).environment["threads"] == "1"


def test_a_run_says_what_is_not_as_it_was_when_it_was_begun(recipe, tmp_path):
    wanted, out = read_recipe(recipe), tmp_path / "run"
    begun = run(wanted, out)
    while not isinstance(next(begun), Step):
        pass
    begun.close()
    held = json.loads((out / "environment.json").read_text())
    (out / "environment.json").write_text(json.dumps({**held, "torch": "1.0", "capability": "?"}))
    said = [event.text for event in run(wanted, out, resume=True) if isinstance(event, SENTENCES)]
    assert "torch and capability changed since the run was begun; it goes on, but not to the bit" \
        in said  # fmt: skip
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "environment.json").write_text('{"threads": "many"}')
    with pytest.raises(
        CheckpointError, match=r"environment\.json' must hold a count as 'env.*Delete"
    ):
        list(run(wanted, tmp_path / "other", resume=True))


def test_a_loaded_run_answers_on_the_free_cores(machine, tmp_path):
    make_run(tmp_path / "run")
    machine.setattr(threads, "busy_cores", lambda cores: 2)
    trained, seen = load(tmp_path / "run", device="cpu"), []
    search = trained.default_search()

    def watching(model, sentences, *, device="cpu"):
        seen.append(torch.get_num_threads())
        return search(model, sentences, device=device)

    linked, links = [], searched_texts.alignment
    machine.setattr(
        searched_texts,
        "alignment",
        lambda *given: linked.append(torch.get_num_threads()) or links(*given),
    )
    trained.predict(["a b"], search=watching, has_alignments=True)
    assert seen == linked == [2]
    assert torch.get_num_threads() == 4
    assert trained.hardware.threads.count == 2


def test_a_verb_says_where_it_leaves_cores_to_others_and_is_silent_where_it_takes_all(
    machine, tmp_path, capsys
):
    run = str(make_run(tmp_path / "run"))
    assert main(["predict", run, "--text", "a b"]) == 0
    assert "thread" not in capsys.readouterr().err
    machine.setattr(threads, "busy_cores", lambda cores: 1)
    assert main(["predict", run, "--text", "a b"]) == 0
    assert capsys.readouterr().err.startswith("on 3 threads: other programs keep 1 of 4 cores busy")
    # the whole process takes no more
    assert torch.get_num_threads() == 3


def test_a_server_answers_each_request_on_one_thread_unless_the_user_chose_otherwise(machine):
    take_one_thread()
    assert torch.get_num_threads() == 1
    torch.set_num_threads(4)
    machine.setenv("OMP_NUM_THREADS", "4")
    take_one_thread()
    assert torch.get_num_threads() == 4


def test_looking_takes_the_free_cores_too(machine, tmp_path, monkeypatch):
    make_run(tmp_path / "run")
    machine.setattr(threads, "busy_cores", lambda cores: 2)
    trained, seen, looked = load(tmp_path / "run", device="cpu"), [], loaded_run.look_at

    def watching(*given):
        seen.append(torch.get_num_threads())
        return looked(*given)

    monkeypatch.setattr(loaded_run, "look_at", watching)
    trained.look("a b", "a")
    assert seen == [2]
