"""Why a rule fires for an event, or does not: each condition with the values that it saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.logical import Filter, HoldBack, LogicalPlan, Project, Sink
from planner.rewrite import nodes
from planner.scalar import Call, ColumnRef, Scalar, columns_of
from sqlengine.batch import Batch
from sqlengine.trial.bench import Bench
from sqlengine.trial.conditions import has_parts
from sqlengine.trial.events import Event, Row, rows_of
from sqlengine.trial.rules import TrialRule
from sqlengine.trial.testing import rows_written

_COLUMN = "c:"  # in front of the names of columns, so that they are not those of conditions


@dataclass(frozen=True)
class Verdict:
    """The value of a condition for a row, None where it is unknown. `columns`: the values that it
    saw; `parts`: what it is made of, if it is an AND, an OR or a NOT of these."""

    text: str
    value: bool | None
    columns: Mapping[str, object]
    parts: tuple[Verdict, ...] = ()

    def failing(self, wanted: bool = True) -> Iterator[Verdict]:
        """Yields the parts that keep the whole from being TRUE, as they would have to be."""
        if self.value is wanted:
            return
        if not self.parts:
            yield self if wanted else replace(self, text=f"NOT {self.text}")
        for part in self.parts:
            yield from part.failing(not wanted if self.text == "NOT" else wanted)


@dataclass(frozen=True)
class Filtered:
    """The verdicts of a filter on the rows that reached it; none did where one before it has taken
    them, or an operator waits for more."""

    condition: str
    rows: tuple[Verdict, ...]


@dataclass(frozen=True)
class Why:
    """The way of events through a rule: the verdicts of its filters, in the order in which rows
    pass them, and the rows that it writes, by table. `stateful`: the operators that remember rows,
    of which there are none before these events; `held_back`: what the head of the rule says that
    holds alerts back."""

    filters: tuple[Filtered, ...]
    alerts: Mapping[str, Sequence[Row]]
    stateful: tuple[str, ...]
    held_back: tuple[str, ...] = ()


def why(bench: Bench, rule: TrialRule, events: Sequence[Event]) -> Why:
    """Returns what a rule makes of events, which are all that it has seen. SqlError for what fails
    a job."""
    found = [n for sink in rule.sinks for n in nodes(sink)]
    filters = {n.digest: n for n in reversed(found) if isinstance(n, Filter)}
    result = bench.run(rule.sinks, rule.settings, events)
    return Why(
        tuple(_filtered(bench, rule, node, events) for node in filters.values()),
        rows_written(rule, result),
        tuple(dict.fromkeys(type(n).__name__ for n in reversed(found) if n.stateful)),
        tuple(dict.fromkeys(_held_back(bench, rule, reversed(found), events))),
    )


def _held_back(
    bench: Bench, rule: TrialRule, plans: Iterable[LogicalPlan], events: Sequence[Event]
) -> Iterator[str]:
    """Yields the reasons for which alerts are held back."""
    for node in plans:
        if not isinstance(node, HoldBack):
            continue
        held: list[Row] = []

        def take(batch: Batch, held: list[Row] = held) -> None:
            held.extend(row for _, row in rows_of(batch) if row["held"])

        plan = Sink(Project(node.input, (("held", node.predicate),)), None, rule.name)
        bench.run([plan], rule.settings, events, emit=take)
        if held:
            yield node.reason


def _filtered(bench: Bench, rule: TrialRule, node: Filter, events: Sequence[Event]) -> Filtered:
    parts = list(_parts(node.predicate))
    columns = sorted(columns_of(node.predicate))
    types = {c.name: c.type for c in node.input.schema}
    items = [(str(number), part) for number, part in enumerate(parts)]
    items += [(_COLUMN + name, ColumnRef(name, types[name])) for name in columns]
    rows: list[Row] = []

    def take(batch: Batch) -> None:
        rows.extend(row for _, row in rows_of(batch))

    plan = Sink(Project(node.input, tuple(items)), None, rule.name)
    bench.run([plan], rule.settings, events, emit=take)
    return Filtered(str(node.predicate), tuple(_verdict(node.predicate, row, [0]) for row in rows))


def _parts(expression: Scalar) -> Iterator[Scalar]:
    """Yields the condition and what it is made of, from the top."""
    yield expression
    if has_parts(expression):
        assert isinstance(expression, Call)
        for part in expression.args:
            yield from _parts(part)


def _verdict(expression: Scalar, row: Row, place: list[int]) -> Verdict:
    """The verdict on an expression whose value is the next one of the row."""
    value = row[str(place[0])]
    assert value is None or isinstance(value, bool)
    place[0] += 1
    if has_parts(expression):
        assert isinstance(expression, Call)
        parts = tuple(_verdict(part, row, place) for part in expression.args)
        return Verdict(expression.function, value, {}, parts)
    seen = {name: row[_COLUMN + name] for name in sorted(columns_of(expression))}
    return Verdict(str(expression), value, seen)
