"""Runs the statements of a golden script as a session does, and each of them again and again:
through kills and restores, in several instances, over shards that are read in other orders. All
must give what the undisturbed run gives."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from parser.errors import SqlError
from parser.statements import Statement as Parsed
from parser.types import Schema
from planner.logical import Sink
from sqlengine.batch import Batch
from sqlengine.engine.table_access import scans
from sqlengine.session.environment import open_runner
from sqlengine.session.runner import EmbeddedRunner, Runner
from sqlengine.session.session import Session
from sqlengine.system.file_access import FileAccess
from tests.pages import Report
from tests.restores.instances import InTasks, forgetting
from tests.restores.lives import Outcome, Statement, Way, World, live
from tests.restores.plans import asks_for_order, asks_the_clock, keyed, scrambles
from tests.restores.shards import DEALS, PATIENCE_MS, dealt, patient
from tests.sql.golden import Script

# How many rows a read takes, and how lives end then: of one each change is told, of several those
# of an epoch are folded. Without state there is nothing to restore but how far it is.
KEYED: Final[Mapping[int, Way]] = {1: Way.CHECKPOINTS, 3: Way.REPLAYS}
STATELESS: Final[Mapping[int, Way]] = {3: Way.REPLAYS}
# Of one row a read a statement has many epochs: about so many lives at most, evenly spread.
LIVES: Final = 5
# In tasks an epoch reads so many turns.
TURNS: Final = 4
FAILS: Final = "fails"


@dataclass
class Thorough:
    """A session's runner. What a script writes is there for its later statements; other runs write
    elsewhere."""

    inner: Runner
    folder: Path
    out: Path
    report: Report
    _made: int = 0

    @property
    def files(self) -> FileAccess:
        """Those that the inner runner may use."""
        return self.inner.files

    def run(
        self, sinks: Sequence[Sink], settings: Mapping[str, str], emit: Callable[[Batch], None]
    ) -> int:
        statement = Statement(tuple(sinks), dict(settings))
        self.report.done["statements"] += 1
        has_keys = any(map(keyed, sinks))
        self.report.done["with state"] += has_keys
        undisturbed = self._lives(statement, KEYED if has_keys else STATELESS)
        if undisturbed is not None:
            statement = statement.folded()
            self._in_instances(statement, undisturbed, has_keys)
            self._drained(statement, undisturbed)
            self._interleaved(statement, undisturbed)
        return self.inner.run(sinks, settings, emit)

    def _lives(self, statement: Statement, ways: Mapping[int, Way]) -> Outcome | None:
        """What it gives undisturbed; None where it cannot even begin."""
        undisturbed, whole = None, statement
        for rows_per_read, way in ways.items():
            statement = whole if rows_per_read == 1 else whole.folded()
            undisturbed = self._live(statement, rows_per_read, Way.UNDISTURBED)
            if not undisturbed.epochs:
                self.report.left_out["not restored", "fails before its first epoch"] += 1
                return None
            self._restored(statement, rows_per_read, way, undisturbed)
        if undisturbed is not None and ways is KEYED and not self.report.done["restored on disk"]:
            self._restored(statement, rows_per_read, Way.ON_DISK, undisturbed)
            self.report.done["restored on disk"] += 1
        self.report.done["restored"] += 1
        return undisturbed

    def _restored(
        self, statement: Statement, rows_per_read: int, way: Way, undisturbed: Outcome
    ) -> None:
        what = f"{way.value}, {rows_per_read} rows a read"
        with self.report.recording_failures(what):
            apart = 1 + undisturbed.epochs // LIVES if rows_per_read == 1 else 1
            found = self._live(statement, rows_per_read, way, apart)
            self.report.expect(what, found.differs(undisturbed))

    def _live(self, statement: Statement, rows_per_read: int, way: Way, apart: int = 1) -> Outcome:
        redirected, folder, out = self._place(statement)
        world = World(redirected, folder, out, rows_per_read, way is Way.ON_DISK)
        outcome = live(world, way, apart)
        if way is not Way.UNDISTURBED:
            self.report.done += world.counts
        return outcome

    def _in_instances(self, statement: Statement, undisturbed: Outcome, has_keys: bool) -> None:
        why = "" if has_keys else "nothing comes together by keys"
        why = why or _first(asks_the_clock, statement) or _first(scrambles, statement)
        why = why or (FAILS if undisturbed.error else "")
        if why:
            self.report.left_out["not in instances", why] += 1
            return
        redirected, folder, out = self._place(statement)
        executor = partial(InTasks, folder / "tasks", 3, self.report.done)
        with self.report.recording_failures("in instances"), forgetting():
            world = World(redirected, folder, out, 3 * TURNS, executor=executor)
            found = live(world, Way.REPLAYS, 1 + undisturbed.epochs // (TURNS * LIVES))
            self.report.expect("in instances", found.left.differs(undisturbed.left))
        self.report.done["in instances"] += 1

    def _drained(self, statement: Statement, undisturbed: Outcome) -> None:
        """Where one source ends before others, what is late is another matter."""
        why = _first(asks_the_clock, statement) or (FAILS if undisturbed.error else "")
        if (
            undisturbed.late
            and len({s.digest for sink in statement.sinks for s in scans(sink)}) > 1
        ):
            why = why or "has late rows, and several sources"
        if why:
            self.report.left_out["not drained", why] += 1
            return
        with self.report.recording_failures(Way.DRAINED.value):
            found = self._live(statement, 3, Way.DRAINED)
            self.report.expect(Way.DRAINED.value, found.left.differs(undisturbed.left))
        self.report.done["drained"] += 1

    def _interleaved(self, statement: Statement, undisturbed: Outcome) -> None:
        why = _first(asks_the_clock, statement) or _first(asks_for_order, statement)
        why = why or (FAILS if undisturbed.error else "")
        patience = iter(PATIENCE_MS)
        while not why and undisturbed.late:
            delay_ms = next(patience, 0)
            statement = patient(statement, delay_ms)
            undisturbed = self._live(statement, 3, Way.UNDISTURBED)
            why = "" if delay_ms else "has late rows"
        if why:
            self.report.left_out["not interleaved", why] += 1
            return
        for name, deal in DEALS.items():
            redirected, folder, out = self._place(statement)
            with self.report.recording_failures(name):
                shards = dealt(redirected, out.with_name(f"{out.name}-shards"), deal)
                found = live(World(shards, folder, out, 2), Way.UNDISTURBED)
                self.report.expect(name, found.left.differs(undisturbed.left))
            self.report.done["orders of shards"] += 1
        self.report.done["interleaved"] += 1

    def _place(self, statement: Statement) -> tuple[Statement, Path, Path]:
        self._made += 1
        out = self.folder / f"out-{self._made}"
        out.mkdir()
        return statement.redirected(self.out, out), self.folder / f"world-{self._made}", out


def _first(question: Callable[[Sink], str], statement: Statement) -> str:
    return next((why for sink in statement.sinks if (why := question(sink))), "")


@dataclass
class _Silent:
    """Nobody looks at rows here: `tests/sql` does."""

    report: Report

    def schema(self, stmt: int, schema: Schema) -> None: ...

    def rows(self, stmt: int, batch: Batch) -> None: ...

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        self.report.refused.append(f"statement {stmt}: {error}")


class _Numbered(Session):
    """A session that tells its runner where it is."""

    def execute(self, number: int, statement: Parsed) -> None:
        assert isinstance(self.output, _Silent)
        self.output.report.about = f"statement {number}"
        super().execute(number, statement)


def rerun(
    script: Script, folder: Path, report: Report, runner: Callable[[Runner, Path], Runner]
) -> Report:
    """All statements of the script by another runner, which is made of the session's and the folder
    that the script writes to. `folder` is empty before and gone behind it."""
    out = folder / "out"
    out.mkdir(parents=True)
    with open_runner(folder / "topics") as inner:
        assert isinstance(inner, EmbeddedRunner)
        inner.environment = replace(inner.environment, print_line=lambda line: None)
        _Numbered(runner(inner, out), _Silent(report)).run(script.with_folders(out))
    shutil.rmtree(folder)
    return report


def thorough(script: Script, folder: Path) -> Report:
    """All statements of the script, in all ways. `folder` is empty."""
    report = Report()
    return rerun(script, folder, report, lambda inner, out: Thorough(inner, folder, out, report))
