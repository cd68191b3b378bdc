"""A hang is a sentence, soon: on both transports it says which rank waits where, and where the others are."""

from __future__ import annotations

import time

import numpy as np
import pytest

from conftest import MakeStudent
from grader.errors import StudentFailure
from grader.judging import Group, tensor

# function, ranks, group, kind, what the sentences must contain
CASES = [
    (
        "leaves_early",
        2,
        None,
        "deadlock",
        ["rank 0 has returned", "rank 1 waits in all_reduce", "at line 13: dist.all"],
    ),
    ("leaves_early", 3, None, "deadlock", ["rank 0 has returned", "rank 1 waits in", "rank 2 waits in"]),
    (
        "calls_another",
        2,
        None,
        "mismatch",
        ["rank 0 called all_reduce", "rank 1 called broadcast", "line 18", "line 20"],
    ),
    ("brings_another_shape", 2, None, "mismatch", ["float32 [2]", "float32 [3]", "line 24"]),
    ("brings_another_dtype", 2, None, "mismatch", ["int32 [2]", "float32 [2]", "line 28"]),
    (
        "sends_to_each_other",
        2,
        None,
        "deadlock",
        ["rank 0 waits in send", "to rank 1", "rank 1 waits in send", "line 33"],
    ),
    ("sends_to_each_other", 3, None, "deadlock", ["rank 2 waits in send", "to rank 0"]),
    ("loops", 2, None, "timeout", ["rank 0 waits in all_reduce", "rank 1 was still computing at line"]),
    ("dies", 2, None, "died", ["rank 1: Your code's process was ended by SIGKILL", "during dies"]),
    ("crashes", 2, None, "died", ["rank 1: Your code's process was ended by SIGSEGV", "at line 51"]),
    ("never_calls", 2, None, "timeout", ["rank 1 was still computing at line 59: time.sleep(60)"]),
    ("names_a_source_outside", 3, (0, 1), "raised", ["ValueError", "line 65"]),
    ("raises_alone", 2, None, "raised", ["rank 1: raises_alone raised KeyError: 'momentum'", "line 71"]),
    ("waits_for_the_wrong_one", 3, None, "deadlock", ["rank 0 waits in recv", "from rank 2", "rank 1 waits in send"]),
    ("exits", 2, None, "died", ["rank 1: Your code ended the Python process before it answered (exit code 0)"]),
]


@pytest.mark.parametrize("verb", ["simulated", "ranks"])
@pytest.mark.parametrize(
    ("function", "world_size", "group", "kind", "words"), CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES]
)
def test_each_kind_of_hang_is_explained(
    student_of: MakeStudent,
    verb: str,
    function: str,
    world_size: int,
    group: tuple[int, ...] | None,
    kind: str,
    words: list[str],
) -> None:
    """The same file, the same words, whether the ranks are simulated or real."""
    student = student_of("hangs", timeout_s=2.0)
    with pytest.raises(StudentFailure) as caught:
        getattr(student, verb)(function, [(tensor(np.ones(2)), Group(group))] * world_size)
    assert caught.value.kind == kind, caught.value.message
    for word in words:
        assert word in caught.value.message


@pytest.mark.parametrize("verb", ["simulated", "ranks"])
def test_a_deadlock_does_not_wait_for_the_deadline(student_of: MakeStudent, verb: str) -> None:
    """The limit is a minute here, the verdict takes seconds even on a busy machine."""
    begun = time.monotonic()
    with pytest.raises(StudentFailure, match="Deadlock"):
        getattr(student_of("hangs", timeout_s=60.0), verb)("leaves_early", [(tensor(np.ones(2)), Group())] * 2)
    assert time.monotonic() - begun < 20


def test_an_operation_without_wait_leaves_nan_on_the_simulated_network(student_of: MakeStudent) -> None:
    """Reading a buffer in flight is a race on real hardware; here it always shows."""
    results = student_of("hangs").simulated("forgets_to_wait", [(tensor(np.ones(2)), Group())] * 2)
    assert all(np.isnan(result.value.array).all() for result in results)
