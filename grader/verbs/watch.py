"""Check an exercise whenever its file is saved, and move on when it passes: `check --watch`."""

from __future__ import annotations

import site
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from grader import catalog, files_in, notes, saves
from grader.errors import BrokenExercise, RefusedFile
from grader.launch import Launcher, open_launcher
from grader.records import Exercise, Outcome
from grader.report.keys import Keyboard
from grader.report.terminal import Screen
from grader.report.text import Line, paragraph, progress_bar
from grader.verbs import check, explain, hint
from grader.verbs import list as listing
from grader.verbs.grading import Graded, blocked, grade
from grader.verbs.tally import Tally

PACKAGE = Path(__file__).parents[1]
KEYS = "h hint {0} l list {0} e explain {0} n next {0} q quit"
Stamp = tuple[tuple[str, int], ...]


def watch(root: Path, slugs: Sequence[str], seed: int, screen: Screen) -> int:
    """Check, wait for the next save or key, and so on; 0 once all that was asked for is repaired, 1 if left before."""
    warm = WarmLauncher()
    try:
        with Keyboard(screen) as keyboard:
            return Watch(root, slugs, seed, screen, keyboard, warm).go_on()
    finally:
        warm.close()


class WarmLauncher:
    """Keep one launcher between runs, and replace it when the environment from which it was started has changed."""

    def __init__(self) -> None:
        """Start nothing before it is needed."""
        self._launcher: Launcher | None = None
        self._stamp: Stamp = ()

    def take(self, preload: tuple[str, ...]) -> Launcher:
        """Return a launcher whose processes have imported what is installed now."""
        if self._launcher is not None and self._stamp != environment_stamp():
            self.close()
        if self._launcher is None:
            self._stamp = environment_stamp()
            self._launcher = open_launcher(preload=preload)
        return self._launcher

    def close(self) -> None:
        """End what was started."""
        if self._launcher is not None:
            self._launcher.close()
        self._launcher = None


class Watch:
    """Hold where a student is in the course while files are saved and keys pressed."""

    def __init__(
        self, root: Path, slugs: Sequence[str], seed: int, screen: Screen, keyboard: Keyboard, warm: WarmLauncher
    ) -> None:
        """Begin with the first exercise that is not repaired."""
        self.root, self.slugs, self.seed, self.screen, self.keyboard, self.warm = (
            root, slugs, seed, screen, keyboard, warm,
        )  # fmt: skip
        self.grader_stamp = stamp_of(PACKAGE.rglob("*.py"))
        self.checked: dict[str, bytes] = {}  # what was in a file when it was last checked
        self.current = self.passed = ""
        self.load()

    def load(self) -> None:
        """Read the course, which an update may have changed."""
        self.course = catalog.load_course(self.root)
        self.chosen = catalog.select(self.course, self.slugs) if self.slugs else self.course
        self.tally = Tally(self.course)

    def go_on(self) -> int:
        """Work through saves and keys until everything is repaired or somebody leaves."""
        saved = saves.saved(self.root / "exercises")
        next(saved)  # from here on no save is missed, not even one during the first check
        self.screen.clear()
        if self.check_from(self.following("")):
            return 0
        for slugs in saved:
            if self.grader_stamp != stamp_of(PACKAGE.rglob("*.py")):
                self.say("The grader itself was updated. Start it again: nox -s check -- --watch")
                return 1
            if self.is_done_after(slugs):
                return 0
            for key in self.keyboard.pressed():
                if key == "q":
                    return int(not all(map(self.tally.is_repaired, self.chosen)))
                if self.is_done_after_key(key):
                    return 0
        return 1

    def is_done_after(self, saved: frozenset[str]) -> bool:
        """Check what was saved; return whether nothing is left to repair."""
        for slug in sorted(saved & {exercise.slug for exercise in self.chosen}):
            exercise = next(each for each in self.chosen if each.slug == slug)
            if self.content(exercise) == self.checked.get(slug):  # saved as it was: the verdict would be the same
                continue
            self.screen.clear()
            if self.check_from(exercise):
                return True
        return False

    def is_done_after_key(self, key: str) -> bool:
        """Do what a key asks for; return whether nothing is left to repair."""
        now = next((each for each in self.course if each.slug == self.current), None)
        if key == "n":
            self.screen.clear()
            return self.check_from(self.following(self.current))
        if key == "l":
            listing.show_course([listing.entry_of(each) for each in self.course], self.screen)
        elif key == "h" and now is not None:
            self.screen.show(hint.next_hint(now, notes.of(now)[0], self.screen.look))
        elif key == "e" and now is not None:
            with self.keyboard.set_aside():
                explain.explain(next((each for each in self.course if each.slug == self.passed), now), self.screen)
        else:
            return False
        self.screen.show(self.status())
        return False

    def check_from(self, exercise: Exercise | None) -> bool:
        """Check an exercise, and those after it as long as they pass; return whether nothing is left to repair."""
        while exercise is not None:
            self.current = exercise.slug
            try:
                self.load()
                result = self.grade(next(each for each in self.course if each.slug == self.current)).result
            except (BrokenExercise, StopIteration) as error:  # in the middle of an update, perhaps
                self.say(str(error) or f"{self.current} is not there any more.")
                return False
            self.tally.keep(result, self.seed)
            self.screen.show(check.block(result, self.tally, self.screen.look))
            if result.outcome is not Outcome.PASSED:
                self.screen.show(self.status())
                return False
            self.passed, exercise = self.current, self.following(self.current)
        self.screen.show([*self.status(), (("  All that you asked for is repaired.", "bold green"),)])
        return True

    def grade(self, exercise: Exercise) -> Graded:
        """Grade one exercise with warm processes; one that uses another waits for it."""
        launcher = self.warm.take(exercise.preload)
        self.checked[exercise.slug] = self.content(exercise)
        by_slug = {each.slug: each for each in self.course}
        for used in exercise.uses:
            if not self.tally.is_repaired(by_slug[used]):
                del self.checked[exercise.slug]
                return Graded(blocked(exercise, used), launcher.level, launcher.words)
        try:
            return grade(exercise, launcher, self.seed, self.screen.tell)
        finally:
            self.screen.tell("")

    def following(self, slug: str) -> Exercise | None:
        """Return the next exercise after this one that is not repaired, from the start again after the last."""
        slugs = [exercise.slug for exercise in self.chosen]
        place = slugs.index(slug) + 1 if slug in slugs else 0
        round_trip = (*self.chosen[place:], *self.chosen[:place])
        return next((exercise for exercise in round_trip if not self.tally.is_repaired(exercise)), None)

    def content(self, exercise: Exercise) -> bytes:
        """Return what is in a student's file now, or nothing where it cannot be taken."""
        with suppress(RefusedFile):
            return files_in.take(exercise.student_dir, exercise.starter_path.name)
        return b""

    def status(self) -> list[Line]:
        """Return the bar over the course and what can be done now."""
        look, repaired = self.screen.look, sum(map(self.tally.is_repaired, self.course))
        bar = progress_bar(repaired, len(self.course), look)
        if not self.keyboard.is_there:
            return [bar, *paragraph("Waiting for a file to be saved. Ctrl-C ends.", look)]
        about = f"   (e: {self.passed})" if self.passed else ""
        return [bar, ((f"  {KEYS.format(look.dot)}{about}", "dim"),)]

    def say(self, words: str) -> None:
        """Show a sentence."""
        self.screen.show(paragraph(words, self.screen.look, "yellow"))


def environment_stamp() -> Stamp:
    """Return what changes when packages are installed, removed or replaced, or this Python is another one."""
    folders = [
        Path(folder) for folder in {*site.getsitepackages(), *(path for path in sys.path if "site-packages" in path)}
    ]
    return stamp_of([Path(sys.executable), Path(sys.prefix) / "pyvenv.cfg", *folders])


def stamp_of(paths: Iterable[Path]) -> Stamp:
    """Return when each of these paths was last changed, those left out that are not there."""
    found = []
    for path in paths:
        with suppress(OSError):
            found.append((str(path), path.stat().st_mtime_ns))
    return tuple(sorted(found))
