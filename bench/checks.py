"""How long a student waits: one `check`, everything included."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from bench.measure import Row, command_s, copy_of_course

SLUG = "mean_gradients"


def one_check(torch_s: float) -> list[Row]:
    """Time `check mean_gradients` on the repaired file, with the fork server and with spawned ranks."""
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_of_course(Path(folder, "checkout"))
        place = Path("ch1_data_parallel", SLUG, f"{SLUG}.py")
        shutil.copy(copy / "reference" / place, copy / "exercises" / place)
        command = [sys.executable, str(copy / "grader" / "__main__.py"), "check", SLUG]
        forked_s = command_s(command, PYTHONPATH=str(copy))
        spawning = {"RANKLINGS_START_METHOD": "spawn", "RANKLINGS_ISOLATION": "B0"}
        spawned_s = command_s(command, repeats=3, PYTHONPATH=str(copy), **spawning)
        every_s = command_s([*command[:-1], "--all", "--jobs", "1"], repeats=1, PYTHONPATH=str(copy))
    return [
        Row('T: python -c "import torch"', f"{torch_s:.2f} s"),
        Row(f"check {SLUG}", f"{forked_s:.2f} s, {forked_s / torch_s:.2f} T", "1.5 T", forked_s <= 1.5 * torch_s),
        Row(
            "the same as on macOS and Windows, ranks spawned",
            f"{spawned_s:.2f} s, {spawned_s / torch_s:.2f} T",
            "4 T",
            spawned_s <= 4 * torch_s,
        ),
        Row("check --all, nothing repaired but this one", f"{every_s:.2f} s, {every_s / torch_s:.1f} T"),
    ]
