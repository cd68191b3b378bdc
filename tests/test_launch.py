"""Ranks start, say how they ended, and leave nothing behind, however they are started and whatever they do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from attending import LIMITS, attended, comes_true, processes, value, values
from grader.errors import GraderError, StudentFailure, UsageError
from grader.launch import Ending, Job, Launcher, choose_level, forking, open_launcher
from grader.launch.forking import ForkLauncher
from grader.launch.spawning import SpawnLauncher
from grader.records import Level
from grader.sandbox.probing import probe

LEVELS = [level for level in Level if level.value <= probe().best.value]
WAYS = [("fork", level) for level in LEVELS] + [("spawn", level) for level in LEVELS if level is not Level.B2]


@pytest.fixture(scope="module", params=WAYS, ids=lambda way: f"{way[0]}-{way[1].name}")
def launcher(request: pytest.FixtureRequest) -> Iterator[Launcher]:
    """Start ranks in every way that this machine has."""
    method, level = request.param
    launcher = ForkLauncher(level, level.name) if method == "fork" else SpawnLauncher(level, level.name)
    yield launcher
    launcher.close()


@pytest.fixture(scope="module", params=LEVELS, ids=lambda level: level.name)
def forking_launcher(request: pytest.FixtureRequest) -> Iterator[ForkLauncher]:
    """Start ranks from a fork server at every level."""
    launcher = ForkLauncher(request.param, request.param.name)
    yield launcher
    launcher.close()


@pytest.fixture(scope="module")
def plain_launcher() -> Iterator[ForkLauncher]:
    """Start ranks from a fork server without a sandbox."""
    launcher = ForkLauncher(Level.B0, "B0")
    yield launcher
    launcher.close()


def forked(launcher: ForkLauncher) -> dict[int, str]:
    """Return the fork server of `launcher` and all processes forked from it that replaced their program never."""
    server = launcher._server._process
    return processes(" ".join(map(str, server.args[4:])))


# ---- what a rank finds ---------------------------------------------------------------------------------------------


def test_every_rank_answers_from_a_process_of_its_own(launcher: Launcher) -> None:
    with attended(launcher, "import os\ndef f(x): return [os.getpid(), os.environ['RANK'], x]\n", 3) as exchange:
        pids, ranks, echoes = zip(*values(exchange, "f", 41), strict=True)
    assert len(set(pids)) == 3
    assert ranks == ("0", "1", "2")
    assert echoes == (41, 41, 41)


def test_the_environment_of_a_rank_is_built_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the initial environment, which /proc shows for good, holds what surrounds the grader."""
    monkeypatch.setenv("GITHUB_TOKEN", "canary")
    monkeypatch.setenv("PYTHONPATH", "/canary")
    source = "import os\ndef f(): return [dict(os.environ), open('/proc/self/environ').read()]\n"
    for make in (ForkLauncher, SpawnLauncher):
        with closing(make(Level.B0, "B0")) as launcher:
            environment, initial = value(launcher, source)
        assert "canary" not in f"{environment}{initial}"
        assert environment["HOME"] == environment["TMPDIR"]
        assert environment["WORLD_SIZE"] == "1"


def test_a_rank_holds_its_streams_and_its_channel_and_no_other_file(forking_launcher: ForkLauncher) -> None:
    source = """
import os
def is_open(fd):
    try: os.fstat(fd)
    except OSError: return False
    return True
def f():
    return [fd for fd in range(1024) if is_open(fd)], os.read(0, 1), os.get_inheritable(3)
"""
    assert value(forking_launcher, source) == ([0, 1, 2, 3], b"", False)


def test_a_rank_works_in_a_fresh_folder_that_is_taken_away(launcher: Launcher) -> None:
    source = (
        "import os\ndef f():\n    open('left', 'w').write('x')\n    return [os.getcwd(), os.listdir('../exercise')]\n"
    )
    for _ in range(2):
        with attended(launcher, source) as exchange:
            folder, files = values(exchange, "f")[0]
            run_dir = Path(exchange.running.order.run_dir)
            assert folder == str(exchange.running.scratch_dir)
            assert files == ["sample.py"]
            assert run_dir.stat().st_mode & 0o777 == 0o700
        assert not run_dir.exists()


def test_a_module_that_a_job_names_is_there_before_the_submission_imports_it(plain_launcher: ForkLauncher) -> None:
    source = "import sys\ndef f(): return 'colorsys' in sys.modules\n"
    with attended(plain_launcher, source) as exchange:
        assert values(exchange, "f") == [False]
    with attended(plain_launcher, source, preload=("colorsys", "no_such_module")) as exchange:
        assert values(exchange, "f") == [True]


def test_a_submission_cannot_import_from_the_checkout_by_its_search_path(launcher: Launcher) -> None:
    source = "import sys\ndef f(): return sys.path\n"
    assert str(Path(__file__).parents[1]) not in value(launcher, source)


def test_the_fork_server_has_one_thread_with_torch_imported_and_so_has_torch_in_a_rank() -> None:
    with closing(ForkLauncher(Level.B0, "B0", ("numpy", "torch", "torch.distributed"))) as launcher:
        assert value(launcher, "import torch\ndef f(): return torch.get_num_threads()\n") == 1
        assert len(list(Path(f"/proc/{launcher._server._process.pid}/task").iterdir())) == 1


def test_every_run_of_the_fork_server_draws_its_own_random_state(plain_launcher: ForkLauncher) -> None:
    """The loop seeds again from the run's seed; this is what libraries draw that seed themselves."""
    source = "import tempfile, uuid\ndef f(): return [next(tempfile._get_candidate_names()), str(uuid.uuid4())]\n"
    with attended(plain_launcher, source, 2) as exchange:
        first, second = values(exchange, "f")
    assert not set(first) & set(second)


# ---- how a rank ends -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "ending"),
    [
        ("os._exit(0)", Ending(exit_code=0)),
        ("os._exit(70)", Ending(exit_code=70)),
        ("os._exit(97)", Ending(exit_code=97)),
        ("os.kill(os.getpid(), 11)", Ending(signal=11)),
        ("os.kill(os.getpid(), 9)", Ending(signal=9)),
    ],
)
def test_an_ending_is_what_the_process_did_and_never_a_refusal(launcher: Launcher, act: str, ending: Ending) -> None:
    """No exit code can be mistaken for a sandbox that could not be applied."""
    with attended(launcher, f"import os, time\ndef f():\n    if os.environ['RANK'] == '0': {act}\n", 2) as exchange:
        with pytest.raises(StudentFailure, match="rank 0: Your code"):
            values(exchange, "f")
        assert exchange.end()[0] == ending


def test_a_rank_that_still_runs_at_the_end_has_no_exit_code(launcher: Launcher) -> None:
    with attended(launcher, "def f(): return 1\n", 2) as exchange:
        values(exchange, "f")
        running = exchange.running
        assert running.end() == running.end() == (Ending(), Ending())


def test_a_child_that_keeps_the_channel_open_does_not_hide_that_its_rank_died(launcher: Launcher) -> None:
    source = "import os, time\ndef f():\n    if os.fork() == 0: time.sleep(60)\n    os._exit(3)\n"
    if isinstance(launcher, SpawnLauncher):
        source = source.replace("os.fork() == 0", "False")  # nobody watches a spawned process but the trusted one
    with attended(launcher, source) as exchange, pytest.raises(StudentFailure, match="exit code 3"):
        values(exchange, "f")


LINGERERS = {
    "a child": "subprocess.Popen(['sleep', mark])",
    "a child that ignores signals": "subprocess.Popen(['sh', '-c', 'trap \"\" TERM HUP INT; sleep ' + mark])",
    "an orphan": "subprocess.run(['sh', '-c', f'sleep {mark} &'])",
    "a daemon": "subprocess.run(['setsid', '-f', 'sleep', mark])",
    "a daemon of a daemon": "subprocess.run(['setsid', '-f', 'sh', '-c', f'setsid -f sleep {mark}; sleep {mark}'])",
}


@pytest.mark.parametrize("how", LINGERERS)
def test_nothing_that_a_rank_started_survives_it(forking_launcher: ForkLauncher, how: str) -> None:
    mark = f"1000.{os.getpid()}{list(LINGERERS).index(how)}{forking_launcher.level.value}"
    source = f"import subprocess\ndef f(mark):\n    {LINGERERS[how]}\n"
    with attended(forking_launcher, source) as exchange:
        values(exchange, "f", mark)
        daemons_allowed = forking_launcher.level is Level.B0 or "daemon" not in how
        assert comes_true(lambda: bool(processes(f"sleep {mark}")) or not daemons_allowed)
    assert not processes(f"sleep {mark}")


def test_a_spawned_rank_takes_its_process_group_with_it() -> None:
    mark = f"2000.{os.getpid()}"
    source = "import subprocess\ndef f(mark): subprocess.Popen(['sleep', mark])\n"
    with closing(SpawnLauncher(Level.B0, "B0")) as launcher, attended(launcher, source) as exchange:
        values(exchange, "f", mark)
        assert processes(f"sleep {mark}")
        exchange.running.end()
        assert comes_true(lambda: not processes(f"sleep {mark}"))


def test_a_fork_bomb_is_dead_as_soon_as_its_run_ends(forking_launcher: ForkLauncher) -> None:
    source = """
import os, time
def f():
    for _ in range(7):
        try: os.fork()
        except OSError: break
    time.sleep(60)
"""
    limits = replace(LIMITS, timeout_s=1.0)
    with attended(forking_launcher, source, limits=limits) as exchange, pytest.raises(StudentFailure):
        exchange.call("f", [()], {}, timeout_s=1.0)
    assert set(forked(forking_launcher)) == {forking_launcher._server._process.pid}


def test_a_folder_that_resists_is_taken_away_all_the_same(launcher: Launcher) -> None:
    source = """
import os
def f():
    os.makedirs("closed/inner"); open("closed/inner/x", "w"); os.chmod("closed/inner", 0); os.chmod("closed", 0)
    for _ in range(2000):
        os.mkdir("d" * 20); os.chdir("d" * 20)
"""
    with attended(launcher, source) as exchange:
        with suppress(StudentFailure):  # what nobody can measure counts as too much
            values(exchange, "f")
        run_dir = Path(exchange.running.order.run_dir)
    assert not run_dir.exists()


def test_writing_too_much_is_noticed(launcher: Launcher) -> None:
    source = """
import time
def f():
    for i in range(40):
        with open(str(i), "wb") as file:
            file.write(bytes(1 << 20))
    time.sleep(60)
"""
    limits = replace(LIMITS, disk_bytes=16 << 20)
    with attended(launcher, source, limits=limits) as exchange:
        reason = "No space left on device" if launcher.level is Level.B2 else "more than 16 MiB to disk"
        with pytest.raises(StudentFailure, match=reason):
            values(exchange, "f")


# ---- when something of ours dies -----------------------------------------------------------------------------------


def test_a_fork_server_that_died_is_replaced_and_what_it_started_goes_on(plain_launcher: ForkLauncher) -> None:
    with attended(plain_launcher, "def f(): return 1\n") as exchange:
        first = plain_launcher._server._process
        first.kill()
        first.wait()
        assert values(exchange, "f") == [1]
        assert value(plain_launcher, "def f(): return 2\n") == 2
    assert plain_launcher._server._process.pid != first.pid


def test_a_monitor_that_was_killed_is_an_error_of_ours_and_never_a_verdict(plain_launcher: ForkLauncher) -> None:
    with (
        attended(
            plain_launcher, "import os, time\ndef f():\n    os.kill(os.getppid(), 9); time.sleep(60)\n"
        ) as exchange,
        pytest.raises(GraderError, match="watches over the ranks failed: it was ended from outside"),
    ):
        values(exchange, "f")
    assert comes_true(lambda: set(forked(plain_launcher)) == {plain_launcher._server._process.pid})


def test_an_old_fork_server_gives_way_to_a_fresh_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "JOBS_PER_SERVER", 2)
    pids = set()
    with closing(ForkLauncher(Level.B0, "B0")) as launcher:

        def is_replaced() -> bool:
            assert value(launcher, "def f(): return 1\n") == 1
            pids.add(launcher._server._process.pid)
            return len(pids) > 1

        assert comes_true(is_replaced)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_fork_server_that_cannot_start_is_an_error_with_its_last_words() -> None:
    words = r"could not be started.*No module named 'grader.ranks.absent'"
    launcher = ForkLauncher(Level.B0, "B0", serve="grader.ranks.absent:serve")
    with closing(launcher), pytest.raises(GraderError, match=words):
        launcher.start(Job(1, {}))


def test_a_spawned_process_that_cannot_start_is_an_error_with_its_last_words() -> None:
    words = r"could not be started.*No module named 'grader.ranks.absent'"
    launcher = SpawnLauncher(Level.B0, "B0", serve="grader.ranks.absent:serve")
    with closing(launcher), pytest.raises(GraderError, match=words):
        launcher.start(Job(1, {}))


@pytest.mark.parametrize(("method", "level"), WAYS)
def test_nothing_survives_the_trusted_process(method: str, level: Level, tmp_path: Path) -> None:
    """It is killed in the middle of a run: no process is left, and with a monitor no folder either."""
    script = f"""
import sys
sys.path[:0] = {[str(Path(__file__).parents[1]), str(Path(__file__).parent)]!r}
from attending import attended, values
from grader.launch import open_launcher
with attended(open_launcher(), "def f():\\n    print('runs')\\n    while True: pass\\n", 2) as exchange:
    print(exchange.running.order.run_dir, flush=True)
    values(exchange, "f")
"""
    environment = {"RANKLINGS_START_METHOD": method, "RANKLINGS_ISOLATION": level.name, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-B", "-c", script]
    with subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True) as trusted:
        try:
            assert trusted.stdout is not None
            run_dir = Path(trusted.stdout.readline().strip())
            assert run_dir.is_dir()
            assert comes_true(lambda: len(processes(f" {trusted.pid} ")) >= 2)
        finally:
            trusted.send_signal(signal.SIGKILL)
    assert comes_true(lambda: not processes(f" {trusted.pid} ")), processes(f" {trusted.pid} ")
    assert method == "spawn" or comes_true(lambda: not run_dir.exists())


# ---- the warm pool -------------------------------------------------------------------------------------------------


def test_a_process_that_ended_a_run_cleanly_serves_the_same_files_again_and_no_others() -> None:
    source = "import os\nstate = []\ndef f():\n    state.append(1)\n    return [os.getpid(), len(state)]\n"
    found = []
    with closing(SpawnLauncher(Level.B0, "B0")) as launcher:
        for each in (source, source, source + "\n"):
            with attended(launcher, each, 2) as exchange:
                found.append(values(exchange, "f"))
    first, second, others = found
    assert first == second, "the same processes, with the submission loaded anew"
    assert not {pid for pid, _ in first} & {pid for pid, _ in others}


def test_a_process_that_had_to_be_ended_serves_nobody_again() -> None:
    source = "import os, time\ndef f(x):\n    time.sleep(x)\n    return os.getpid()\n"
    with closing(SpawnLauncher(Level.B0, "B0")) as launcher:
        with attended(launcher, source) as exchange:
            first = values(exchange, "f", 0)[0]
            with pytest.raises(StudentFailure, match="did not return"):
                exchange.call("f", [(60,)], {}, timeout_s=0.5)
        assert value(launcher, source, 0) != first


def test_what_a_spawned_process_printed_in_one_run_is_not_read_in_the_next() -> None:
    source = "def f(x):\n    print('printed', x)\n"
    with closing(SpawnLauncher(Level.B0, "B0")) as launcher:
        with attended(launcher, source) as exchange:
            values(exchange, "f", 1)
        with attended(launcher, source) as exchange:
            values(exchange, "f", 2)
            assert exchange.output() == "printed 2\n"


# ---- which launcher ------------------------------------------------------------------------------------------------


def test_a_level_that_cannot_be_had_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKLINGS_ISOLATION", "B0")
    with pytest.raises(GraderError, match=r"Level B1 is required, and RANKLINGS_ISOLATION allows only B0. Unset"):
        open_launcher(Level.B1)
    monkeypatch.delenv("RANKLINGS_ISOLATION")
    with pytest.raises(GraderError, match="Level B2"):
        open_launcher(Level.B2, method="spawn")


def test_a_level_or_method_that_does_not_exist_is_wrong_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="cannot start ranks by the method thread"):
        open_launcher(method="thread")
    monkeypatch.setenv("RANKLINGS_ISOLATION", "B9")
    with pytest.raises(UsageError, match=r"RANKLINGS_ISOLATION is B9\. It may be B0, B1, B2\."):
        open_launcher()


def test_the_best_level_is_chosen_and_said_in_words() -> None:
    level, words = choose_level(Level.B0, "fork", "")
    assert level is probe().best
    assert words.startswith(f"{level.name}: ")
    assert choose_level(Level.B0, "spawn", "")[0].value <= Level.B1.value


def test_the_trusted_process_keeps_others_of_its_user_out_of_its_memory() -> None:
    """The kernel then gives its files under /proc to root."""
    with closing(open_launcher()):
        assert Path("/proc/self/environ").stat().st_uid == 0
