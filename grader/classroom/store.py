"""Keep what was graded in one SQLite file: on the disk before anything is said of it, and by content.

A verdict belongs to the bytes that were graded, the checks that graded them and the seed. So a hand-in that changed is
graded again, one that did not is not, and two students with the same bytes (an untouched starter) share one verdict.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from grader.classroom.verdict import FORMAT, Json
from grader.errors import UsageError
from grader.records import Level

NAME: Final = "results.sqlite"
TABLES: Final = """
create table if not exists settings (name text primary key, value text not null);
create table if not exists results
    (key text primary key, slug text not null, level integer not null, outcome text not null, graded_at text not null,
     verdict text not null);
create table if not exists waiting (key text primary key, slug text not null, source blob not null);
delete from waiting;
"""
IS_FINAL: Final = "outcome != 'error' and level >= ?"  # what was our fault is tried again


@dataclass(frozen=True)
class Waiting:
    """Hold what is still to be graded."""

    key: str
    slug: str
    source: bytes


class Store:
    """Hold the file open, and locked, until the end of the process."""

    def __init__(self, folder: Path, required: Level) -> None:
        """Open the file in `folder`, made if need be.

        Raises:
            UsageError: another process has it open, or it is no such file.
        """
        self.folder, self.required = folder, required
        with _told(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(folder / NAME, timeout=0.2, isolation_level=None, check_same_thread=False)
            self._database.execute("pragma locking_mode = exclusive")
            self._database.execute("pragma synchronous = extra")
            self._database.execute("begin exclusive")
            for statement in TABLES.split(";"):
                self._database.execute(statement)
            self._database.execute("commit")

    def seed(self, wanted: int | None, *, again: bool) -> int:
        """Return the seed of this class: the wanted one, or that of the last time, or a new one; it is kept."""
        kept = None if again else self._setting("seed")
        seed = wanted if wanted is not None else int(kept) if kept else secrets.randbelow(2**31)
        with self._transaction():
            if again:
                self._database.execute("delete from results")
            self._database.execute("insert or replace into settings values ('seed', ?)", (str(seed),))
        return seed

    def enqueue(self, works: Iterable[Waiting]) -> None:
        """Keep what is not graded yet, each content once."""
        with self._transaction():
            for work in works:
                graded = f"select 1 from results where key = ? and {IS_FINAL}"
                if self._database.execute(graded, (work.key, self.required.value)).fetchone() is None:
                    row = (work.key, work.slug, work.source)
                    self._database.execute("insert or ignore into waiting values (?, ?, ?)", row)

    def waiting(self) -> Iterator[Waiting]:
        """Yield what is to be graded, in the order in which it came; each is read when it is its turn."""
        for (key,) in self._database.execute("select key from waiting order by rowid").fetchall():
            row = self._database.execute("select key, slug, source from waiting where key = ?", (key,)).fetchone()
            yield Waiting(*row)

    def count_waiting(self) -> int:
        """Return how much there is to grade."""
        return int(self._database.execute("select count(*) from waiting").fetchone()[0])

    def keep(self, key: str, slug: str, verdict: Json) -> None:
        """Keep a verdict: when this returns it is on the disk."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        row = (key, slug, Level[verdict["level"]].value, verdict["outcome"], now, json.dumps(verdict))
        with self._transaction():
            self._database.execute("insert or replace into results values (?, ?, ?, ?, ?, ?)", row)
            self._database.execute("delete from waiting where key = ?", (key,))

    def verdict(self, key: str) -> tuple[Json, str] | None:
        """Return the verdict on this content and when it was given."""
        row = self._database.execute("select verdict, graded_at from results where key = ?", (key,)).fetchone()
        return (json.loads(row[0]), str(row[1])) if row else None

    def merge(self, other: Path) -> None:
        """Take over the results of another run, which must have had the same seed.

        Raises:
            UsageError: the seeds differ, or there is no such file.
        """
        file = other / NAME if other.is_dir() else other
        if not file.is_file():
            raise UsageError(f"{file} does not exist. Name the folder that a shard wrote.")
        with _told(file):
            self._database.execute("attach ? as shard", (str(file),))
        try:
            with _told(file):
                theirs = self._database.execute("select value from shard.settings where name = 'seed'").fetchone()
            ours = self._setting("seed")
            if theirs is None or (ours is not None and ours != theirs[0]):
                raise UsageError(f"{file} was graded with another seed. Give every shard the same `--seed`.")
            better = "where not exists (select 1 from results r where r.key = s.key and r.outcome != 'error')"
            with self._transaction():
                self._database.execute("insert or replace into settings values ('seed', ?)", theirs)
                self._database.execute(f"insert or replace into results select * from shard.results s {better}")
        finally:
            self._database.execute("detach shard")

    def close(self) -> None:
        """Close the file, and let another process have it."""
        self._database.close()

    def _setting(self, name: str) -> str | None:
        row = self._database.execute("select value from settings where name = ?", (name,)).fetchone()
        return str(row[0]) if row else None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("begin")
        try:
            yield
        except BaseException:
            self._database.execute("rollback")
            raise
        self._database.execute("commit")


def key_of(slug: str, digest: str, seed: int, source: bytes) -> str:
    """Return the name under which the verdict on this content is kept."""
    total = hashlib.sha256(f"{FORMAT} {slug} {digest} {seed}\n".encode())
    total.update(source)
    return total.hexdigest()


@contextmanager
def _told(place: Path) -> Iterator[None]:
    """Say in a sentence why the file cannot be used."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            way_out = "Wait until it has ended, or give this run a folder of its own with `--out`."
            raise UsageError(f"{place} is in use by another `grade`. {way_out}") from None
        raise UsageError(f"{place} cannot be used: {error}. Choose another folder with `--out`.") from None
    except (sqlite3.DatabaseError, OSError) as error:
        raise UsageError(f"{place} cannot be used: {error}. Move it away, or choose another with `--out`.") from None
