"""Runs the statements of a golden script as a session does, and each of them in subtasks, over topics,
through kills and moves: the same rows must be left as of one graph that nobody disturbs."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

from parser.errors import SqlError
from planner.graph.distribution import WATERMARK, why_not_distributed
from planner.logical import Sink
from sqlengine.batch import Batch
from sqlengine.connectors.registry import declared_capabilities
from sqlengine.jobs.planning import PlannedJob
from sqlengine.session.runner import Runner
from sqlengine.system.file_access import FileAccess
from tests.pages import Report
from tests.restores.lives import Statement
from tests.restores.plans import (
    asks_for_order,
    asks_the_clock,
    goes_by_event_time,
    judges_what_was_handed_on,
    keyed,
    nodes_of,
    scrambles,
)
from tests.restores.running import rerun
from tests.restores.shards import patient
from tests.sql.golden import Script
from tests.subtasks.group import TICK_MS, Failed, Group, broker_in, run_locally, values_of
from tests.subtasks.over_topics import Topics, left_in
from tests.subtasks.quiesced import merged_snapshot, quiesce

SHARDS: Final = 3
ROWS: Final = 3
DISTURBANCE: Final = 0.1
# With watermarks so much later (a century) no row is late: which ones were would depend on how far
# each subtask has read.
_PATIENCE_MS: Final = 36_525 * 86_400_000
_CHANCE: Final = frozenset({"RAND", "RAND_INTEGER", "UUID"})
# What is left in each sink, or why the statement fails.
Results: TypeAlias = list[Counter[str]] | str
# Runs a statement in subtasks to its end.
Distribute: TypeAlias = Callable[[Group, PlannedJob, Random], None]
# Names of tables and functions in reasons, which are counted without them.
_NAMES: Final = re.compile(r"(?<=table )'[^']*' |(?<=: )[A-Z_0-9]+( DISTINCT)? (?=goes)")


@dataclass
class DistributedRunner:
    """A session's runner: each statement also runs in subtasks."""

    inner: Runner
    folder: Path
    report: Report
    distribute: Distribute

    @property
    def files(self) -> FileAccess:
        """Those that the inner runner may use."""
        return self.inner.files

    def run(
        self, sinks: Sequence[Sink], settings: Mapping[str, str], emit: Callable[[Batch], None]
    ) -> int:
        statement = Statement(tuple(sinks), dict(settings)).folded()
        self.report.done["statements"] += 1
        if why := _first(_chance, sinks) or _first(scrambles, sinks) or _first(_tells_time, sinks):
            self._leave_out("not compared", why)
        elif self._compare_all(statement):
            self.report.done["distributed"] += 1
        return self.inner.run(sinks, settings, emit)

    def _compare_all(self, statement: Statement) -> bool:
        """Over one shard, too, where rows may be late: over several it depends on their order which
        ones are."""
        tick_ms = 0 if _first(asks_the_clock, statement.sinks) else TICK_MS
        late = any(map(goes_by_event_time, statement.sinks))
        if late and any(map(judges_what_was_handed_on, statement.sinks)):
            self._leave_out(
                "without late rows",
                "which rows are late depends on how far parts are from each other",
            )
            statement, late = patient(statement, _PATIENCE_MS), False
        if why := _first(asks_for_order, statement.sinks) or _first(
            _asks_for_watermark, statement.sinks
        ):
            done = self._compare(statement, 1, tick_ms)
            if done:
                self._leave_out("over one shard only", why)
            return done
        if not self._compare(patient(statement, _PATIENCE_MS), SHARDS, tick_ms):
            return False
        self.report.done["over shards"] += 1
        return not late or self._compare(statement, 1, tick_ms)

    def _compare(self, statement: Statement, shards: int, tick_ms: int) -> bool:
        """Whether it ran in subtasks."""
        place, done = self.folder / "world", False
        with self.report.recording_failures(f"{shards} shards"), broker_in(place) as broker:
            try:
                sinks = Topics(broker, shards).over(statement.sinks)
                if why := _first(
                    lambda sink: why_not_distributed(sink, declared_capabilities) or "", sinks
                ):
                    self._leave_out("not distributed", why)
                else:
                    expected = _results(
                        Group(broker, rows_per_read=ROWS, tick_ms=tick_ms),
                        _run_locally,
                        "out",
                        sinks,
                    )
                    done = True
            except SqlError as error:
                self._leave_out("refused", error.message)
            if done:
                found = self._run_distributed(
                    Group(broker, rows_per_read=ROWS, tick_ms=tick_ms), sinks
                )
                self.report.expect(
                    f"{shards} shards",
                    f"{found}, local {expected}" if found != expected else "",
                )
        shutil.rmtree(place)
        return done

    def _run_distributed(self, group: Group, sinks: tuple[Sink, ...]) -> Results:
        chance = Random(self.report.done["statements"])
        found = _results(
            group,
            lambda group, job: self.distribute(group, job, chance),
            "divided",
            tuple(_renamed(s) for s in sinks),
        )
        self.report.done += group.acts
        return found

    def _leave_out(self, what: str, why: str) -> None:
        self.report.left_out[what, _NAMES.sub("", why)] += 1


def _first(question: Callable[[Sink], str], sinks: Sequence[Sink]) -> str:
    return next((why for sink in sinks if (why := question(sink))), "")


def _chance(sink: Sink) -> str:
    """Of the time all are told the same while the clock stands still."""
    return "asks for chance" if any(_CHANCE & n.functions for n in nodes_of(sink)) else ""


def _tells_time(sink: Sink) -> str:
    logged = any(WATERMARK in n.functions and keyed(n) for n in nodes_of(sink))
    return (
        "tells how far the time is where rows of other keys come, which depends on how far"
        " parts are"
        if logged
        else ""
    )


def _asks_for_watermark(sink: Sink) -> str:
    return "asks for the watermark" if any(WATERMARK in n.functions for n in nodes_of(sink)) else ""


def _results(
    group: Group, run: Callable[[Group, PlannedJob], None], topic: str, sinks: tuple[Sink, ...]
) -> Results:
    try:
        run(group, PlannedJob("job", sinks))
    except Failed as failed:
        for subtask in group.open.values():
            subtask.abandon()
        return failed.why
    return [left_in(values_of(group.broker, f"{topic}-{n}")) for n in range(len(sinks))]


def _run_locally(group: Group, job: PlannedJob) -> None:
    run_locally(group, job).close()


def run_at_fixed_parallelism(group: Group, job: PlannedJob, chance: Random) -> None:
    group.start()
    group.submit(job)
    # Parts without a shard say so first: which rows are late depends on when the others know.
    for index in reversed(group.open):
        group.step(index)
    group.run(chance, DISTURBANCE)
    group.close()


def run_with_rescaling(group: Group, job: PlannedJob, chance: Random) -> None:
    """After some steps another number of subtasks takes up all that the job has."""
    group.start()
    group.submit(job)
    for index in [
        *reversed(group.open),
        *chance.choices(range(group.parallelism), k=chance.randrange(12)),
    ]:
        group.step(index)
    quiesce(group)
    other = replace(
        group,
        parallelism=2,
        graph="other",
        open={},
        snapshots={"all": merged_snapshot(group, job.name)},
    )
    for subtask in group.open.values():
        subtask.abandon()
    other.start()
    other.take(job, "all")
    other.run(chance, DISTURBANCE)
    other.close()


def _renamed(sink: Sink) -> Sink:
    assert sink.table is not None
    topic = sink.table.options.get("topic", "").replace("out", "divided")
    return replace(sink, table=replace(sink.table, options={**sink.table.options, "topic": topic}))


def compare(
    script: Script, folder: Path, distribute: Distribute = run_at_fixed_parallelism
) -> Report:
    """All statements of the script. `folder` is empty."""
    report = Report()
    return rerun(
        script,
        folder,
        report,
        lambda inner, out: DistributedRunner(inner, folder, report, distribute),
    )
