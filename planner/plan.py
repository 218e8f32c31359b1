"""The way of one statement through the planner: bind, analyse, optimise, map tables of look-ups,
deliver late rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from parser.errors import PlanError, Position, SqlError
from parser.limits import refused
from parser.statements import Insert, Query, StatementSet
from planner.analysis.context import AnalysisContext
from planner.analysis.late_rows import late_row_sinks
from planner.analysis.map_lookups import map_lookups
from planner.analysis.plain_alerts import plain_alerts
from planner.analysis.process_uids import check_uids
from planner.analyzer import analyze
from planner.binder import bind, too_deep
from planner.binder.scope import check_nodes
from planner.capabilities import Capabilities
from planner.catalog import Catalog, Table
from planner.logical import LogicalPlan, ProcessFunction, Sink
from planner.optimizer import NONE, disabled_passes, optimize
from planner.rewrite import nodes
from planner.scalar import Call

# The name of the last step: behind the passes, which find the columns that are compared.
MAP_LOOKUPS: Final = map_lookups.__name__


@dataclass(frozen=True)
class Trace:
    """The way of a plan. `steps`: as it was bound, and after each step and pass that changed it,
    ('bind', plan), …; `plain`: the statement without what the head of its rule adds, where that
    can be written as SQL."""

    steps: tuple[tuple[str, LogicalPlan], ...]
    plain: str = ""


@dataclass(frozen=True)
class PlannedStatement:
    """A query, an INSERT or a statement set, ready to be merged into a graph. `sinks`: one for each
    INSERT, followed by those of its late rows; `traces`: how each INSERT's plan came about, where
    EXPLAIN asked for it."""

    sinks: tuple[Sink, ...]
    traces: tuple[Trace, ...] = ()


def plan(
    statement: Query | Insert | StatementSet,
    catalog: Catalog,
    settings: Mapping[str, str],
    *,
    capabilities_of: Callable[[Table], Capabilities],
    job: str = "",
    place: int = 0,
    disabled: frozenset[str] = NONE,
    traced: bool = False,
    calls: dict[str, ProcessFunction] | None = None,
) -> PlannedStatement:
    """Binds, analyses and optimises a statement, and delivers its late rows.

    `calls`: the process functions of the job by uid, which those of the statement join;
    `capabilities_of`: what connectors say of the tables that are written; `place`: the number that
    the (first) sink has in the job; `disabled`: steps and passes that do not run, besides the
    passes that the settings switch off. SqlError with the position in the script."""
    context = AnalysisContext(catalog, settings, capabilities_of)
    disabled |= disabled_passes(settings)
    known = {} if calls is None else calls
    sinks: list[Sink] = []
    traces: list[Trace] = []
    try:
        for number, bound in enumerate(bind(statement, catalog, settings, job=job, place=place)):
            _check(bound, statement.position)
            check_uids(bound, known)
            trace = _Recorder(bound) if traced else None
            with _placed(statement, number):
                analyzed = analyze(bound, context, disabled=disabled, observe=trace)
            optimized = optimize(analyzed, disabled=disabled, observe=trace)
            if MAP_LOOKUPS not in disabled:
                optimized = map_lookups(optimized)
                if trace:
                    trace(MAP_LOOKUPS, optimized)
            _check(optimized, statement.position)
            sinks += (optimized, *late_row_sinks(optimized, context))
            traces += (_trace(trace, statement, number, settings),) if trace else ()
    except RecursionError:
        raise too_deep(statement.position) from None
    return PlannedStatement(tuple(sinks), tuple(traces))


@contextmanager
def _placed(statement: Query | Insert | StatementSet, number: int) -> Iterator[None]:
    """Gives errors the place of the INSERT of that number, where one of several is at fault."""
    try:
        yield
    except SqlError as error:
        if isinstance(statement, StatementSet) and error.table is None:
            error.at(statement.inserts[number].position)
        raise


def _check(plan: LogicalPlan, position: Position | None) -> None:
    """PlanError where a plan, or one of its expressions, has too many nodes."""
    check_nodes(plan.size, position)
    sizes = (e.size for n in nodes(plan) for e in n.expressions if isinstance(e, Call))
    most = refused(max(sizes, default=0), "expression_nodes")
    if most is not None:
        raise PlanError(
            f"an expression has more than {most:,} parts ('expression-nodes')",
            hint="keep lists of values in a table and join it",
            position=position,
        )


def _trace(
    recorder: _Recorder,
    statement: Query | Insert | StatementSet,
    number: int,
    settings: Mapping[str, str],
) -> Trace:
    """The trace of the INSERT of this number in the statement."""
    inserts = statement.inserts if isinstance(statement, StatementSet) else (statement,)
    insert, (_, bound) = inserts[number], recorder.steps[0]
    if not isinstance(insert, Insert) or not isinstance(bound, Sink):
        return Trace(recorder.steps)
    return Trace(recorder.steps, plain_alerts(insert, bound, settings))


class _Recorder:
    """Keeps the plan after every arrow that changed it."""

    def __init__(self, bound: LogicalPlan) -> None:
        self.steps: tuple[tuple[str, LogicalPlan], ...] = (("bind", bound),)

    def __call__(self, name: str, after: LogicalPlan) -> None:
        if after.digest != self.steps[-1][1].digest:
            self.steps += ((name, after),)
