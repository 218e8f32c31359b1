"""Runs the cases of a rule, and says how what came differs from what was expected."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from parser.errors import PlanError, SqlError
from planner.catalog import Table
from sqlengine.system.words import count
from sqlengine.trial.bench import Bench, Result
from sqlengine.trial.cases import Case, CaseFile, Expected, Given
from sqlengine.trial.events import BEGIN_MS, RECORD, TABLE, Event, Row, event_of, folded, instant
from sqlengine.trial.matching import Difference, difference
from sqlengine.trial.record_lines import rows_of_records
from sqlengine.trial.rules import TrialRule


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case. It has passed without `differences` and without an `error`: rows in
    error that nobody expected, or why it could not be run. `came`: the rows of each table that the
    rule writes; `seconds`: of the run."""

    case: Case
    seconds: float
    came: Mapping[str, Sequence[Row]]
    differences: tuple[Difference, ...] = ()
    error: SqlError | None = None

    @property
    def passed(self) -> bool:
        return not self.differences and self.error is None


def run_cases(bench: Bench, rule: TrialRule, file: CaseFile) -> Iterator[Outcome]:
    """Yields the outcome of each case in order."""
    for case in file.cases:
        begin = time.perf_counter()
        try:
            came, result = run_case(bench, rule, file, case)
            differences, error = _judged(rule, case, came), _unexpected_errors(case, result)
        except SqlError as failed:
            came, differences, error = {}, (), failed
        if error is not None:
            error = error.at(case.position).in_file(str(file.path))
        yield Outcome(case, time.perf_counter() - begin, came, differences, error)


def run_case(
    bench: Bench, rule: TrialRule, file: CaseFile, case: Case
) -> tuple[Mapping[str, Sequence[Row]], Result]:
    """Returns the rows that each table of the rule has behind a case. SqlError for events that
    cannot be, and for what fails a job."""
    result = bench.run(rule.sinks, rule.settings, events_of(rule, file, case), until_of(case))
    return rows_written(rule, result), result


def rows_written(rule: TrialRule, result: Result) -> Mapping[str, Sequence[Row]]:
    """Returns the rows that each table of the rule has behind a run, by the table's name."""
    tables = {table.name: table for table in rule.writes}
    return {
        tables[name].display: folded(changes, tables[name].primary_key)
        for name, changes in result.changes.items()
    }


def events_of(rule: TrialRule, file: CaseFile, case: Case) -> list[Event]:
    """Returns the events of a case, behind the rows that its file has for all; those that were
    recorded in the order of their times. SqlError for what is none of the rule."""
    events: list[Event] = []
    for given in (file.tables, case.events):
        rows = list(_rows(rule, given))
        begin = len(events)
        for table, row in _decoded(rule, rows):
            events.append(event_of(table, row, events[-1].time if events else BEGIN_MS))
        if rows and all(RECORD in row for _, row in rows):
            events[begin:] = sorted(events[begin:], key=lambda event: event.time)
    return events


def _decoded(rule: TrialRule, rows: Sequence[tuple[Table, Row]]) -> Iterator[tuple[Table, Row]]:
    """Yields rows as they are, and records as the rows that the formats of their tables make of
    them."""
    for (table, recorded), found in groupby(rows, lambda pair: (pair[0], RECORD in pair[1])):
        if not recorded:
            yield from found
            continue
        records = [record for _, row in found if isinstance(record := row[RECORD], dict)]
        written = rule.catalog.table_of(table)
        yield from ((table, row) for row in rows_of_records(table, written, records))


def until_of(case: Case) -> int | None:
    """Returns where the clock goes on to behind the last event (ms)."""
    return None if case.until is None else instant(case.until)


def _rows(rule: TrialRule, given: Given) -> Iterator[tuple[Table, Row]]:
    """Yields rows with their tables, in the order of the file."""
    if isinstance(given, Mapping):
        for name, rows in given.items():
            table = _named(name, rule.reads, f"rule '{rule.name}' does not read")
            yield from ((table, row) for row in rows)
        return
    for row in given:
        if TABLE in row:
            name = str(row[TABLE])
            table = _named(name, rule.reads, f"rule '{rule.name}' does not read")
        else:
            table = _only(rule.streams, f"rule '{rule.name}' reads", "events: {table: [...]}")
        yield table, row


def _judged(
    rule: TrialRule, case: Case, came: Mapping[str, Sequence[Row]]
) -> tuple[Difference, ...]:
    return tuple(
        found
        for table, expected in _expected(rule, case.alerts)
        if (found := difference(table.display, expected, came[table.display])) is not None
    )


def _expected(rule: TrialRule, alerts: Expected) -> Iterator[tuple[Table, Sequence[Row] | int]]:
    if alerts is None:
        return
    if isinstance(alerts, Mapping):
        for name, rows in alerts.items():
            table = _named(name, rule.writes, f"rule '{rule.name}' does not write")
            yield table, _with_known_columns(table, rows)
        return
    table = _only(rule.writes, f"rule '{rule.name}' writes", "alerts: {table: [...]}")
    yield table, _with_known_columns(table, alerts)


def _with_known_columns(table: Table, rows: Sequence[Row] | int) -> Sequence[Row] | int:
    for row in () if isinstance(rows, int) else rows:
        for name in row:
            if name not in table.schema.names:
                columns = ", ".join(table.schema.names)
                raise PlanError(
                    f"table '{table.display}' has no column '{name}'", detail=f"it has {columns}"
                )
    return rows


def _unexpected_errors(case: Case, result: Result) -> SqlError | None:
    if result.errors == case.errors:
        return None
    return PlanError(
        f"{count(result.errors, 'row')} in error, where {case.errors} should be",
        detail=result.first_error or None,
        hint="such a row becomes a dead letter; 'errors: N' in the case says that there are some",
    )


def _named(name: str, tables: Sequence[Table], what: str) -> Table:
    for table in tables:
        if name in (table.display, ".".join(table.name)):
            return table
    raise PlanError(f"{what} table '{name}'", detail=f"but {_names(tables)}")


def _only(tables: Sequence[Table], what: str, hint: str) -> Table:
    if len(tables) == 1:
        return tables[0]
    raise PlanError(f"{what} {_names(tables)}", hint=f"say which: {hint}")


def _names(tables: Sequence[Table]) -> str:
    return ", ".join(table.display for table in tables) or "no table"
