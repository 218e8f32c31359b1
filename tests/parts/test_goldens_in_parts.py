"""Every golden statement leaves the same rows when its graph is divided into three parts, which are killed and moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from parser.errors import SqlError
from parser.types import Schema
from planner.division import why_not_divided
from planner.logical import Sink
from sqlengine.batch import Batch
from sqlengine.jobs.planning import PlannedJob
from sqlengine.script import open_runner
from sqlengine.session import EmbeddedRunner, Runner, Session
from tests.parts.group import Group, broker_in, undivided, values_of
from tests.parts.over_topics import Topics, left_in
from tests.restores.lives import Statement
from tests.restores.plans import asks_for_order, asks_the_clock, scrambles
from tests.restores.shards import patient
from tests.sql.golden import Script, scripts

STREAMING = tuple(s for s in scripts() if s.mode == "streaming")
# So late is no row that its shard has in time.
_PATIENCE_MS = 60_000
QUICK = {"changelog/functions", "insert/statement_sets"}
EACH = [pytest.param(s, id=s.name, marks=[] if s.name in QUICK else [pytest.mark.slow]) for s in STREAMING]


@dataclass
class Divided:
    """A session's runner: each statement also runs in parts, over topics."""

    inner: Runner
    folder: Path
    done: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    about: str = ""

    def run(self, sinks: Sequence[Sink], settings: Mapping[str, str], emit: Callable[[Batch], None]) -> int:
        statement = Statement(tuple(sinks), dict(settings)).folded()
        self.done["statements"] += 1
        why = next((w for s in sinks if (w := asks_the_clock(s) or scrambles(s))), "")
        ordered = any(asks_for_order(s) for s in sinks)
        if why:
            self.left_out[why] += 1
        elif not ordered:
            self._compare(patient(statement, _PATIENCE_MS), 3)
        if not why:
            self._compare(statement, 1)
        return self.inner.run(sinks, settings, emit)

    def _compare(self, statement: Statement, shards: int) -> None:
        place = self.folder / f"{self.done['statements']}-{shards}"
        with broker_in(place) as broker:
            try:
                sinks = Topics(broker, shards).over(statement.sinks)
                why = next((w for s in sinks if (w := why_not_divided(s))), None)
                if why is not None:
                    raise ValueError(why)
                expected = self._undivided(Group(broker), sinks)
            except (ValueError, SqlError, AssertionError) as error:
                self.left_out[str(error)[:60]] += 1
                return
            chance = Random(shards)
            group = Group(broker)
            group.start()
            group.submit(PlannedJob("job", tuple(_renamed(s) for s in sinks)))
            group.run(chance, unrest=0.15)
            group.close()
            found = [left_in(values_of(broker, f"divided-{n}")) for n in range(len(sinks))]
            if found != expected:
                self.failures.append(f"{self.about}, {shards} shards:\n  {found}\n  {expected}")
            self.done["in parts"] += 1

    def _undivided(self, group: Group, sinks: tuple[Sink, ...]) -> list[Counter[str]]:
        undivided(group, PlannedJob("job", sinks)).close()
        return [left_in(values_of(group.broker, f"out-{n}")) for n in range(len(sinks))]


def _renamed(sink: Sink) -> Sink:
    assert sink.table is not None
    topic = sink.table.options["topic"].replace("out", "divided")
    return replace(sink, table=replace(sink.table, options={**sink.table.options, "topic": topic}))


@dataclass
class _Silent:
    def schema(self, stmt: int, schema: Schema) -> None: ...

    def rows(self, stmt: int, batch: Batch) -> None: ...

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None: ...


class _Numbered(Session):
    def _execute(self, number: int, statement: object) -> None:
        assert isinstance(self.runner, Divided)
        self.runner.about = f"statement {number}"
        super()._execute(number, statement)  # type: ignore[arg-type]


@pytest.mark.parametrize("script", EACH)
def test_the_same_rows_in_parts(script: Script, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with open_runner(tmp_path / "topics") as inner:
        assert isinstance(inner, EmbeddedRunner)
        inner.environment = replace(inner.environment, print_line=lambda line: None)
        runner = Divided(inner, tmp_path)
        _Numbered(runner, _Silent()).run(script.with_folders(out))
    print(dict(runner.done), dict(runner.left_out))
    assert not runner.failures, "\n".join(runner.failures)
