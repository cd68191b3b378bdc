"""A confined rank can do honest work and nothing else, as root and as an ordinary user."""

from __future__ import annotations

import os
import platform
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from attending import LIMITS, attended, value, values
from grader.errors import GraderError, StudentFailure
from grader.launch import Launcher, choose_level
from grader.launch.forking import ForkLauncher
from grader.launch.spawning import SpawnLauncher
from grader.records import Level, Limits
from grader.sandbox import paths, scratch, seccomp
from grader.sandbox.probing import Feature, Probe, probe

TORCH = ("numpy", "torch", "torch.distributed")
CONFINED = [level for level in (Level.B1, Level.B2) if level.value <= probe().best.value]
ORDINARY_USER = 12345


@pytest.fixture(scope="module", params=CONFINED, ids=lambda level: level.name)
def launcher(request: pytest.FixtureRequest) -> Iterator[ForkLauncher]:
    """Start ranks from a fork server at every level that has a sandbox."""
    with closing(ForkLauncher(request.param, request.param.name, TORCH)) as launcher:
        yield launcher


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Put a secret where everybody could read it."""
    path = tmp_path_factory.mktemp("secrets") / "secret"
    path.write_text("canary")
    return path


def trying(act: str) -> str:
    """Return a submission whose `f` says with which error `act` is refused."""
    body = "\n        ".join(act.splitlines())
    imports = "import ctypes, os, resource, signal, socket, subprocess, sys"
    return f"""
{imports}
libc = ctypes.CDLL(None, use_errno=True)
def syscall(*arguments):
    if libc.syscall(*map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), "refused")
def f(x):
    try:
        {body}
    except (OSError, ValueError) as error:
        return type(error).__name__
    return "done"
"""


# ---- what a rank may not do ----------------------------------------------------------------------------------------

ATTACKS = {
    "read a file outside": "open(x).read()",
    "write a file outside": "open(x, 'w')",
    "remove a file outside": "os.remove(x)",
    "make a hard link to a file outside": "os.link(x, 'link')",
    "follow a symbolic link": "os.symlink(x, 'link'); open('link').read()",
    "list the folder of temporary files": "os.listdir('/tmp')",
    "read the checks": f"open({str(paths.CHECKOUT / 'pyproject.toml')!r})",
    "read the grader's own verdicts": f"open({str(paths.PACKAGE / 'session.py')!r})",
    "write into its own exercise": "open('../exercise/more.py', 'w')",
    "change its own submission": "open('../exercise/sample.py', 'a')",
    "write into the packages": "open(os.path.join(os.path.dirname(os.__file__), 'evil.py'), 'w')",
    "read the home folder": f"os.listdir({str(Path.home())!r})",
    "read its parent's memory": "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "read its parent's environment": "open(f'/proc/{os.getppid()}/environ').read()",
    "end its parent": "os.kill(os.getppid(), 9); os.kill(os.getppid(), 0); raise PermissionError('init')",
    "leave its session": "os.setsid()",
    "leave its process group": "pid = os.fork()\nif pid == 0: signal.pause()\nos.setpgid(pid, pid)",
    "open a TCP socket": "socket.socket()",
    "open a UDP socket": "socket.socket(type=socket.SOCK_DGRAM)",
    "open a netlink socket": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "open a unix socket": "socket.socket(socket.AF_UNIX)",
    "send a datagram to a unix socket": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "make namespaces": "libc.unshare(0x10000000) == 0 or open('/nowhere')",
    "make a shared memory segment": "libc.shmget(0, 4096, 0o1600) >= 0 or open('/nowhere')",
    "make a message queue": "libc.mq_open(b'/ranklings', 0o102, 0o600, None) >= 0 or open('/nowhere')",
    "trace a process": "libc.ptrace(0, 0, 0, 0) == 0 or open('/nowhere')",
    "use io_uring": "syscall(425, 1, 0)",
    "raise its own limits": "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 40, 1 << 40))",
    "write a file that is too long": "open('long', 'wb').truncate(1 << 40)",
    "leave a core file": "assert resource.getrlimit(resource.RLIMIT_CORE) == (0, 0)\nopen('/nowhere')",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_rank_cannot(launcher: Launcher, secret: Path, attack: str) -> None:
    assert value(launcher, trying(ATTACKS[attack]), str(secret)).endswith("Error")
    assert secret.read_text() == "canary"


def test_a_rank_has_no_privileges_to_use(launcher: Launcher) -> None:
    source = "def f(): return [line.split() for line in open('/proc/self/status')]\n"
    status = {line[0]: line[1] for line in value(launcher, source) if len(line) > 1}
    assert status["NoNewPrivs:"] == "1"
    assert status["Seccomp:"] == "2"
    assert [int(status[name], 16) for name in ("CapInh:", "CapPrm:", "CapEff:", "CapAmb:")] == [0, 0, 0, 0]


def test_the_ranks_of_a_run_cannot_signal_each_other(launcher: Launcher) -> None:
    source = """
import os
def pid(): return os.getpid()
def f(others):
    refused = 0
    for other in others:
        if other != os.getpid():
            try: os.kill(other, 9)
            except PermissionError: refused += 1
    return refused
"""
    with attended(launcher, source, 3) as exchange:
        assert values(exchange, "f", values(exchange, "pid")) == [2, 2, 2]


def test_a_rank_that_signals_everybody_hits_nobody(launcher: ForkLauncher) -> None:
    """The kernel calls it a success even where every single process refused."""
    first = launcher._server._process.pid
    value(launcher, trying("os.kill(-1, 9)"), "")
    assert value(launcher, trying("pass"), "") == "done"
    assert launcher._server._process.pid == first


def test_nothing_of_the_trusted_process_is_in_the_memory_of_a_rank(launcher: Launcher) -> None:
    """A canary of this test, built at run time, is in this process's memory and nowhere in a rank's."""
    canary = "-".join(["canary", str(os.getpid()), "of", "this", "test"])
    source = """
import re
def f(parts):
    needle, found = "-".join(parts).encode(), 0
    for line in open("/proc/self/maps"):
        start, end = (int(part, 16) for part in line.split()[0].split("-"))
        if "rw-p" in line and end - start < 1 << 28:
            with open("/proc/self/mem", "rb") as memory:
                memory.seek(start)
                data = memory.read(end - start)
            found += sum(data[m.end():m.end() + 5] == b"-test" for m in re.finditer(needle, data))
    return found
"""
    assert value(launcher, source, canary.rpartition("-")[0].split("-")) == 0


def test_memory_is_limited(launcher: Launcher) -> None:
    limits = replace(LIMITS, memory_bytes=2 << 30)
    source = "def f(): return len(bytearray(3 << 30))\n"
    with attended(launcher, source, limits=limits) as exchange, pytest.raises(StudentFailure, match="MemoryError"):
        values(exchange, "f")


def test_namespaces_hide_other_processes_networks_and_sockets() -> None:
    """With namespaces a run sees itself alone; a quiet fall back to a weaker level would show here."""
    source = """
import os
def f(names):
    processes = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    networks = [line.split(":")[0].strip() for line in open("/proc/self/net/dev") if ":" in line]
    return [max(processes), networks, os.listdir("/dev/shm"), [os.path.lexists(name) for name in names]]
"""
    for level in set(CONFINED) & {Level.B2}:
        with closing(ForkLauncher(level, level.name)) as launcher:
            last, networks, memory, seen = value(launcher, source, [str(path) for path in Path("/run").iterdir()])
        assert last < 10
        assert (networks, memory) == (["lo"], [])
        assert not any(seen)


# ---- what a rank can do --------------------------------------------------------------------------------------------

FORK = "import multiprocessing\nmp = multiprocessing.get_context('fork')\n"  # Python 3.14's default needs unix sockets
HONEST = {
    "threads": "import threading\nt = threading.Thread(target=print)\nt.start(); t.join()",
    "temporary files": "import tempfile\nwith tempfile.TemporaryDirectory() as d: open(d + '/x', 'w').write('x')",
    "a pool of processes": f"{FORK}with mp.Pool(2) as p: assert p.map(abs, [-1, 2]) == [1, 2]",
    "a queue between processes": (
        f"{FORK}q = mp.Queue()\np = mp.Process(target=q.put, args=(3,))\np.start(); assert q.get() == 3; p.join()"
    ),
    "shared memory": (
        "from multiprocessing import shared_memory\nm = shared_memory.SharedMemory(create=True, size=64)\n"
        "m.close(); m.unlink()"
    ),
    "a program": "import subprocess\nassert subprocess.run(['echo', 'x'], capture_output=True, check=True).stdout",
    "a shell": "import os\nassert os.system('cat /dev/null | wc -l') == 0",
    "another Python": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import json'], check=True)",
    "a pair of sockets": "import socket\na, b = socket.socketpair()\na.send(b'x'); assert b.recv(1) == b'x'",
    "an event loop": "import asyncio\nasyncio.run(asyncio.sleep(0))",
    "saving and loading": "import torch\ntorch.save(torch.ones(3), 'x.pt'); assert torch.load('x.pt').sum() == 3",
    "a gradient": "import torch\nx = torch.ones(300, 300, requires_grad=True)\n(x @ x).sum().backward()",
    "a decomposition": "import torch\nassert torch.linalg.svd(torch.eye(64)).S.sum() == 64",
    "a time zone": "import time\ntime.localtime()",
    "the name of the user": "import getpass, os\ngetpass.getuser(); os.path.expanduser('~')",
}


@pytest.mark.parametrize("what", HONEST)
def test_honest_code_can_use(launcher: Launcher, what: str) -> None:
    body = "\n    ".join(HONEST[what].splitlines())
    assert value(launcher, f"def f():\n    {body}\n    return 'done'\n") == "done"


def test_workers_of_a_data_loader_need_unix_sockets_and_may_have_them(launcher: Launcher) -> None:
    source = """
import torch
from torch.utils.data import DataLoader
def f(): return sum(int(batch.sum()) for batch in DataLoader(list(range(8)), batch_size=2, num_workers=2))
"""
    assert value(launcher, source, limits=replace(LIMITS, unix_sockets=True)) == 28


def test_ranks_can_speak_over_gloo_where_they_are_joined_by_it(launcher: Launcher) -> None:
    source = """
import torch, torch.distributed as dist
def f():
    x = torch.ones(3)
    dist.all_reduce(x)
    return float(x.sum())
"""
    with attended(launcher, source, 3, transport="gloo", preload=TORCH) as exchange:
        assert values(exchange, "f") == [9.0, 9.0, 9.0]


def test_a_spawned_rank_is_confined_too() -> None:
    for level in set(CONFINED) & {Level.B1}:
        with closing(SpawnLauncher(level, level.name)) as launcher:
            assert value(launcher, trying("socket.socket()"), "") == "PermissionError"
            assert value(launcher, trying("os.listdir('/')"), "") == "PermissionError"
            assert value(launcher, trying("open('x', 'w')"), "") == "done"


# ---- what is refused, and in which words ---------------------------------------------------------------------------

DEGRADED = f"""
import os, sys
from pathlib import Path
sys.path[:0] = {[str(paths.CHECKOUT), str(Path(__file__).parent)]!r}
from grader.sandbox import namespaces
namespaces.enter()
if os.fork() == 0:
    namespaces.mount_proc()
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    from attending import attended, values
    from grader.errors import GraderError
    from grader.launch import open_launcher
    from grader.launch.forking import ForkLauncher
    from grader.records import Level
    try:
        open_launcher(Level.B2)
    except GraderError as error:
        print(error)
    try:
        with attended(ForkLauncher(Level.B2, "B2"), "print('opened')\\ndef f(): return 1\\n", 2) as exchange:
            values(exchange, "f")
    except GraderError as error:
        print(error)
        print(exchange.end())
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""


def test_a_level_that_the_kernel_refuses_is_never_replaced_by_a_weaker_one() -> None:
    """On a machine whose namespaces are switched off, asked for all the same, no file of a submission is opened."""
    if Level.B2 not in CONFINED:
        assert probe().lacks(Level.B2)
        return
    done = subprocess.run(
        [sys.executable, "-B", "-c", DEGRADED], capture_output=True, text=True, timeout=60, check=True
    )
    refusal, failure, endings = done.stdout.splitlines()
    assert "this machine offers B1: namespaces switched off (user.max_user_namespaces is 0)" in refusal
    assert "`sudo sysctl -w user.max_user_namespaces=1000` allows them." in refusal
    assert failure == "The sandbox could not be applied to a rank: namespaces (No space left on device)."
    assert endings.count("refused='namespaces (No space left on device)'") == 2


def test_a_machine_without_landlock_offers_the_lowest_level_and_says_why() -> None:
    missing = Feature("Landlock", "this kernel has no Landlock (Linux 5.13 brought it)", "Use the devcontainer.")
    found = Probe(Feature("limits"), missing, Feature("seccomp"), Feature("namespaces"))
    assert found.best is Level.B0
    assert found.describe(Level.B0) == "B0: no sandbox; this kernel has no Landlock (Linux 5.13 brought it)"


def test_a_level_above_the_best_is_refused_with_reason_and_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Feature("namespaces", "namespaces refused by AppArmor", "`sudo sysctl -w x=0` allows them.")
    found = Probe(Feature("limits"), Feature("Landlock ABI 7"), Feature("seccomp"), missing)
    monkeypatch.setattr("grader.launch.probe", lambda: found)
    words = "B1: Landlock ABI 7, seccomp, limits; namespaces refused by AppArmor"
    assert choose_level(Level.B0, "fork", "") == (Level.B1, words)
    with pytest.raises(GraderError) as refused:
        choose_level(Level.B2, "fork", "")
    fact = "Level B2 of isolation is required, and this machine offers B1: namespaces refused by AppArmor."
    assert str(refused.value) == f"{fact} `sudo sysctl -w x=0` allows them."


def test_a_processor_whose_system_calls_are_unknown_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(OSError, match="system call numbers of riscv64 are not known"):
        seccomp.build.__wrapped__(())


# ---- the parts by themselves ---------------------------------------------------------------------------------------


def decide(program: bytes, audit: int, number: int, *arguments: int) -> int:
    """Run a seccomp filter as the kernel does; return its verdict."""
    data = struct.pack("<IIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    value, at = 0, 0
    while True:
        code, hit, miss, operand = struct.unpack_from("<HBBI", program, 8 * at)
        at += 1
        if code == seccomp.RETURN:
            return operand
        if code == seccomp.LOAD:
            (value,) = struct.unpack_from("<I", data, operand)
        elif code == seccomp.AND:
            value &= operand
        else:
            tests = {seccomp.EQUAL: value == operand, seccomp.AT_LEAST: value >= operand}
            at += hit if tests.get(code, bool(value & operand)) else miss


@pytest.mark.parametrize("machine", seccomp.MACHINES)
def test_the_filter_decides_alike_on_every_processor(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    build = seccomp.build.__wrapped__  # uncached: the processor is not really another
    known, program = seccomp.MACHINES[machine], build((seccomp.AF_INET,))
    calls = {
        (known.socket, seccomp.AF_INET): seccomp.ALLOW,
        (known.socket, seccomp.AF_UNIX): seccomp.EACCES,
        (known.socketpair, seccomp.AF_UNIX, 0o2000001): seccomp.ALLOW,
        (known.socketpair, seccomp.AF_UNIX, 0o2000002): seccomp.EACCES,
        (known.clone, 0x1200011): seccomp.ALLOW,
        (known.clone, 0x10000011): seccomp.EPERM,
        (known.clone3,): seccomp.ENOSYS,
        (63,): seccomp.ALLOW,
        **{(number,): seccomp.EPERM for number in known.denied},
    }
    assert {call: decide(program, known.audit, *call) for call in calls} == calls
    assert decide(program, known.audit ^ 1, 63) == seccomp.KILL
    unix = build((seccomp.AF_UNIX,))
    assert decide(unix, known.audit, known.socketpair, seccomp.AF_UNIX, 2) == seccomp.ALLOW


def test_the_tables_of_all_processors_name_the_same_calls() -> None:
    tables = [table.split() for table in (seccomp._X86_64, seccomp._AARCH64)]
    names = [{entry.partition("=")[0] for entry in table} for table in tables]
    assert names[0] == names[1]


def test_a_rank_may_read_no_folder_in_which_the_checkout_lies() -> None:
    assert paths.exposing() is None
    assert not any(paths.CHECKOUT.is_relative_to(path.resolve()) for path in paths.readable())


def test_a_folder_that_nobody_can_measure_exceeds_every_quota(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(5000))
    assert not scratch.exceeds(tmp_path, 1 << 20)
    assert scratch.exceeds(tmp_path, 1 << 10)
    assert not scratch.exceeds(tmp_path / "absent", 1)


def test_the_default_limits_let_torch_be_imported(launcher: Launcher) -> None:
    source = "import subprocess, sys\ndef f(): subprocess.run([sys.executable, '-c', 'import torch'], check=True)\n"
    assert value(launcher, source, limits=replace(Limits(), timeout_s=LIMITS.timeout_s)) is None


def another_user_can_run_python() -> bool:
    """Return whether this is root with an interpreter that somebody else can reach."""
    folders = [folder for path in (sys.executable, os.__file__) for folder in Path(path).resolve().parents]
    return os.getuid() == 0 and all(folder.stat().st_mode & 0o001 for folder in folders)


if another_user_can_run_python():

    @pytest.mark.timeout(600)  # it holds all the others
    def test_all_of_this_holds_for_an_ordinary_user_too() -> None:
        """Root runs this file again as somebody else, for whom the kernel decides differently."""
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", str(Path(__file__).name)]
        place = {"cwd": Path(__file__).parent, "user": ORDINARY_USER, "group": ORDINARY_USER, "extra_groups": []}
        environment = {**os.environ, "HOME": "/nonexistent"}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=590, check=False, **place
        )
        assert done.returncode == 0, done.stdout[-3000:]
