"""What tests of the playground share: the chapters' apps, their truth, references loaded by path, random settings."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from types import ModuleType

from grader.playground.panels import Panel, Settings, Slider, Truth, Value
from grader.playground.truths import open_truth

ROOT = Path(__file__).resolve().parent.parent
APPS = sorted((ROOT / "exercises").glob("ch*_*/playground.py"))
TIMES = 200


def load(path: Path) -> ModuleType:
    """Load a file of ours as a module."""
    spec = importlib.util.spec_from_file_location("_".join(path.parts[-3:]).removesuffix(".py"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reference(slug: str) -> ModuleType:
    """Load the reference of an exercise."""
    (path,) = (ROOT / "reference").glob(f"ch*_*/{slug}/{slug}.py")
    return load(path)


def panels(app: Path) -> list[Panel]:
    """Return what an app declares."""
    found: list[Panel] = load(app).panels()
    return found


def truth_of(app: Path) -> Truth:
    """Return the truth of an app's chapter."""
    return open_truth(ROOT, app.parent.name)


def drawn(panel: Panel, rng: random.Random) -> dict[str, Value]:
    """Draw a setting of all controls."""
    settings: dict[str, Value] = {}
    for control in panel.controls:
        if isinstance(control, Slider):
            steps = round((control.most - control.least) / control.step)
            settings[control.name] = control.whole(control.least + rng.randint(0, steps) * control.step)
        else:
            settings[control.name] = rng.choice(control.options)
    return settings


def many(panel: Panel, seed: int = 0, times: int = TIMES) -> list[Settings]:
    """Draw settings, the same every time."""
    rng = random.Random(f"{panel.name} {seed}")
    return [drawn(panel, rng) for _ in range(times)]
