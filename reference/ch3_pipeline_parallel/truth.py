"""What the picture of chapter 3 shows: schedules, when each piece of work happens, and what is held meanwhile.

No check imports this. `tests/test_playground_truth.py` compares it with the references at random settings. Work is
written as in torch.distributed.pipelining: `2F0` forward of micro-batch 0 through stage 2, `2B0` its backward; here
`2I0` and `2W0` stand for the two halves of a backward that is split: gradients of the input, and of the weights.
"""

from __future__ import annotations

import re
from typing import Any

SCHEDULES = ("GPipe", "1F1B", "interleaved", "ZB-H1")
Action = tuple[int, str, int]  # stage, kind, micro-batch


def pipeline(
    schedule: str, ranks: int, micro_batches: int, chunks: int, forward_ms: float, input_ms: float, weight_ms: float,
    latency_ms: float, warm_up: int,
) -> dict[str, Any]:  # fmt: skip
    """Return a schedule played: `warm_up` is how many forwards more (or fewer) than right 1F1B warms up with."""
    times = {"F": forward_ms, "I": input_ms, "W": weight_ms, "B": input_ms + weight_ms}
    v = chunks if schedule == "interleaved" else 1
    m = -(-micro_batches // ranks) * ranks if v > 1 else micro_batches  # chunks take turns in groups of `ranks`
    rows = {
        "GPipe": lambda: [_gpipe(rank, m) for rank in range(ranks)],
        "1F1B": lambda: [_one_f_one_b(rank, ranks, m, warm_up) for rank in range(ranks)],
        "interleaved": lambda: [_interleaved(rank, ranks, m, v) for rank in range(ranks)],
        "ZB-H1": lambda: _zero_bubble(ranks, m, times, latency_ms),
    }[schedule]()
    return _played(rows, ranks, ranks * v, times, latency_ms, m)


def played(
    rows: str, ranks: int, micro_batches: int, forward_ms: float, input_ms: float, weight_ms: float, latency_ms: float
) -> dict[str, Any]:
    """Return somebody's lists played: `rows` has one list a rank, between semicolons."""
    times = {"F": forward_ms, "B": input_ms + weight_ms}
    lists = [[_read(each) for each in row.split()] for row in rows.split(";")]
    return _played(lists, ranks, ranks, times, latency_ms, micro_batches)


def _read(text: str) -> Action:
    stage, kind, micro_batch = re.fullmatch(r"(\d+)([FB])(\d+)", text).groups()  # type: ignore[union-attr]  # checked before
    return int(stage), kind, int(micro_batch)


def _gpipe(rank: int, m: int) -> list[Action]:
    return [(rank, "F", i) for i in range(m)] + [(rank, "B", i) for i in range(m)]


def _one_f_one_b(rank: int, ranks: int, m: int, more: int) -> list[Action]:
    first = min(max(ranks - 1 - rank + more, 0), m)
    row: list[Action] = [(rank, "F", i) for i in range(first)]
    for i in range(first, m):
        row += [(rank, "F", i), (rank, "B", i - first)]
    return row + [(rank, "B", i) for i in range(m - first, m)]


def _interleaved(rank: int, ranks: int, m: int, v: int) -> list[Action]:
    """Take chunks in turns of `ranks` micro-batches, backward in the opposite order of chunks."""

    def nth(k: int, kind: str) -> Action:
        chunk = k % (ranks * v) // ranks
        stage = (v - 1 - chunk if kind == "B" else chunk) * ranks + rank
        return stage, kind, k // (ranks * v) * ranks + k % ranks

    total = m * v
    first = min(total, (ranks - 1 - rank) * (2 if v > 1 else 1) + (v - 1) * ranks)
    row = [nth(k, "F") for k in range(first)]
    for k in range(first, total):
        row += [nth(k, "F"), nth(k - first, "B")]
    return row + [nth(k, "B") for k in range(total - first, total)]


def _zero_bubble(ranks: int, m: int, times: dict[str, float], latency: float) -> list[list[Action]]:
    """Let each rank do 1F1B with the input's half only, and the weights' half where it would wait or hold too much."""
    rows: list[list[Action]] = [[] for _ in range(ranks)]
    todo = [[(s, "I" if kind == "B" else kind, i) for s, kind, i in _one_f_one_b(s, ranks, m, 0)] for s in range(ranks)]
    owed: list[list[int]] = [[] for _ in range(ranks)]
    ended: dict[Action, float] = {}
    clocks = [0.0] * ranks
    while any(todo) or any(owed):
        best: tuple[float, int, Action] | None = None
        for rank in range(ranks):
            choice = _next(rank, todo[rank], owed[rank], ended, clocks[rank], ranks, latency)
            if choice is not None and (best is None or choice[0] < best[0]):
                best = (choice[0], rank, choice[1])
        if best is None:
            break
        start, rank, action = best
        rows[rank].append(action)
        clocks[rank] = ended[action] = start + times[action[1]]
        if action[1] == "W":
            owed[rank].remove(action[2])
            continue
        todo[rank].pop(0)
        if action[1] == "I":
            owed[rank].append(action[2])
    return rows


def _next(
    rank: int, todo: list[Action], owed: list[int], ended: dict[Action, float], clock: float, ranks: int, latency: float
) -> tuple[float, Action] | None:
    """Return what a rank does next and when: its list, but a weights' half first if that costs the list nothing."""
    weights = (clock, (rank, "W", owed[0])) if owed else None
    if not todo:
        return weights
    needs = _needs(todo[0], ranks)
    ready = max((ended.get(need, float("inf")) + (latency if need[0] != rank else 0) for need in needs), default=0.0)
    held = sum((rank, "F", i) in ended and (rank, "W", i) not in ended for i in range(len(ended)))
    is_full = todo[0][1] == "F" and held >= ranks
    if weights is not None and (is_full or ready > clock + 1e-9):
        return weights
    return None if ready == float("inf") or is_full else (max(clock, ready), todo[0])


def _needs(action: Action, stages: int) -> list[Action]:
    stage, kind, i = action
    if kind == "F":
        return [(stage - 1, "F", i)] if stage else []
    if kind == "W":
        return [(stage, "I", i)]
    return [(stage, "F", i)] + ([(stage + 1, kind, i)] if stage + 1 < stages else [])


def _played(
    rows: list[list[Action]], ranks: int, stages: int, times: dict[str, float], latency: float, m: int
) -> dict[str, Any]:
    """Let every rank do its list in order, each piece as soon as what it needs has arrived."""
    share = ranks / stages  # a chunk is so much of a stage
    owner = {action: rank for rank, row in enumerate(rows) for action in row}
    ended: dict[Action, float] = {}
    places, clocks = [0] * ranks, [0.0] * ranks
    blocks: list[list[Any]] = []
    moving = True
    while moving:
        moving = False
        for rank, row in enumerate(rows):
            while places[rank] < len(row) and all(need in ended for need in _needs(row[places[rank]], stages)):
                action = row[places[rank]]
                came = [ended[need] + (latency if owner[need] != rank else 0) for need in _needs(action, stages)]
                start = max([clocks[rank], *came])
                clocks[rank] = ended[action] = start + times[action[1]] * share
                blocks.append([rank, start, clocks[rank], action[1], action[2], action[0]])
                places[rank] += 1
                moving = True
    waits = []
    for rank, row in enumerate(rows):
        if places[rank] < len(row):
            action = row[places[rank]]
            need = next(each for each in _needs(action, stages) if each not in ended)
            waits.append([rank, owner.get(need), _name(action), _name(need), clocks[rank]])
    length, work = max(clocks), m * (times["F"] + times["B"])
    return {
        "ranks": ranks,
        "blocks": blocks,
        "length": length,
        "work": work,
        "bubble_over_ideal": (length - work) / work if work else 0.0,
        "bubble_over_total": (length - work) / length if length else 0.0,
        "waits": waits,
        "held": [_held(blocks, rank, share) for rank in range(ranks)],
        "peaks": [max(count for _, count in _held(blocks, rank, share)) for rank in range(ranks)],
        "micro_batches": m,
    }


def _name(action: Action) -> str:
    return "".join(map(str, action))


def _held(blocks: list[list[Any]], rank: int, share: float) -> list[tuple[float, float]]:
    """Return (time, micro-batches' activations held by a rank), changing where a forward begins or a backward ends."""
    is_split = any(kind == "W" for _, _, _, kind, _, _ in blocks)
    changes = [(start, share) for r, start, _, kind, _, _ in blocks if r == rank and kind == "F"]
    changes += [(end, -share) for r, _, end, kind, _, _ in blocks if r == rank and kind == ("W" if is_split else "B")]
    at_once: dict[float, float] = {0.0: 0.0}
    for time, change in changes:
        at_once[round(time, 9)] = at_once.get(round(time, 9), 0.0) + change
    steps, now = [], 0.0
    for time, change in sorted(at_once.items()):
        now += change
        steps.append((time, round(now, 9)))
    return steps
