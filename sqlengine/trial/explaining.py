"""Why a rule fires for an event, or does not: each condition with the values that it saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from planner.logical import Filter, HoldBack, LogicalPlan, Project, Sink
from planner.rewrite import nodes
from planner.scalar import Call, ColumnRef, Scalar, columns_of
from planner.wording import ALERT_CLOCK, ALERT_LOCAL, in_words, words_of
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

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts that keep rows from passing."""
        return self.rows


@dataclass(frozen=True)
class State:
    """An operation with state, and what it did with an event.

    `key`: the values under which it keeps rows; `came`: the rows of the event that reached it;
    `others`: how many rows of the other side a join had under that key; `gave`: the rows that it
    gives because of them, and `instead_of` those that it takes back, or would give without them. A
    window gives what it would if it ended now. `matched`: the variables of a pattern that the
    event's match has so far, of all; `conditions`: those of a pattern or a join for the rows that
    it saw. `ahead`: the event time of a row before it that may have made the event late."""

    operation: str
    key: Row
    came: tuple[Row, ...]
    gave: tuple[Row, ...]
    instead_of: tuple[Row, ...]
    others: int | None = None
    matched: tuple[str, ...] | None = None
    pattern: tuple[str, ...] = ()
    conditions: tuple[Verdict, ...] = ()
    ahead: str | None = None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts of a join on pairs of rows; what a pattern waits for says what it needs."""
        return () if self.pattern else self.conditions


@dataclass(frozen=True)
class Why:
    """The way of events through a rule: its filters and operations with state, in the order in
    which rows pass them, and the rows that it writes, by table. `notes`: what it does not know;
    `held_back`: what the head of the rule says that holds alerts back."""

    steps: tuple[Filtered | State, ...]
    alerts: Mapping[str, Sequence[Row]]
    notes: tuple[str, ...] = ()
    held_back: tuple[str, ...] = ()

    @property
    def filters(self) -> tuple[Filtered, ...]:
        """The steps that are filters."""
        return tuple(step for step in self.steps if isinstance(step, Filtered))


def worded(step: Filtered | State, words: Mapping[str, str]) -> Filtered | State:
    """Returns a step in which columns have other names."""
    if not words:
        return step
    if isinstance(step, Filtered):
        rows = tuple(_worded(verdict, words) for verdict in step.rows)
        return Filtered(in_words(step.condition, words), rows)
    return replace(
        step,
        key=_row(step.key, words),
        came=tuple(_row(row, words) for row in step.came),
        gave=tuple(_row(row, words) for row in step.gave),
        instead_of=tuple(_row(row, words) for row in step.instead_of),
        conditions=tuple(_worded(verdict, words) for verdict in step.conditions),
    )


def _worded(verdict: Verdict, words: Mapping[str, str]) -> Verdict:
    parts = tuple(_worded(part, words) for part in verdict.parts)
    columns = _row(verdict.columns, words)
    return replace(verdict, text=in_words(verdict.text, words), columns=columns, parts=parts)


def _row(row: Row, words: Mapping[str, str]) -> Row:
    shown = (name for name in row if name not in (ALERT_CLOCK, ALERT_LOCAL))
    return {words.get(name, name): row[name] for name in shown}


def why(bench: Bench, rule: TrialRule, events: Sequence[Event]) -> Why:
    """Returns what a rule makes of events, which are all that it has seen. SqlError for what fails
    a job."""
    found = [n for sink in rule.sinks for n in nodes(sink)]
    filters = {n.digest: n for n in reversed(found) if isinstance(n, Filter)}
    result = bench.run(rule.sinks, rule.settings, events)
    stateful = dict.fromkeys(type(n).__name__ for n in reversed(found) if n.stateful)
    alone = f"its state is empty but for this event: {', '.join(stateful)}"
    return Why(
        tuple(worded(_filtered(bench, rule, n, events), words_of(n)) for n in filters.values()),
        rows_written(rule, result),
        (alone,) if stateful else (),
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

        bench.run([Sink(whether_held(node), None, rule.name)], rule.settings, events, emit=take)
        if held:
            yield node.reason


def whether_held(node: HoldBack) -> LogicalPlan:
    """Returns a plan that says in a column `held` whether an alert is held back."""
    return Project(node.input, (("held", node.predicate),))


def _filtered(bench: Bench, rule: TrialRule, node: Filter, events: Sequence[Event]) -> Filtered:
    rows: list[Row] = []

    def take(batch: Batch) -> None:
        rows.extend(row for _, row in rows_of(batch))

    plan = Sink(judged(node), None, rule.name)
    bench.run([plan], rule.settings, events, emit=take)
    return Filtered(str(node.predicate), verdicts(node.predicate, rows))


def judged(node: Filter) -> LogicalPlan:
    """Returns a plan that gives the values of all parts of a filter's condition, and of the columns
    that these see, for each row that reaches it: what `verdicts` takes."""
    columns = sorted(columns_of(node.predicate))
    types = {c.name: c.type for c in node.input.schema}
    items = [(str(number), part) for number, part in enumerate(_parts(node.predicate))]
    items += [(_COLUMN + name, ColumnRef(name, types[name])) for name in columns]
    return Project(node.input, tuple(items))


def verdicts(condition: Scalar, rows: Sequence[Row]) -> tuple[Verdict, ...]:
    """Returns the verdicts of a condition for the rows of its `judged` plan."""
    return tuple(_verdict(condition, row, [0]) for row in rows)


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
