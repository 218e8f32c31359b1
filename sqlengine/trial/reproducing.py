"""Looks whether a rule gives an equal row again for given rows of its tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from parser.errors import JobError
from parser.types import Schema
from planner.logical import Filter, LogicalPlan, Names, Project, Sink
from planner.logical.change_kinds import RowKind
from planner.logical.node import Stateful
from planner.rewrite import conjunction, nodes, transform
from planner.scalar import Call, Scalar, columns_of, conjuncts_of, is_deterministic, walk
from planner.tables import Identifier
from sqlengine.batch import Batch
from sqlengine.broker.base import Broker
from sqlengine.trial.bench import Bench, Portion
from sqlengine.trial.events import rows_of
from sqlengine.trial.recorded import History, Place, TableRecords
from sqlengine.trial.rules import TrialRule
from sqlengine.trial.wanted import equalities, rows_that, volatile, wanted_rows

COMES = (RowKind.INSERT, RowKind.UPDATE_AFTER)
_MOST_APART = 2_000
_ONE_ROW = Batch(Schema(()), (), 1)


@dataclass(frozen=True)
class Reproduction:
    """A row that an INSERT of a rule has written to its table, to be written again.

    `row`: the only one of a batch with the columns of the table; `until`: when it was written at
    the latest (ms); `apart`: each row of a table comes alone."""

    bench: Bench
    rule: TrialRule
    sink: Sink
    row: Batch
    until: int
    apart: bool = False

    def found_in(self, given: History) -> Reproduction | None:
        """Returns what writes the row for these rows, this or the same with rows that come alone:
        what late rows come to depends on these; None where nothing does."""
        if self.suffices(given):
            return self
        alone = replace(self, apart=True)
        few = not self.timed and len(given) <= _MOST_APART
        return alone if few and alone.suffices(given) else None

    @cached_property
    def volatile(self) -> tuple[str, ...]:
        """The columns that have another value each time, and are not compared."""
        return tuple(n for n in self.row.schema.names if volatile(self.sink.input, n))

    @cached_property
    def conditions(self) -> list[Scalar]:
        """The conditions that a row is this one, as far as they can be part of a plan."""
        names = [n for n in self.row.schema.names if n not in self.volatile]
        return equalities(self.row, names)

    @cached_property
    def wanted(self) -> Mapping[Identifier, Scalar | None]:
        """A condition for each table that the rule reads: only rows that fulfil it matter."""
        return wanted_rows(self.sink.input, self.conditions)

    @cached_property
    def possible(self) -> bool:
        """False if no row of its tables can become this one: a column always has another value."""
        parts = (p for c in self.wanted.values() if c is not None for p in conjuncts_of(c))
        constants = (p for p in parts if not columns_of(p))
        return all(len(rows_that(p, _ONE_ROW)) for p in constants)

    @cached_property
    def timed(self) -> bool:
        """True if what comes out depends on the clock."""
        return depends_on_clock(self.sink)

    def suffices(self, given: History) -> bool:
        """True if the rule writes the row for these rows. SqlError for what fails a job."""
        return self._written(given, self.apart) is not None

    def cause_in(self, given: History) -> int:
        """Returns how many of these rows, which suffice, had come when the row was written, the
        last time if it was so several times."""
        last = self._written(given, self.apart or len(given) <= _MOST_APART)
        return len(given) if last is None else last

    def _written(self, given: History, apart: bool) -> int | None:
        """Returns how many rows had come when the row was written last; None if it never was."""
        expected, come, last = self._compared(self.row), [0], list[int]()

        def take(batch: Batch) -> None:
            if any(
                kind in COMES and _same(self._values(values), expected)
                for kind, values in rows_of(batch)
            ):
                last[:] = come

        def counted() -> Iterator[Portion]:
            for portion in given.portions(timed=self.timed, apart=apart):
                come[0] += portion.rows.num_rows
                yield portion

        tables = [r.table for r in given.records]
        settings = self.rule.settings
        self.bench.run_portions([self._plan], settings, counted(), tables, self.until, take)
        return last[0] if last else None

    @cached_property
    def _plan(self) -> Sink:
        plan = row_by_row(self.sink.input)
        if self.conditions:
            plan = Filter(plan, conjunction(self.conditions))
        return Sink(plan, None, self.rule.name)

    def _compared(self, row: Batch) -> Mapping[str, object]:
        ((_, values),) = rows_of(row)
        return self._values(values)

    def _values(self, values: Mapping[str, object]) -> Mapping[str, object]:
        kept = set(self.row.schema.names) - set(self.volatile)
        return {n: v for n, v in values.items() if n in kept}


def reproductions(
    bench: Bench, rule: TrialRule, place: Place, until: int, broker: Broker
) -> list[Reproduction]:
    """Returns what a record may be of a rule: a row of each INSERT into its topic that can have
    written it, at the latest at a time (ms). JobError for what is no row of the rule's table."""
    found = []
    for sink in rule.sinks:
        written = None if sink.table is None else rule.catalog.table_of(sink.table)
        if sink.table is None or written is None or written.options.get("topic") != place.topic:
            continue
        records = TableRecords(sink.table, written, broker)
        row = records.rows(place.shard, place.offset, place.offset + 1)
        if len(row) != 1 or (row.rows.kinds is not None and row.rows.kinds[0] not in COMES):
            raise JobError(
                f"record {place} is no row of table '{sink.table.display}'",
                hint="a record without a value, or that cannot be read as one, is no alert",
            )
        names = tuple(n for n in sink.table.physical.names if n in sink.input.schema)
        alert = row.rows.take(np.zeros(1, np.int64), names)
        made = Reproduction(bench, rule, sink, replace(alert, kinds=None), until)
        if made.possible:
            found.append(made)
    return found


def row_by_row(plan: LogicalPlan) -> LogicalPlan:
    """Returns a plan that gives each change of its state, whatever comes together."""

    def rule(node: LogicalPlan) -> LogicalPlan:
        apart = isinstance(node, Stateful) and node.depends_on_batches
        return replace(node, row_by_row=True) if apart and isinstance(node, Stateful) else node

    return transform(plan, rule)


def depends_on_clock(sink: Sink) -> bool:
    """True if what a plan gives depends on the clock: on a function that asks for it, or on the
    time after which state goes."""
    return bool(chance_in(sink)) or any(
        isinstance(node, Stateful) and node.ttl_ms for node in nodes(sink)
    )


def chance_in(sink: Sink) -> list[str]:
    """Returns the calls of a plan that give another value each time, as far as columns need
    them."""
    found: dict[str, None] = {}
    waiting: list[tuple[LogicalPlan, Names]] = [(sink.input, frozenset(sink.input.schema.names))]
    while waiting:
        node, names = waiting.pop()
        read = node.expressions
        if isinstance(node, Project):
            read = tuple(e for name, e in node.items if name in names)
        found |= dict.fromkeys(str(c) for e in read for c in _chance(e))
        waiting += [(source, node.needs(names, port)) for port, source in enumerate(node.inputs)]
    return list(found)


def _chance(expression: Scalar) -> Iterator[Scalar]:
    for part in walk(expression):
        if (
            isinstance(part, Call)
            and not part.deterministic
            and all(map(is_deterministic, part.args))
        ):
            yield part


def _same(one: object, other: object) -> bool:
    """True if two values of JSON are equal; sums of the same numbers in another order are."""
    if isinstance(one, float) or isinstance(other, float):
        numbers = isinstance(one, int | float) and isinstance(other, int | float)
        return numbers and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)  # type: ignore[arg-type]
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[k], other[k]) for k in one)
    if isinstance(one, Sequence) and isinstance(other, Sequence) and not isinstance(one, str):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other
