"""What flows through the program: frozen data, no input or output.

Request -> Exercise -> Submission -> RankResult -> CheckResult -> ExerciseResult -> Report
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np

JudgedBy = Literal["value", "network", "observation"]
Transport = Literal["none", "simulated", "gloo"]


class Outcome(Enum):
    """Say how a check or an exercise ended; ERROR is ours, never the student's."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    NOT_RUN = "not_run"


class Level(Enum):
    """Name how strongly a rank is confined: B0 anywhere, B1 Linux without privilege, B2 namespaces too."""

    B0 = 0
    B1 = 1
    B2 = 2


@dataclass(frozen=True)
class Limits:
    """Bound what one run of ranks may use; `exercise.toml` overrides single fields under `[limits]`."""

    timeout_s: float = 10.0
    memory_bytes: int = 4 << 30
    disk_bytes: int = 256 << 20
    output_bytes: int = 64 << 10
    unix_sockets: bool = False  # DataLoader workers need them


@dataclass(frozen=True)
class Experiment:
    """Declare the one control and the one quantity of an exercise's `predict` experiment."""

    question: str
    function: str  # a function of harness.py: f(submission, control) -> number
    control: str
    values: tuple[float, ...]
    quantity: str
    unit: str
    transport: Transport = "none"


@dataclass(frozen=True)
class Observation:
    """Hold what an experiment gave for one value of its control; without a result, the sentence why."""

    value: float
    result: float | None
    failure: str = ""


@dataclass(frozen=True)
class Exercise:
    """Locate one exercise's two halves and hold what its `exercise.toml` says."""

    slug: str
    chapter: int
    title: str
    position: int
    difficulty: int
    points: int
    student_dir: Path
    reference_dir: Path
    limits: Limits = Limits()
    preload: tuple[str, ...] = ()  # modules that a rank will import anyway: numpy, torch
    uses: tuple[str, ...] = ()  # earlier exercises, whose repaired files this one imports
    data: tuple[str, ...] = ()  # files beside the starter that its own example reads
    sources: tuple[str, ...] = ()
    experiment: Experiment | None = None
    former_dirs: tuple[Path, ...] = ()  # where a student's notes lie if the exercise had another name once

    @property
    def starter_path(self) -> Path:
        """Name the one file that a student edits."""
        return self.student_dir / f"{self.slug}.py"

    @property
    def reference_path(self) -> Path:
        """Name the repaired file."""
        return self.reference_dir / f"{self.slug}.py"

    @property
    def pristine_path(self) -> Path:
        """Name the starter as it was released; it is there in a students' copy, elsewhere git has it."""
        return self.reference_dir / "starter.py"

    @property
    def checks_path(self) -> Path:
        """Name the file of hidden checks."""
        return self.reference_dir / "checks.py"

    @property
    def held_out_path(self) -> Path:
        """Name the file of checks that are never released; it need not exist."""
        return self.reference_dir / "held_out.py"

    @property
    def harness_path(self) -> Path:
        """Name the public file that may run beside a submission; it need not exist."""
        return self.reference_dir / "harness.py"


@dataclass(frozen=True)
class Submission:
    """Pair an exercise with any file that is to be run as its solution: starter, repair, reference, wrong repair."""

    exercise: Exercise
    path: Path
    course_dir: Path | None = None  # whose exercises it uses; None: the repaired ones


@dataclass(frozen=True)
class Request:
    """Hold what the command line asked for."""

    slugs: tuple[str, ...] = ()
    all: bool = False
    seed: int | None = None
    jobs: int = 1
    trace: bool = False
    required_level: Level = Level.B0


@dataclass(frozen=True, eq=False)
class Tensor:
    """Stand for a torch tensor in the trusted process, which so need not import torch.

    `array` holds the values (bfloat16 widened to float32), `dtype` torch's own name, such as "float32" or "bfloat16".
    """

    array: np.ndarray[Any, Any]
    dtype: str
    requires_grad: bool = False
    subclass: str = ""  # the class's name, when a subclass of Tensor came back

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape as plain integers."""
        return tuple(self.array.shape)


@dataclass(frozen=True)
class Group:
    """Stand for a process group among the arguments of a call; `ranks=None` is the world."""

    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True, eq=False)
class Opaque:
    """Stand for a value that has no data form; it equals nothing and computes nothing."""

    type_name: str


@dataclass(frozen=True)
class Call:
    """Record one collective or message as one rank made it.

    `payload_bytes` is what this rank contributed (for `recv`, what it received); `ring_bytes` what a ring algorithm
    would have made it send. `depth` is the number of messages in the longest chain of dependent messages that ends
    here, only on the simulated network. Seconds are virtual there; on gloo they are those since the first operation
    of the run, as the trusted process saw the rank begin and end.
    """

    sequence: int  # of this rank, from 0
    op: str  # torch.distributed's name: all_reduce, send, ...
    group: tuple[int, ...]  # global ranks
    peer: int | None = None  # global rank, for messages and rooted collectives
    shape: tuple[int, ...] = ()
    dtype: str = ""
    payload_bytes: int = 0
    ring_bytes: int = 0
    line: int = 0  # of the submission; 0 if it was not on the stack
    depth: int = 0
    start_s: float = 0.0
    end_s: float = 0.0
    completed: bool = False
    posted_s: float = 0.0  # when the rank called it


@dataclass(frozen=True)
class Talk:
    """Hold what the ranks of one run said to each other: the calls of each, in rank order."""

    function: str
    transport: Transport
    calls: tuple[tuple[Call, ...], ...]


@dataclass(frozen=True)
class RankResult:
    """Hold what one rank answered, what it communicated and what it printed."""

    rank: int
    value: Any
    calls: tuple[Call, ...] = ()
    output: str = ""
    arguments: tuple[Any, ...] = ()  # as they are after the call, where the check asked for them
    clock_s: float = 0.0  # virtual time at the end, simulated network only

    @property
    def rounds(self) -> int:
        """Return the longest chain of dependent messages that this rank saw the end of."""
        return max((call.depth for call in self.calls), default=0)

    @property
    def sent_bytes(self) -> int:
        """Return the bytes that left this rank in point-to-point messages."""
        return sum(call.payload_bytes for call in self.calls if call.op in {"send", "isend"})

    @property
    def received_bytes(self) -> int:
        """Return the bytes that reached this rank in point-to-point messages."""
        return sum(call.payload_bytes for call in self.calls if call.op in {"recv", "irecv"})

    @property
    def peers(self) -> frozenset[int]:
        """Return the global ranks with which this rank exchanged point-to-point messages."""
        messages = {"send", "isend", "recv", "irecv"}
        return frozenset(call.peer for call in self.calls if call.op in messages and call.peer is not None)

    def count(self, op: str) -> int:
        """Return how many times this rank called `op`."""
        return sum(call.op == op for call in self.calls)


@dataclass(frozen=True)
class Promise:
    """Hold what a check says of itself before it runs."""

    name: str
    sentence: str
    hints: tuple[str, ...]
    judged_by: JudgedBy = "value"
    guards: str = ""
    line: int = 0


@dataclass(frozen=True)
class Mechanism:
    """Hold what a student names and reads after an exercise passes; `distractors` are (text, why it is wrong)."""

    sentence: str
    distractors: tuple[tuple[str, str], ...]
    explanation: str
    last_hint: str
    reading: tuple[tuple[str, str], ...]  # (title, url)


@dataclass(frozen=True)
class Choice:
    """Hold one answer that a question offers, and why it is right or which misconception it is."""

    text: str
    right: bool
    why: str


@dataclass(frozen=True)
class Question:
    """Hold one question of a knowledge check; numeric ones have no choices but a number, already drawn."""

    id: str
    concepts: tuple[int, ...]
    kind: Literal["single", "several", "numeric"]
    text: str
    explanation: str
    sources: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    number: float = 0.0
    unit: str = ""
    rtol: float = 0.0


@dataclass(frozen=True)
class CheckResult:
    """Hold how one check ended; `message` and `hint` are empty unless it failed."""

    promise: Promise
    outcome: Outcome
    message: str = ""
    output: str = ""  # what the submission printed during the check, raw
    seconds: float = 0.0
    line: int = 0  # of the submission, where it raised or waited; 0 if unknown
    kind: str = ""  # how a run failed: raised, died, timeout, deadlock, ...; "" for a wrong value
    talks: tuple[Talk, ...] = ()  # where a trace was asked for

    @property
    def hint(self) -> str:
        """Return the most general hint, for a check that failed."""
        return self.promise.hints[0] if self.outcome is Outcome.FAILED and self.promise.hints else ""


@dataclass(frozen=True)
class ExerciseResult:
    """Hold how one submission of one exercise ended, check by check."""

    submission: Submission
    outcome: Outcome
    checks: tuple[CheckResult, ...] = ()
    message: str = ""  # why nothing could be run: a missing file, an exercise not yet repaired
    warnings: tuple[str, ...] = ()
    changed_lines: int | None = None
    reference_changed_lines: int | None = None
    seconds: float = 0.0

    @property
    def first_failure(self) -> CheckResult | None:
        """Return the first check that did not pass though it ran."""
        return next((c for c in self.checks if c.outcome in {Outcome.FAILED, Outcome.ERROR}), None)

    @property
    def points(self) -> int:
        """Return the whole points earned: all of them when every check passed, else none."""
        return self.submission.exercise.points if self.outcome is Outcome.PASSED else 0


@dataclass(frozen=True)
class Report:
    """Hold the results of one run of the grader."""

    seed: int
    isolation: Level
    results: tuple[ExerciseResult, ...] = ()
    isolation_words: str = ""
    course: tuple[Exercise, ...] = field(default=(), repr=False)
