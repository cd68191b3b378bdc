"""What a launcher tells the processes that start ranks: plain data, as JSON."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from grader.records import Level, Limits
from grader.sandbox.confinement import Policy

KEPT_VARIABLES = ("LD_LIBRARY_PATH", "OPENBLAS_CORETYPE", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "PATHEXT")
LOOPBACK = {"linux": "lo", "darwin": "lo0"}
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
    shared: bool = True
    rank: int = 0

    @property
    def exercise_dir(self) -> Path:
        """Name the folder of the submission, read-only for the ranks."""
        return Path(self.run_dir, "exercise")

    @property
    def scratch_dir(self) -> Path:
        """Name the folder in which the ranks may write."""
        return Path(self.run_dir, "scratch")

    def folder_of(self, rank: int) -> str:
        """Name the folder that a rank may write into: its own, where the ranks must share nothing but the network."""
        return str(self.scratch_dir if self.shared else self.scratch_dir / f"rank{rank}")

    def make_folder_of(self, rank: int) -> None:
        """Make the folder that a rank may write into, if it is not there yet."""
        Path(self.folder_of(rank)).mkdir(mode=0o700, exist_ok=True)

    def to_packet(self) -> dict[str, Any]:
        """Return the order as JSON can hold it."""
        return {**asdict(self), "level": self.level.name}

    @classmethod
    def of_packet(cls, packet: dict[str, Any]) -> Order:
        """Read an order back."""
        level, limits = Level[packet["level"]], Limits(**packet["limits"])
        return cls(**{**packet, "level": level, "limits": limits, "preload": tuple(packet["preload"])})

    def policy(self, rank: int, processes: int | None = None) -> Policy:
        """Return what one rank of this run may do."""
        folder = Path(self.folder_of(rank))
        return Policy(self.level, self.limits, self.exercise_dir, folder, self.shared, self.network, processes)

    def environment(self) -> dict[str, str]:
        """Return the environment of all ranks of the run, without what is one rank's own."""
        loopback = LOOPBACK.get(sys.platform)
        return {
            **base_environment(),
            **dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"), str(self.scratch_dir)),
            **dict.fromkeys(("USER", "LOGNAME", "USERNAME"), "rank"),
            "WORLD_SIZE": str(self.world_size),
            **({"GLOO_SOCKET_IFNAME": loopback} if loopback else {}),
            "TORCH_DISABLE_ADDR2LINE": "1",
        }

    def own_environment(self, rank: int) -> dict[str, str]:
        """Return what differs between the environments of the ranks."""
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        folders = (
            {} if self.shared else dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"), self.folder_of(rank))
        )
        return {**own, **folders}


def base_environment() -> dict[str, str]:
    """Return an environment built anew: nothing of a token, a key or a PYTHON variable is in it."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    path = os.defpath if os.name == "posix" else os.environ.get("PATH", "")
    python = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}  # sets in the same order in every run
    return {**kept, "PATH": path, "LANG": "C.UTF-8", **python, **ONE_THREAD}
