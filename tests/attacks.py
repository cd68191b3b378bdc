"""Hostile submissions: each tries to be believed without the right answer, or to touch what is not its own.

The exercise wants `f(x)`, the sum of an array, and `g(x, group)`, the mean over the ranks. None of these computes
either. `{victim}` is a file outside that must stay as it is, `{port}` a listener on loopback that nobody may reach,
`{pid}` the trusted process.
"""

from __future__ import annotations

WRONG = "\ndef f(x):\n    return 0.0\ndef g(x, group):\n    return x\n"

LYING_VALUES = {
    "V01 equal to everything": """
class E:
    def __eq__(self, other): return True
    def __rsub__(self, other): return 0
    def __abs__(self): return 0
    def __lt__(self, other): return True
    def __le__(self, other): return True
    def __float__(self): return 0.0
def f(x): return E()
""",
    "V03 a tensor subclass that answers for itself": """
import torch
class T(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None): return True
def f(x): return torch.zeros(()).as_subclass(T)
""",
    "V04 a float subclass": """
class F(float):
    def __eq__(self, other): return True
    def __sub__(self, other): return 0.0
    __rsub__ = __sub__
def f(x): return F(0)
""",
    "V05 patched comparisons": """
import builtins, numpy, numpy.testing
numpy.testing.assert_allclose = numpy.allclose = numpy.array_equal = lambda *a, **k: True
builtins.abs = lambda x: 0
def f(x): return 0.0
""",
    "V05 patched pytest and grader": """
import sys
for module in list(sys.modules.values()):
    for name in ("assert_close", "assert_equal", "differs", "judge", "decode", "outcome_of"):
        if hasattr(module, name): setattr(module, name, lambda *a, **k: None)
def f(x): return 0.0
""",
    "V07 an empty array": "import numpy\ndef f(x): return numpy.empty(0)\n",
    "V07 an array that broadcasts": "def f(x): return x\n",
    "V08 not a number": "def f(x): return float('nan')\n",
    "V12 a generator": "def f(x): yield sum(x)\n",
    "V12 a function": "def f(x): return lambda: sum(x)\n",
    "V18 the exception of a check": "def f(x): raise AssertionError\n",
    "X05 the exit of pytest": "import pytest\ndef f(x): pytest.exit('', 0)\n",
    "X06 the skip of pytest": "import pytest\ndef f(x): pytest.skip('')\n",
    "X06 the skip of unittest": "import unittest\ndef f(x): raise unittest.SkipTest\n",
    "N05 a pickle with a surprise": """
class P:
    def __reduce__(self): return (open, ("{victim}", "w"))
def f(x): return P()
""",
}

FORGED_FRAMES = {
    "a second answer": """
import msgpack, os, struct
def frame(message):
    body = msgpack.packb(message)
    return struct.pack("<IQ", len(body), 0) + body
def f(x):
    for guess in (0.0, 1.0, 2.0):
        os.write(3, frame({"is": "returned", "value": guess, "arguments": []}))
    return 0.0
""",
    "an answer before the question": """
import msgpack, os, struct
body = msgpack.packb({"is": "returned", "value": 0.0, "arguments": []})
os.write(3, struct.pack("<IQ", len(body), 0) + body)
def f(x): return 0.0
""",
    "a verdict": """
import msgpack, os, struct
body = msgpack.packb({"is": "passed"})
os.write(3, struct.pack("<IQ", len(body), 0) + body)
def f(x): return 0.0
""",
    "a giant length": "import os\nos.write(3, b'\\xff' * 64)\n" + WRONG,
    "half a frame": "import os, struct\nos.write(3, struct.pack('<IQ', 100, 0))\n" + WRONG,
    "every file descriptor": """
import os
for fd in range(3, 256):
    try: os.write(fd, b'ready')
    except OSError: pass
"""
    + WRONG,
}

SPYING = {
    "S01 frames of the caller": """
import sys
def f(x):
    frame, seen = sys._getframe(), []
    while frame:
        seen.append(str(frame.f_locals)); frame = frame.f_back
    raise ValueError("".join(seen)[-1500:])
""",
    "S02 everything in memory": """
import gc
def f(x):
    found = [o for o in gc.get_objects() if isinstance(o, dict) and any("CANARY" in str(k) for k in o)]
    raise ValueError(str(found)[:1500] + str([m for m in __import__("sys").modules if "check" in m])[:300])
""",
    "S03 the checks on disk": """
import os
def f(x):
    found = []
    for root in ("{folder}", "/proc/{pid}/cwd", "/proc/self/cwd/..", os.path.dirname("{folder}")):
        for base, _, names in os.walk(root):
            for name in names:
                if name.endswith("checks.py"):
                    try: found.append(open(os.path.join(base, name)).read())
                    except OSError: pass
    raise ValueError("".join(found)[:1900])
""",
    "S04 the memory of the trusted process": """
def f(x):
    data = open("/proc/{pid}/mem", "rb")
    data.seek(0x400000)
    raise ValueError(repr(data.read(1000)))
""",
    "S05 the environment of every process": """
import glob
def f(x):
    found = ""
    for path in glob.glob("/proc/[0-9]*/environ"):
        try: found += open(path, "rb").read().decode("utf-8", "replace")
        except OSError: pass
    raise ValueError(found[found.find("CANARY") - 20:][:500])
""",
    "S06 keys in the home folder": """
import os, pwd
def f(x):
    home = pwd.getpwuid(os.getuid()).pw_dir
    raise ValueError(str(os.listdir(home)))
""",
}

TOUCHING = {
    "W01 write over the results": "open('{victim}', 'w').write('forged')\n" + WRONG,
    "W01 write at exit and from a thread": """
import atexit, threading
def forge(): open("{victim}", "w").write("forged")
atexit.register(forge)
threading.Timer(0.01, forge).start()
"""
    + WRONG,
    "W02 a daemon that writes later": """
import os, time
if os.fork() == 0:
    try: os.setsid()
    except OSError: pass
    if os.fork() == 0:
        time.sleep(0.2)
        open("{victim}", "w").write("forged")
        time.sleep(60)
    os._exit(0)
"""
    + WRONG,
    "W04 poison the packages": """
import numpy, os
open(os.path.join(os.path.dirname(numpy.__file__), "..", "zz.pth"), "w").write("import os")
"""
    + WRONG,
    "W05 delete the exercise": """
import shutil
shutil.rmtree("{folder}")
"""
    + WRONG,
    "W06 processes without end": """
import os
try:
    for _ in range(300):
        if os.fork() == 0:
            __import__("time").sleep(60)
except OSError: pass
"""
    + WRONG,
    "W08 a full disk": """
with open("big", "wb") as file:
    while True: file.write(bytes(1 << 20))
"""
    + WRONG,
    "N01 TCP": "import socket\nsocket.create_connection(('127.0.0.1', {port}), 1).send(b'secret')\n" + WRONG,
    "N01 UDP": "import socket\nsocket.socket(2, 2).sendto(b'secret', ('127.0.0.1', {port}))\n" + WRONG,
    "N02 another user": "import os\nos.setuid(0); os.setgid(0); open('{victim}', 'w').write('forged')\n" + WRONG,
    "kill the trusted process": """
import os, signal
for pid in ({pid}, os.getppid(), -1):
    try: os.kill(pid, signal.SIGKILL)
    except OSError: pass
"""
    + WRONG,
    "kill everything there is": """
import glob, os, signal
for path in glob.glob("/proc/[0-9]*"):
    pid = int(path[6:])
    try:
        if pid != os.getpid(): os.kill(pid, signal.SIGKILL)
    except OSError: pass
"""
    + WRONG,
}

ON_RANKS = {
    "one rank computes for all through a file": """
import time, torch.distributed as dist
from pathlib import Path
def g(x, group):
    try: Path(f"part{dist.get_rank()}").write_text(str(x.tolist()))
    except OSError: pass
    time.sleep(0.05)
    return x
""",
    "a forged count": """
import torch.distributed as dist
from grader.ranks import operations
operations.Operation.payload_bytes = property(lambda self: 0)
def g(x, group):
    for _ in range(3): dist.all_reduce(x, group=group)
    return x
""",
    "an operation that nobody began": """
import msgpack, os, struct
body = msgpack.packb({"is": "wait", "n": 7, "line": 0})
def g(x, group):
    os.write(3, struct.pack("<IQ", len(body), 0) + body)
    return x
""",
    "a group of strangers": """
import msgpack, os, struct
post = {"is": "post", "n": 0, "op": "all_reduce", "group": [0, 1, 99], "reduce": "sum", "shape": [2], "dtype": "f"}
body = msgpack.packb(post)
def g(x, group):
    os.write(3, struct.pack("<IQ", len(body), 0) + body)
    return x
""",
    "one rank kills the other": """
import glob, os, signal
def g(x, group):
    for path in glob.glob("/proc/[0-9]*"):
        try:
            if int(path[6:]) != os.getpid(): os.kill(int(path[6:]), signal.SIGKILL)
        except OSError: pass
    return x
""",
    "posts without end": """
import torch, torch.distributed as dist
def g(x, group):
    while True: dist.all_reduce(x, group=group, async_op=True)
""",
}

ATTACKS = LYING_VALUES | FORGED_FRAMES | SPYING | TOUCHING | ON_RANKS
