"""Alerts that are held back, as the head of a rule says it."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from parser.errors import PlanError
from parser.parsing import parse_condition
from parser.types import BIGINT, Column, TimeAttribute, timestamp
from planner.analysis.alert_limits import (
    LONGER_MS,
    MAINTENANCE,
    AlertLimits,
    Limit,
    during,
    keeps_time,
    limits_in,
)
from planner.analysis.alert_limits import time_column as row_time
from planner.analysis.context import AnalysisContext
from planner.binder import pool
from planner.binder.expressions.calls import function_call
from planner.binder.expressions.casts import cast, implicit_cast
from planner.binder.expressions.literals import text
from planner.binder.expressions.scalars import bind_scalar
from planner.binder.scope import Context, Field, Place, Scope, did_you_mean
from planner.binder.windows.over_alerts import alert_column
from planner.logical import AlertPeriods, Frame, HoldBack, LogicalPlan, Over, Project, Sink, SortKey
from planner.rewrite import references
from planner.scalar import Scalar
from planner.wording import ALERT, ALERT_CLOCK, ALERT_LOCAL
from udf.casts.coercion import can_assign

_TIMESTAMP = timestamp(3)
_NOWHERE = exp.Null()


def suppress_alerts(sink: Sink, context: AnalysisContext) -> Sink:
    """Puts right below the table what `suppress`, `threshold`, `limit` and `maintenance` of the
    rule's head say: the plan of the SQL that `planner.analysis.plain_alerts` writes.

    >>> from planner.examples import show
    >>> show('suppress_alerts', '''
    ... SET 'rule.suppress' = '1h by k';
    ... INSERT INTO late SELECT k, v FROM e''')
    AssignWatermark ts AS ts
    -->
    HoldBack (alert$suppress IS NULL) (suppress: 1h by k)
      Over SUPPRESSED(alert$clock, 3600000, 1) AS alert$suppress OVER (PARTITION BY k ORDER BY alert$clock RANGE UNBOUNDED PRECEDING)  [state TTL 90000000 ms]
        Project k, v, PROCTIME() AS alert$clock
          Project k, v
            AssignWatermark ts AS ts

    Rows are judged in the order in which they come, so that the first one passes at once, and by
    their own time where they have one. PlanError for a column that the alerts have not, and for a
    query that takes alerts back.
    """  # noqa: E501 - lines of a plan
    limits = limits_in(context.settings)
    if limits is None or sink.table is None:
        return sink
    _check(sink, limits)
    time = row_time(sink)
    plan = _timed(sink, limits, time)
    if limits.maintenance:
        reason = f"{MAINTENANCE}: {limits.text}"
        plan = HoldBack(plan, _held(limits, context), reason, counts=True)
    number: tuple[str, ...] = ()
    for limit in limits.limits:
        plan = (
            _closed(plan, limit, sink, time)
            if limit.limit.closes
            else _limited(plan, limit, (time or ALERT_CLOCK, *number))
        )
        number = (_column(limit),) if limit in limits.counting else ()
    items = tuple(
        (c.name, _number(number[0], c) if c.name == limits.into else pool.column(c.name, c.type))
        for c in sink.input.schema
    )
    return replace(sink, input=Project(plan, items))


def _check(sink: Sink, limits: AlertLimits) -> None:
    """PlanError where the limits do not fit the alerts."""
    first = limits.limits[0].key if limits.limits else "rule.maintenance"
    if sink.input.changes:
        raise PlanError(
            "alerts that are updated or deleted cannot be held back",
            detail=f"the query changes rows that it has written to '{_target(sink)}'",
            hint="aggregate by windows (TUMBLE), or take the field out of the head",
            subject=first,
        )
    for limit in limits.limits:
        into = [limit.limit.into] if limit.limit.into else []
        for name in (*limit.limit.by, *into):
            _check_column(sink, limit, name)
        if into:
            _check_number(sink, limit, limits)
        if limit.limit.closes:
            _check_closing(sink, limit, limits)


def _check_column(sink: Sink, limit: Limit, name: str) -> None:
    names = sink.input.schema.names
    if name not in names:
        raise PlanError(
            f"'{limit.field}' names column '{name}', which alerts of '{_target(sink)}' do not have",
            hint=did_you_mean(name, list(names), "column"),
            subject=limit.key,
        )


def _check_number(sink: Sink, limit: Limit, limits: AlertLimits) -> None:
    """PlanError for a column that cannot say how many alerts were held back."""
    name = limit.limit.into
    if name in limit.limit.by or name != limits.into:
        counted = name in limit.limit.by
        raise PlanError(
            f"'{limit.field}' cannot write its number into column '{name}'",
            detail="the alerts are counted by it" if counted else "there is one number for all",
            hint="name another column" if counted else f"leave out 'into {name}'",
            subject=limit.key,
        )
    kind = sink.input.schema.type(name)
    if not can_assign(BIGINT, kind):
        raise PlanError(
            f"column '{name}' of '{_target(sink)}' is {kind.plain}, but '{limit.field}' writes a"
            " BIGINT into it",
            hint="declare it as BIGINT",
            subject=limit.key,
        )


def _check_closing(sink: Sink, limit: Limit, limits: AlertLimits) -> None:
    """PlanError where the end of a period cannot be told by a row."""
    if len(limits.counting) > 1:
        raise PlanError(
            f"'{limit.field}' cannot end its times with a row of their own",
            detail="'suppress' and 'limit' hold back together, and have one number",
            hint=f"write 'into {limit.limit.into}' without 'then count'",
            subject=limit.key,
        )
    time = row_time(sink)
    if time is not None and not keeps_time(sink, time):
        kind = sink.input.schema.type(time).plain
        raise PlanError(
            f"'{limit.field}' cannot end its times with a row of their own",
            detail=f"column '{time}' of '{_target(sink)}' is {kind}, and the watermark is not",
            hint="declare the column with the type of the query's row time",
            subject=limit.key,
        )


def _target(sink: Sink) -> str:
    assert sink.table is not None
    return sink.table.display


def _timed(sink: Sink, limits: AlertLimits, time: str | None) -> LogicalPlan:
    """The alerts with the clock, and with the time that maintenance asks for."""
    plan = sink.input
    clock = function_call("PROCTIME", (), _NOWHERE)
    at = clock if time is None else pool.column(time, plan.schema.type(time))
    added: tuple[tuple[str, Scalar], ...] = ((ALERT_CLOCK, clock),) if limits.limits else ()
    if limits.maintenance:
        plain = at.type.as_attribute(TimeAttribute.NONE)
        local = at if plain.same_as(_TIMESTAMP) else cast("CAST", at, _TIMESTAMP, _NOWHERE)
        added = (*added, (ALERT_LOCAL, local))
    return Project(plan, (*references(plan.schema, plan.schema.names), *added))


def _held(limits: AlertLimits, context: AnalysisContext) -> Scalar:
    """The condition for alerts in a maintenance."""
    local = pool.column(ALERT_LOCAL, _TIMESTAMP)
    scope = Scope((Field((), "t", local),))
    place = Place(Context(context.catalog, context.settings), scope, "WHERE")
    return bind_scalar(parse_condition(during(limits.maintenance, "t")), place)


def _column(limit: Limit) -> str:
    return ALERT + limit.field


def _limited(plan: LogicalPlan, limit: Limit, columns: tuple[str, ...]) -> LogicalPlan:
    """The alerts that pass a limit, with its value; `columns`: of their time, and of the number
    that they bring along."""
    name, of = _column(limit), limit.limit
    kind = plan.schema.type(columns[0])
    call = alert_column(name, limit.function, columns, kind, (of.period_ms, of.rows))
    over = Over(
        plan,
        of.by,
        (SortKey(ALERT_CLOCK),),
        Frame(),
        (call,),
        ttl_ms=of.period_ms + LONGER_MS,
    )
    test = "IS NOT TRUE" if limit.function == "REACHED" else "IS NULL"
    held = function_call(test, (pool.column(name, call.type),), _NOWHERE)
    return HoldBack(over, held, f"{limit.field}: {limit.text}")


def _closed(plan: LogicalPlan, limit: Limit, sink: Sink, time: str | None) -> LogicalPlan:
    """The alerts that pass a limit, and those that end its periods."""
    name, of = _column(limit), limit.limit
    alerts = Project(plan, references(plan.schema, sink.input.schema.names))
    periods = AlertPeriods(alerts, of.by, of.period_ms, of.rows, name, time)
    held = function_call("IS NULL", (pool.column(name, BIGINT),), _NOWHERE)
    return HoldBack(periods, held, f"{limit.field}: {limit.text}")


def _number(name: str, column: Column) -> Scalar:
    """The number of alerts that were held back, as a value of the table's column."""
    number = implicit_cast(pool.column(name, BIGINT), column.type, _NOWHERE)
    if column.type.nullable:
        return number
    return function_call("CHECK NOT NULL", (number, text(column.name)), _NOWHERE)
