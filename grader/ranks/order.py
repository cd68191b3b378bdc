"""What a launcher tells the processes that start ranks: plain data, as JSON."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from grader.records import Level, Limits
from grader.sandbox.confinement import Policy

KEPT_VARIABLES = ("LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "PATHEXT", "NUMBER_OF_PROCESSORS")
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Order:
    """Ask for the ranks of one run; `rank` only where each rank is a process of its own from the start."""

    world_size: int
    level: Level
    run_dir: str
    limits: Limits
    network: bool = False
    preload: tuple[str, ...] = ()
    rank: int = 0

    @property
    def exercise_dir(self) -> Path:
        """Name the folder of the submission, read-only for the ranks."""
        return Path(self.run_dir, "exercise")

    @property
    def scratch_dir(self) -> Path:
        """Name the folder that the ranks share and may write into."""
        return Path(self.run_dir, "scratch")

    def to_json(self) -> bytes:
        """Return the order as it is sent."""
        return json.dumps({**asdict(self), "level": self.level.name}).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Order:
        """Read an order back."""
        values = json.loads(data)
        known = {field.name: values[field.name] for field in fields(cls)}
        level, limits = Level[values["level"]], Limits(**values["limits"])
        return cls(**{**known, "level": level, "limits": limits, "preload": tuple(values["preload"])})

    def policy(self, processes: int | None = None) -> Policy:
        """Return what one rank of this run may do."""
        return Policy(self.level, self.limits, self.exercise_dir, self.scratch_dir, self.network, processes)

    def environment(self, rank: int) -> dict[str, str]:
        """Return the whole environment of one rank."""
        scratch, user = str(self.scratch_dir), "rank"
        return {
            **base_environment(),
            **{"HOME": scratch, "TMPDIR": scratch, "TEMP": scratch, "TMP": scratch, "USERPROFILE": scratch},
            **{"USER": user, "LOGNAME": user, "USERNAME": user},
            **{"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(self.world_size)},
            **{"GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0", "TORCH_DISABLE_ADDR2LINE": "1"},
        }


def base_environment() -> dict[str, str]:
    """Return an environment built anew: nothing of a token, a key or a PYTHON variable is in it."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    path = os.defpath if os.name == "posix" else os.environ.get("PATH", "")
    return {**kept, "PATH": path, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **ONE_THREAD}
