"""Read, run and draw pipeline schedules: which rank computes what, in which order, and where it stops.

A schedule holds a list of strings for each rank. `2F0` is the forward of micro-batch 0 through stage 2 and `2B0` its
backward, as torch.distributed.pipelining writes them. A forward needs the forward of the stage before; a backward
needs its own forward and the backward of the stage after. Everything here is a pure function of such lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Row = Sequence[str]
Cells = Sequence[Mapping[int, str]]  # for each rank: column -> text
Place = tuple[int, int]  # rank and column

ACTION = re.compile(r"(\d{1,4})([FB])(\d{1,4})")
STANDING = re.compile(r"rank (\d+) waits in i?(send|recv) \(.*?(?:to|from) rank (\d+)")
GRID_CHARS = 76  # a terminal of 80, less the margin of a report
SLOTS = {"F": 1, "B": 1}


class Action(NamedTuple):
    """Name one piece of work: stage, kind (`F` or `B`), micro-batch."""

    stage: int
    kind: str
    micro_batch: int

    def __str__(self) -> str:
        """Return it as a schedule writes it."""
        return f"{self.stage}{self.kind}{self.micro_batch}"


@dataclass(frozen=True)
class Wait:
    """Say at which action a rank stands, what that needs first, and which rank has it (None: no rank)."""

    at: str
    needs: str
    rank: int | None


@dataclass(frozen=True)
class Run:
    """Hold when each rank's actions began, as far as it came, and for whom the others wait."""

    starts: tuple[tuple[float, ...], ...]
    end: float
    waits: Mapping[int, Wait]  # empty if every list was finished


def read(text: object) -> Action | None:
    """Return the action that a text names, None if it names none."""
    found = ACTION.fullmatch(text) if isinstance(text, str) else None
    return Action(int(found[1]), found[2], int(found[3])) if found else None


def needs(action: Action, last_stage: int) -> Iterator[Action]:
    """Yield what has to be done before an action."""
    stage, kind, micro_batch = action
    if kind == "B":
        yield Action(stage, "F", micro_batch)
        if stage < last_stage:
            yield Action(stage + 1, "B", micro_batch)
    elif stage > 0:
        yield Action(stage - 1, "F", micro_batch)


def first_fault(row: Row, stage: int, micro_batches: int) -> tuple[int, str] | None:
    """Return the first wrong place in the list of one stage and why it is wrong, None if nothing is.

    The list must hold each forward and each backward once, either kind in the order of the micro-batches, and no
    backward before its forward.
    """
    next_of = {"F": 0, "B": 0}
    for place, text in enumerate(row):
        action = read(text)
        if action is None:
            return place, f"{text!r:.40} is no action; write such as '{stage}F0' or '{stage}B0'"
        if why := _fault(action, stage, micro_batches, next_of):
            return place, f"{action} {why}"
        next_of[action.kind] += 1
    missing = next((f"{stage}{kind}{due}" for kind, due in next_of.items() if due < micro_batches), None)
    return (len(row), f"the list ends without {missing}") if missing else None


def _fault(action: Action, stage: int, micro_batches: int, next_of: Mapping[str, int]) -> str:
    """Return why an action cannot stand where the next forward and backward are those in `next_of`, "" if it can."""
    due = next_of[action.kind]
    if action.stage != stage:
        return f"is work of stage {action.stage}, in the list of stage {stage}"
    if action.micro_batch >= micro_batches:
        return f"is work on a micro-batch that is not there: they are 0 to {micro_batches - 1}"
    if action.micro_batch != due:
        return f"stands where {stage}{action.kind}{due} is due" if due < micro_batches else "stands here a second time"
    if action.kind == "B" and due >= next_of["F"]:
        return f"stands before its forward {stage}F{due}"
    return ""


def in_flight(row: Row) -> list[int]:
    """Return, after each action of a list, how many forwards still wait for their backward."""
    counts, now = [], 0
    for action in map(read, row):
        now += 0 if action is None else 1 if action.kind == "F" else -1
        counts.append(now)
    return counts


def run(rows: Sequence[Row], slots: Mapping[str, float] = SLOTS) -> Run:
    """Let every rank do its list in order, each action as soon as what it needs is done; messages take no time."""
    lists = [[action for action in map(read, row) if action] for row in rows]
    owner = {action: rank for rank, row in enumerate(lists) for action in row}
    last_stage = max((action.stage for action in owner), default=0)
    ended: dict[Action, float] = {}
    starts: list[list[float]] = [[] for _ in rows]
    clocks = [0.0] * len(rows)
    moving = True
    while moving:
        moving = False
        for rank, row in enumerate(lists):
            while len(starts[rank]) < len(row) and all(n in ended for n in needs(row[len(starts[rank])], last_stage)):
                action = row[len(starts[rank])]
                start = max([clocks[rank], *(ended[need] for need in needs(action, last_stage))])
                starts[rank].append(start)
                clocks[rank] = ended[action] = start + slots[action.kind]
                moving = True
    waits = {}
    for rank, row in enumerate(lists):
        if len(starts[rank]) < len(row):
            at = row[len(starts[rank])]
            need = next(need for need in needs(at, last_stage) if need not in ended)
            waits[rank] = Wait(str(at), str(need), owner.get(need))
    return Run(tuple(map(tuple, starts)), max(clocks, default=0.0), waits)


def by_place(rows: Sequence[Row]) -> Cells:
    """Return the cells of a grid whose columns are places in the lists."""
    return [dict(enumerate(map(str, row))) for row in rows]


def by_time(rows: Sequence[Row], done: Run) -> Cells:
    """Return the cells of a grid whose columns are time; what a rank waits to do stands after what it has done."""
    cells = []
    for rank, (row, starts) in enumerate(zip(rows, done.starts, strict=True)):
        cells.append({int(start): text for text, start in zip(row, starts, strict=False)})
        if rank in done.waits:
            cells[rank][stuck_column(done, rank)] = done.waits[rank].at
    return cells


def stuck_column(done: Run, rank: int) -> int:
    """Return the column in which `by_time` shows what a rank waits to do."""
    return int(done.starts[rank][-1]) + 1 if done.starts[rank] else 0


def draw(cells: Cells, marked: Iterable[Place] = (), heading: str = "time") -> str:
    """Return a grid, one line a rank; marked cells stand between > and <, and a wide grid is cut around the first."""
    marks = set(marked)
    shown = [
        {column: f">{text:.8}<" if (rank, column) in marks else f"{text:.8}" for column, text in row.items()}
        for rank, row in enumerate(cells)
    ]
    columns = 1 + max((column for row in cells for column in row), default=0)
    width = 1 + max((len(text) for row in shown for text in row.values()), default=1)
    label_chars = max(len(heading), len(f"rank {len(cells) - 1}")) + 2
    room = max(1, (GRID_CHARS - label_chars) // width)
    focus = min((column for _, column in marks), default=0)
    first = max(0, min(focus - room // 2, columns - room))
    window = range(first, min(columns, first + room))
    lines = [f"{heading:<{label_chars}}" + "".join(f"{column:^{width}}" for column in window)]
    for rank, row in enumerate(shown):
        filler = {column: "" if column > max(row, default=-1) else "." for column in window}
        texts = (row.get(column, filler[column]) for column in window)
        lines.append(f"{f'rank {rank}':<{label_chars}}" + "".join(f"{text:^{width}}" for text in texts))
    return "\n".join(line.rstrip() for line in lines)


def draw_cycle(waits: Mapping[int, Wait]) -> str:
    """Return who waits for whom, one line a rank, with an arrow from the last back to the first if it is a circle."""
    path: list[int] = []
    rank: int | None = min(waits, default=None)
    while rank is not None and rank in waits and rank not in path:
        path.append(rank)
        rank = waits[rank].rank
    circle = path[path.index(rank) :] if rank in path else []
    lines = []
    for member in circle or path:
        wait = waits[member]
        owner = ", and no rank computes that" if wait.rank is None else f" of rank {wait.rank}"
        lines.append(f"rank {member} stands at {wait.at}, which needs {wait.needs}{owner}")
    if not circle:
        return "\n".join(lines)
    edges = ["+->", *["|  "] * (len(lines) - 2), "+--"] if len(lines) > 1 else ["<->"]
    return "\n".join(f"{edge} {line}" for edge, line in zip(edges, lines, strict=True))


def draw_deadlock(rows: Sequence[Row], done: Run) -> str:
    """Return the grid as far as the ranks came, what each waits to do marked, and the circle in which they wait."""
    marks = [(rank, stuck_column(done, rank)) for rank in done.waits]
    return f"{draw(by_time(rows, done), marks)}\n{draw_cycle(done.waits)}"


def draw_fault(rows: Sequence[Row], rank: int, place: int) -> str:
    """Return the lists as a grid with one place marked: `?` where a list ends too early."""
    cells = [dict(row) for row in by_place(rows)]
    cells[rank].setdefault(place, "?")
    return draw(cells, [(rank, place)], "place")


def message_waits(standings: str) -> dict[int, Wait]:
    """Return who waits for whom in messages, from the lines that `hangs.describe_standings` writes."""
    needed = {"send": ("to", "a receive"), "recv": ("from", "a send")}
    found = {}
    for rank, op, peer in STANDING.findall(standings):
        way, need = needed[op]
        found[int(rank)] = Wait(f"its {op} {way} {peer}", need, int(peer))
    return found
