"""Hidden checks of portable_checkpoint: the same ranks, others, training, then a power cut at every operation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from grader.judging import Group, Student, assert_close, assert_equal, check, tensor

SIZES = {"embedding": 7, "scale": 1, "embedding.exp_avg": 7, "head": 10}
WORLD = Group()
Files = dict[str, bytes]
Saved = dict[str, Any]  # whole tensors by name, and what is common to all ranks


def drawn(rng: np.random.Generator, step: int, sizes: dict[str, int] = SIZES) -> Saved:
    """Return a training run's state as one process would hold it."""
    common = {"step": step, "taken": 3 * step, "rng": rng.integers(256, size=16).astype(np.uint8)}
    return {"wholes": {name: rng.normal(size=size) for name, size in sizes.items()}} | common


def on_rank(run: Saved, rank: int, world_size: int, padding: float = 0.0) -> dict[str, Any]:
    """Return what a rank holds of it."""
    sizes, shards = {name: len(whole) for name, whole in run["wholes"].items()}, {}
    for name, size in sizes.items():
        length = -(-size // world_size)
        padded = np.append(run["wholes"][name], np.full(length * world_size - size, padding))
        shards[name] = tensor(padded[length * rank : length * (rank + 1)])
    return {"sizes": sizes, "shards": shards, "step": run["step"], "taken": run["taken"], "rng": tensor(run["rng"])}


def save(student: Student, runs: list[Saved], files: Files | None = None, world_size: int = 2) -> Any:
    """Save on ranks whose padding is garbage; return the files and the journal."""
    states = [([on_rank(run, rank, world_size, 1e300) for run in runs],) for rank in range(world_size)]
    return student.simulated("harness.saved", states, common=(files or {}, WORLD))[0].value


def assert_loads(student: Student, files: Files, run: Saved, world_size: int) -> None:
    """Load on ranks and compare all that each of them holds."""
    for result in student.simulated("harness.loaded", [([files],)] * world_size, common=(WORLD,)):
        [state], expected = result.value, on_rank(run, result.rank, world_size)
        where = f"rank {result.rank} of {world_size}: loaded"
        assert state is not None, f"{where} None, expected the checkpoint."
        assert_close(state["shards"], expected["shards"], f"{where} shards", atol=0.0)
        for name in ("sizes", "step", "taken", "rng"):
            assert_equal(state[name], expected[name], f"{where} {name}")


@check(hints=("Which of the five fields of State are in your file, and from which rank does each shard come?",))
def check_what_was_saved_comes_back(student: Student, rng: np.random.Generator) -> None:
    """Saved and loaded on two ranks, each has its shards again, and step, taken, rng and sizes."""
    run = drawn(rng, 4, {"weight": 8, "speed": 8})
    assert_loads(student, save(student, [run])[0], run, 2)


@check(
    hints=(
        "What in your file depends on how many ranks there were? Store whole tensors by name, without padding.",
        "On loading, pad each whole tensor with zeros and give rank r the r-th piece of shard_length elements.",
    )
)
def check_other_numbers_of_ranks_load(student: Student, rng: np.random.Generator) -> None:
    """Saved on two ranks, it loads on one, three and four: each holds its shard, with zeros in the padding."""
    run = drawn(rng, 4)
    files = save(student, [run])[0]
    for world_size in (1, 3, 4):
        assert_loads(student, files, run, world_size)


@check(hints=("Who needs whole tensors after loading? Scatter pieces, broadcast no file.",), judged_by="network")
def check_no_rank_receives_the_whole(student: Student, rng: np.random.Generator) -> None:
    """Ranks other than the first receive in one collective at most their longest shard and 16 kilobytes."""
    files = save(student, [drawn(rng, 1, {"weight": 30_000})])[0]
    for result in student.simulated("harness.loaded", [([files],)] * 3, common=(WORLD,))[1:]:
        for call in result.calls:
            n_bytes = math.prod(call.shape) * (8 if call.dtype.endswith("64") else 1)
            assert n_bytes <= 96_000, f"rank {result.rank} of 3: {call.op} of {n_bytes} bytes, expected at most 96000."


@check(hints=("Nine comes before ten, but not in the order of strings.", "Let one name be the newest's, by rename."))
def check_the_newest_is_loaded(student: Student, rng: np.random.Generator) -> None:
    """After saves at steps 8 to 11, and after a new job's save, the last one is loaded; with no files it is None."""
    runs = [drawn(rng, step) for step in (8, 9, 10, 11)]
    files = save(student, runs[:3])[0]
    assert_loads(student, files, runs[2], 1)
    assert_loads(student, save(student, runs[3:], files, 3)[0], runs[3], 2)
    [result] = student.simulated("harness.loaded", [([{}],)], common=(WORLD,))
    assert result.value == [None], "on an empty disk load does not return None."


@check(hints=("Compare all of State, bit by bit, before save and after load.",), guards="the whole way, on real ranks")
def check_training_continues(student: Student, rng: np.random.Generator) -> None:
    """On two real ranks a resumed run equals the uninterrupted one bit for bit; on any, no sample is seen twice."""
    common = (tensor(rng.normal(size=(24, 7))), tensor(rng.normal(size=24)), WORLD)
    whole, first = (student.ranks("harness.trained", [(None, n, 4)] * 2, common=common) for n in (12, 4))
    for world_size in (2, 1, 3):
        rest = student.simulated("harness.trained", [(first[0].value[2], 16, 0)] * world_size, common=common)
        seen = sorted(sample for result in [*first, *rest] for sample in result.value[1])
        assert seen == list(range(24)), f"resumed on {world_size} ranks: of 24 samples the epoch sees {seen}."
        for result, same in zip(rest, whole, strict=True) if world_size == 2 else ():
            where = f"rank {result.rank} of 2, after twelve steps: shards"
            assert_close(result.value[0]["shards"], same.value[0]["shards"], where, atol=0.0)


def survivors(files: Files, journal: list[Any], done: int, torn: float) -> Files:
    """Work out, from the journal of a rank's disk, what a power cut leaves; of unflushed files it is a part."""
    left, volatile = dict(files), set()
    for op, name, argument in journal[:done]:
        if op == "write":
            left[name] = argument
            volatile.add(name)
        elif op == "flush":
            volatile.discard(name)
        else:
            left[argument] = left.pop(name)
            volatile = {argument if one == name else one for one in volatile - {argument}}
    return {name: data[: int(torn * len(data))] if name in volatile else data for name, data in left.items()}


def assert_survives(student: Student, before: Saved | None, run: Saved) -> None:
    """Cut the power after every operation of a save, unflushed files torn in four ways, and load what is left."""
    files = {} if before is None else save(student, [before])[0]
    _, journal = save(student, [run], files)
    crashes = [(done, torn) for done in range(len(journal) + 1) for torn in (0.0, 0.4, 0.99, 1.0)]
    left = [survivors(files, journal, *crash) for crash in crashes]
    [result] = student.simulated("harness.loaded", [(left,)], common=(WORLD,))
    for (done, torn), state in zip(crashes, result.value, strict=True):
        allowed = {one and one["step"]: one and on_rank(one, 0, 1) for one in ([before] if done < len(journal) else [])}
        allowed[run["step"]] = on_rank(run, 0, 1)
        last = "nothing" if done == 0 else " ".join(journal[done - 1][:2])
        where = f"power cut after {done} of {len(journal)} operations ({last}; {torn:.0%} of unflushed files): load"
        got = state and state["step"]
        assert got in allowed, f"{where} gives step {got}, expected {' or '.join(map(str, allowed))}."
        if state is not None:
            assert_close(state["shards"], allowed[got]["shards"], f"{where} gives shards")


@check(
    hints=(
        "At which operation does the last good checkpoint cease to exist, and is the next one complete by then?",
        "Write under another name first; rename puts the complete file in the old one's place at one blow.",
        "write only tells the operating system, and rename takes the file as it is: flush before it, not after it.",
    )
)
def check_a_crash_leaves_a_good_checkpoint(student: Student, rng: np.random.Generator) -> None:
    """Whenever the power goes, the last checkpoint is loaded, or the new one; once save has returned, the new one."""
    assert_survives(student, drawn(rng, 10), drawn(rng, 11))
    assert_survives(student, None, drawn(rng, 1))
