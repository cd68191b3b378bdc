"""Whatever a submission does instead of answering becomes a failed check with a clear sentence."""

from __future__ import annotations

import pytest

from conftest import MakeStudent
from grader.errors import StudentFailure
from grader.launch import Launcher
from grader.records import Level

# source, what the sentence must contain
CASES = {
    "a syntax error": (
        "def f(x):\n    return (x\n",
        ["sample.py has a syntax error", "'(' was never closed", "line 2: return (x"],
    ),
    "a tab among spaces": ("def f(x):\n    if x:\n\treturn x\n", ["sample.py has a syntax error", "line 3"]),
    "nothing at all": ("\n", ["sample.py defines no function called f."]),
    "a misspelt function": ("def ff(x):\n    return x\n", ["called f.", "Did you mean ff?"]),
    "a value in the function's place": ("f = 3\n", ["sample.py has an int, not a function, called f."]),
    "too few parameters": (
        "def f():\n    return 1\n",
        ["f() cannot be called with 1 arguments", "too many positional"],
    ),
    "too many parameters": (
        "def f(x, y):\n    return 1\n",
        ["f(x, y) cannot be called", "missing a required argument: 'y'"],
    ),
    "an exception": (
        "def f(x):\n    return x / 0\n",
        ["f raised ZeroDivisionError: division by zero", "line 2: return x / 0"],
    ),
    "an exception deeper down": (
        "def g(x):\n    return [][x]\ndef f(x):\n    return g(x)\n",
        ["f raised IndexError", "line 2, in g: return [][x]"],
    ),
    "an exception that cannot be shown": (
        "class E(Exception):\n    def __str__(self): raise E\ndef f(x):\n    raise E\n",
        ["f raised E: (its message could not be shown)"],
    ),
    "an import that fails": (
        "import pandas_\ndef f(x): return x\n",
        ["could not be loaded", "No module named 'pandas_'", "line 1"],
    ),
    "exit at import": ("exit()\n", ["ended itself while it was loaded", 'if __name__ == "__main__":']),
    "sys.exit in the call": ("import sys\ndef f(x):\n    sys.exit(0)\n", ["f raised SystemExit: 0", "line 3"]),
    "os._exit in the call": (
        "import os\ndef f(x):\n    os._exit(0)\n",
        ["ended the Python process before it answered"],
    ),
    "os._exit at import": ("import os\nos._exit(0)\n", ["ended the Python process", "while it was loaded"]),
    "a KeyboardInterrupt": ("def f(x):\n    raise KeyboardInterrupt\n", ["f raised KeyboardInterrupt"]),
    "reading the keyboard": ("\ndef f(x):\n    return input()\n", ["f raised EOFError", "line 3"]),
    "an endless loop": (
        "def f(x):\n    while True:\n        pass\n",
        ["did not return within 2 s", "still computing at line"],
    ),
    "an endless loop at import": (
        "while True:\n    pass\n",
        ["still being loaded after 2 s", 'if __name__ == "__main__":'],
    ),
    "endless recursion": ("def f(x):\n    return f(x)\n", ["f raised RecursionError", "line 2"]),
    "an object": (
        "class E:\n    pass\ndef f(x):\n    return E()\n",
        ["f returned a sample.E object. It may return numbers"],
    ),
    "an object in a list": ("def f(x):\n    return [1, {'a': f}]\n", ["f returned a builtins.function object"]),
    "a generator": ("def f(x):\n    yield x\n", ["f returned a builtins.generator object"]),
    "a list in itself": ("def f(x):\n    l = []\n    l.append(l)\n    return l\n", ["nested more than"]),
    "a million parts": ("def f(x):\n    return list(range(10**6))\n", ["cannot be sent back", "bytes of structure"]),
    "a sparse tensor": (
        "import torch\ndef f(x):\n    return torch.eye(3).to_sparse()\n",
        ["float32 tensor of layout torch.sparse"],
    ),
    "a memory hog": ("def f(x):\n    return len(bytearray(10**13))\n", ["f raised MemoryError", "line 2"]),
    "a memory leak": (
        "def f(x):\n    l = []\n    while True:\n        l.append(bytearray(10**8))\n",
        ["MemoryError", "line 4"],
    ),
    "an output flood": ("def f(x):\n    while True:\n        print('x' * 10**6)\n", ["printed more than 16 MiB"]),
    "a stack overflow in C": (
        "import ctypes\ndef f(x):\n    ctypes.string_at(0)\n",
        ["process was ended by SIGSEGV", "at line 3: ctypes.string_at(0)"],
    ),
    "junk on the channel": (
        "import os\ndef f(x):\n    os.write(3, b'junk' * 99)\n    while True: pass\n",
        ["Your code sent a broken answer"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_way_not_to_answer_has_its_sentence(student_of: MakeStudent, name: str) -> None:
    """The fact, the place in the student's own file, and where there is one, the way out."""
    source, words = CASES[name]
    student = student_of(source, timeout_s=2.0 if "loop" in name else 20.0, memory_bytes=2 << 30)
    with pytest.raises(StudentFailure) as caught:
        student.call("f", 1)
    for word in words:
        assert word in caught.value.message
    assert "/" not in caught.value.message.replace("x / 0", ""), "no path of ours is shown"
    assert len(caught.value.message) < 1500


ACCEPTED = {
    "carriage returns": b"def f(x):\r\n    return x + 1\r\n",
    "a byte order mark": b"\xef\xbb\xbfdef f(x):\n    return x + 1\n",
    "debugging prints": b"print('hello')\ndef f(x):\n    print(x)\n    return x + 1\n",
    "patched builtins": b"import builtins\nbuiltins.isinstance = lambda *a: True\ndef f(x):\n    return x + 1\n",
    "a closed stdout": b"import sys\nsys.stdout.close()\ndef f(x):\n    return x + 1\n",
    "no stdout": b"import sys\nsys.stdout = None\ndef f(x):\n    return x + 1\n",
    "a changed folder": b"import os\nos.chdir('/')\ndef f(x):\n    return x + 1\n",
    "a fork": b"import os, time\ndef f(x):\n    os.fork() or time.sleep(60)\n    return x + 1\n",
    "a thread": b"from threading import *\ndef f(x):\n    Thread(target=Event().wait).start()\n    return x + 1\n",
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_odd_but_right_submission_passes(student_of: MakeStudent, name: str) -> None:
    """None of this is the student's mistake, or not one that this exercise is about."""
    student = student_of(ACCEPTED[name])
    assert student.call("f", 1).value == 2


def test_output_is_kept_from_both_ends_and_the_cut_is_announced(student_of: MakeStudent) -> None:
    """The first lines and the last ones are what a person looks for."""
    student = student_of("def f(x):\n    for i in range(10**5):\n        print(i)\n    return 1\n")
    student.call("f", 1)
    student.close()
    (output,) = student.outputs
    assert output.startswith("0\n1\n")
    assert output.endswith("99999\n")
    assert "bytes left out" in output
    assert len(output) < 70_000


def test_a_single_process_keeps_its_state_within_one_check(student_of: MakeStudent) -> None:
    """As in a program that calls a function twice; another check gets a process of its own."""
    source = "count = 0\ndef f(x):\n    global count\n    count += 1\n    return count\n"
    student = student_of(source)
    assert [student.call("f", 0).value for _ in range(3)] == [1, 2, 3]
    assert student_of(source).call("f", 0).value == 1


def test_random_state_is_the_same_for_the_same_seed_and_another_on_every_rank(student_of: MakeStudent) -> None:
    """Python's, numpy's and torch's generators all start from the check's seed and the rank."""
    source = "import random, numpy, torch\ndef f():\n"
    source += "    return [random.random(), numpy.random.rand(), torch.rand(()).item()]\n"
    first, again = (student_of(source).simulated("f", [()] * 2) for _ in range(2))
    other = student_of(source, seed=8).simulated("f", [()] * 2)
    assert [r.value for r in first] == [r.value for r in again]
    draws = [value for result in (*first, *other) for value in result.value]
    assert len(set(draws)) == len(draws)


def test_simulated_ranks_have_nothing_in_common_but_the_network(student_of: MakeStudent, launcher: Launcher) -> None:
    """A file, shared memory or a socket would carry bytes that no check counts; each may write files of its own."""
    source = """
import os, socket, tempfile
from pathlib import Path
def f(rank):
    tried = {}
    others = {"neighbour": f"../rank{1 - rank}/note", "above": "../note", "memory": "/dev/shm/note", "tmp": "/tmp/note"}
    for name, path in {**others, "own": "note", "own tmp": os.path.join(tempfile.gettempdir(), "note")}.items():
        try:
            tried[name] = Path(path).write_text("bytes") and "written"
        except OSError as error:
            tried[name] = "refused"
    try:
        socket.socket()
        tried["socket"] = "written"
    except OSError as error:
        tried["socket"] = "refused"
    return tried
"""
    refused = dict.fromkeys(("neighbour", "above", "memory", "tmp", "socket"), "refused")
    for result in student_of(source).simulated("f", [(0,), (1,)]):
        assert {name: result.value[name] for name in ("own", "own tmp")} == {"own": "written", "own tmp": "written"}
        assert {name: result.value[name] for name in refused} == refused or launcher.level is Level.B0
