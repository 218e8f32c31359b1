"""Ad-hoc statements: what they may be, and how a query of somebody who looks at a table is planned.

Rows that are final come as they are made. A query whose rows may change (a count, a join of two
streams) gives its final rows at the end, in batch mode; with `follow` it gives its changelog, as a
job would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from parser.errors import PlanError, SqlError, UnsupportedError
from parser.statements import (
    Alter,
    CreateFunction,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    LoadModule,
    Query,
    Reset,
    Set,
    Show,
    ShowCreate,
    Statement,
    StatementSet,
    UnloadModule,
    Use,
    UseModules,
)
from parser.types import Schema
from planner.binder.unsupported import refuse
from planner.logical import AskedScan, LogicalPlan, LookedUpScan, Project, Rank, Scan, Sink
from planner.rewrite import transform, transform_sink
from planner.settings import LATE_TABLE, RELOAD_OPTION, RUNTIME_MODE
from sqlengine.access.plans import check_plans
from sqlengine.access.policy import Action, Forbidden, require
from sqlengine.access.principals import TRUSTED, Principal
from sqlengine.batch import Batch
from sqlengine.queries.results import ResultBuffer
from sqlengine.session.session import Session

# What a query sees of a topic unless the table's options or a hint say otherwise.
_FROM_BEGINNING: Final = {"scan.startup.mode": "earliest-offset"}
_TO_END: Final = {"scan.bounded.mode": "latest-offset"}
_NOTHING_MADE: Final = {"topic.auto-create": "false"}
# Options with which files are read on and on.
_FOLLOWING: Final = frozenset({"source.follow", "source.monitor-interval"})
_READS: Final = (Query, Explain, Show, ShowCreate, Describe)
_SETS: Final = (Set, Reset, Use, UseModules, LoadModule, UnloadModule)


@dataclass
class AdHocSession(Session):
    """Executes the statements of a client against the catalog of a server.

    `buffer`: takes the results, `give`: the rows of queries. `follow`: queries go on with rows that
    come later. `by`: who asks."""

    buffer: ResultBuffer = field(default_factory=ResultBuffer)
    follow: bool = False
    by: Principal = TRUSTED
    give: Callable[[Batch], None] = lambda batch: None
    _wanted: int | None = field(default=None, init=False)
    _made: int = field(default=0, init=False)

    @property
    def complete(self) -> bool:
        """True if the query has all rows that its LIMIT lets through."""
        return self._wanted is not None and self._made >= self._wanted

    def execute(self, number: int, statement: Statement) -> None:
        """See `Session`. UnsupportedError for a statement that would write or define for others,
        Forbidden for what the client may not use."""
        self._check(statement)
        before = self.catalog
        super().execute(number, statement)
        fresh = [o for n, o in self.catalog.temporary.items() if before.temporary.get(n) is not o]
        try:
            check_plans(self.by, (), fresh)
        except Forbidden:
            self.catalog = before
            raise

    def settle(self) -> None:
        """Answers for what was executed, if that is not done yet; called where nothing runs."""

    def _check(self, statement: Statement) -> None:
        if isinstance(statement, CreateFunction):
            require(self.by, Action.USE_FUNCTION, statement.class_name)
        match statement:
            case CreateTable() if statement.query is not None:
                raise _refused("CREATE TABLE … AS SELECT", statement)
            case CreateTable() | CreateView() | CreateFunction() | Drop():
                if not statement.temporary:
                    verb = "DROP" if isinstance(statement, Drop) else "CREATE"
                    way = "remove the job that defines it: sql remove"
                    if verb == "CREATE":
                        way = "submit it as a job: sql submit FILE"
                    raise UnsupportedError(
                        f"{verb} without TEMPORARY changes what all jobs see",
                        detail="ad-hoc statements change their session alone",
                        hint=f"write {verb} TEMPORARY, or {way}",
                        position=statement.position,
                    )
            case Alter():
                if self.catalog.resolve(statement.name) not in self.catalog.temporary:
                    raise _refused("ALTER", statement, 'change it for all: sql execute "ALTER …"')
            case Insert() | StatementSet():
                raise _refused("INSERT", statement)
            case _ if not isinstance(statement, (*_READS, *_SETS)):
                refuse(statement)
                raise _refused("this statement", statement)

    def _query(self, number: int, statement: Query) -> None:
        settings, sinks = self._plan_query(statement)
        root = sinks[0].input
        self._made = 0
        self._wanted = None if RUNTIME_MODE in settings else _limit(root)
        self.buffer.announce(sinks[0].schema, changes=bool(root.changes))
        try:
            self.runner.run(sinks, settings, self._give)
        except PlanError as error:
            if settings is self.settings:
                raise
            raise PlanError(
                error.message,
                detail="rows that may change are final only behind the last one",
                hint="--follow (?follow=true) shows them as they change",
            ) from None

    def shape_of(self, statement: Query) -> tuple[Schema, bool]:
        """Returns the columns of a query, and whether its rows may change."""
        _, sinks = self._plan_query(statement)
        return sinks[0].schema, bool(sinks[0].input.changes)

    def _give(self, batch: Batch) -> None:
        self._made += batch.num_rows
        self.give(batch)

    def _plan_query(self, statement: Query) -> tuple[Mapping[str, str], Sequence[Sink]]:
        """Plans a query so that its rows are final, if it can be. Returns its settings and its
        plan."""
        if self.follow or RUNTIME_MODE in self.settings:
            return self.settings, self._sinks(statement, self.settings)
        refused: PlanError | None = None
        streaming: Sequence[Sink] = ()
        try:
            streaming = self._sinks(statement, self.settings)
            if not streaming[0].input.changes:
                return self.settings, streaming
        except PlanError as error:
            refused = error
        batch = {**self.settings, RUNTIME_MODE: "batch"}
        try:
            return batch, self._sinks(statement, batch)
        except PlanError:
            if refused is not None:
                raise refused from None
            return self.settings, streaming

    def _sinks(self, statement: Query, settings: Mapping[str, str]) -> tuple[Sink, ...]:
        planned = replace(self, settings=dict(settings))._plan(statement)
        check_plans(self.by, planned.sinks)
        if any(s.table is not None for s in planned.sinks):  # that of late rows
            raise _refused(f"a query with '{LATE_TABLE}'", statement)
        return tuple(transform_sink(s, self._looked_at) for s in planned.sinks)

    def _show(self, statement: Show | ShowCreate | Describe) -> Batch:
        if isinstance(statement, Show) and statement.what == "PARTITIONS":
            item = self.catalog.get(statement.name or ())
            check_plans(self.by, (), () if item is None else (item,))
        return super()._show(statement)

    def _looked_at(self, node: LogicalPlan) -> LogicalPlan:
        """Reads a table from its beginning, and unless rows are followed to its present end."""
        if isinstance(node, AskedScan):
            return node
        if isinstance(node, LookedUpScan):
            assert node.rows is not None
            return transform(node.rows, self._looked_at)
        if not isinstance(node, Scan):
            return node
        dropped = {RELOAD_OPTION} if self.follow else {RELOAD_OPTION, *_FOLLOWING}
        options = {k: v for k, v in node.table.options.items() if k not in dropped}
        if node.table.connector == "topic":
            options = {
                **_FROM_BEGINNING,
                **({} if self.follow else _TO_END),
                **options,
                **_NOTHING_MADE,
            }
        return replace(node, table=replace(node.table, options=options), looked_up=False)


def _limit(plan: LogicalPlan) -> int | None:
    """Returns the number of rows after which a plan gives no more; None where that is not known."""
    while isinstance(plan, Project):
        plan = plan.input
    if isinstance(plan, Rank) and plan.limits and plan.keeps_first and not plan.partition:
        return None if plan.end_column else plan.end - plan.start + 1
    return None


def _refused(
    what: str, statement: Statement, hint: str = "submit it as a job: sql submit FILE"
) -> UnsupportedError:
    return UnsupportedError(
        f"{what} cannot be run ad hoc",
        detail="ad-hoc statements write nothing: they read, and define for their session alone",
        hint=hint,
        position=statement.position,
    )


@dataclass(frozen=True)
class BufferOutput:
    """Puts the results of a statement into a buffer, for a client."""

    buffer: ResultBuffer

    def schema(self, stmt: int, schema: Schema) -> None:
        self.buffer.announce(schema)

    def rows(self, stmt: int, batch: Batch) -> None:
        self.buffer.put(batch)

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None:
        self.buffer.complete(error)
