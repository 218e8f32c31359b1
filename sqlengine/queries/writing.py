"""Statements of drivers, which also write: an INSERT runs, or becomes a job, and what CREATE and
DROP change is changed for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import ClassVar, Final

from parser.alterations import Alter
from parser.definitions import CreateDatabase, CreateFunction, CreateTable, CreateView
from parser.errors import PlanError, SqlError, UnknownObject, UnsupportedError
from parser.statements import (
    Describe,
    Drop,
    Explain,
    Insert,
    Kind,
    Show,
    ShowCreate,
    Statement,
    StatementSet,
)
from parser.statements import Query as Select
from parser.writer.statements import write
from planner import bind_create_as
from planner.binder.unsupported import refuse
from planner.catalog import Catalog
from planner.logical import LogicalPlan, Scan, Sink
from planner.settings import RUNTIME_MODE, is_batch
from sqlengine.access.policy import Action, allows, require
from sqlengine.engine import Engine
from sqlengine.engine.alterations import alter
from sqlengine.executors.runner import GraphRunner
from sqlengine.jobs.job import Origin
from sqlengine.jobs.references import names_of
from sqlengine.queries.ad_hoc import AdHocSession
from sqlengine.queries.client_session import LOOKING, ClientSession
from sqlengine.queries.definitions import create_database, define, drop, drop_database
from sqlengine.queries.execution import PATIENCE_S, Execution, Slot
from sqlengine.queries.insert_jobs import submit, wait_for_end
from sqlengine.queries.inserting import InsertingSession, with_typed_nulls
from sqlengine.queries.query import Query
from sqlengine.session.runner import EmbeddedRunner

_TELLS: Final = (Show, ShowCreate, Describe, Explain)
_AUTO: Final = "topic.auto-create"


@dataclass
class WritingSession(InsertingSession):
    """Executes the statements of a driver: what it asks gives final rows, as an ad-hoc query does.

    `engine`: makes what is defined for all; None: nobody does. `graphs`: those that ran."""

    engine: Engine | None = None
    graphs: list[GraphRunner] = field(default_factory=list)
    _refused: PlanError | None = field(default=None, init=False)

    def execute(self, number: int, statement: Statement) -> None:
        """See `AdHocSession`."""
        assert self.engine is not None
        match statement:
            case CreateTable(temporary=False) if statement.query is not None:
                self._create_filled(number, statement)
            case CreateTable() | CreateView() | CreateFunction() if not statement.temporary:
                refuse(statement)
                if isinstance(statement, CreateFunction):
                    require(self.by, Action.USE_FUNCTION, statement.class_name)
                define(self.engine, statement, self.catalog, self.told, self.by)
            case CreateDatabase():
                create_database(self.engine, statement, self.catalog, self.by)
            case Drop(kind=Kind.DATABASE):
                drop_database(self.engine, statement, self.catalog, self.by)
            case Drop(temporary=False):
                drop(self.engine, statement, self.catalog, self.by)
            case Alter() if self.catalog.resolve(statement.name) not in self.catalog.temporary:
                named = replace(statement, name=self.catalog.resolve(statement.name))
                alter(self.engine, named, write(named), Origin.REST, self.by)
            case Insert():
                super().execute(number, with_typed_nulls(statement, self.catalog))
            case _:
                super().execute(number, statement)

    def _create_filled(self, number: int, statement: CreateTable) -> None:
        """Makes the table of CREATE TABLE … AS, and runs the INSERT into it, or submits that as a
        job. Where it is refused, or fails, a table that was not there before is gone again."""
        refuse(statement)
        assert self.engine is not None
        assert statement.query is not None
        name, before = self.catalog.resolve(statement.name), self.catalog
        existed = name in before.objects
        if existed and statement.if_not_exists:
            return
        _check_replaced(statement, before, existed=existed)
        self._activate([statement.query])
        table, insert = bind_create_as(statement, before, self._plan_settings())
        table = replace(table, replace=statement.replace, create=True)
        define(self.engine, table, before, self.told, self.by)
        made = self.engine.catalog.objects[name]
        self.catalog = replace(before, objects={**before.objects, name: made})
        try:
            super().execute(number, with_typed_nulls(insert, self.catalog))
        except BaseException:
            if not existed:
                gone = Drop(Kind.TABLE, statement.name, position=statement.position)
                drop(self.engine, gone, self.catalog, self.by)
            raise
        finally:
            self.catalog = before

    def _check(self, statement: Statement) -> None:
        if not isinstance(statement, Insert | StatementSet):
            super()._check(statement)

    def _looked_at(self, node: LogicalPlan) -> LogicalPlan:
        """See `AdHocSession`. A topic that the client may write is made where it is missing: a new
        table has no rows, which is no error."""
        found = super()._looked_at(node)
        assert self.engine is not None
        if (
            not isinstance(found, Scan)
            or found.table.connector != "topic"
            or not self.engine.config.auto_create.sinks
            or not allows(self.by, Action.WRITE_TOPIC, found.table.options.get("topic"))
        ):
            return found
        own = node.table.options.get(_AUTO, "true") if isinstance(node, Scan) else "true"
        options = {**found.table.options, _AUTO: own}
        return replace(found, table=replace(found.table, options=options))

    def _sinks_of_insert(self, statement: Insert | StatementSet) -> Sequence[Sink]:
        """See `InsertingSession`. Where a table cannot take what becomes of rows, as of a count, it
        takes the final ones, if there are any."""
        try:
            return super()._sinks_of_insert(statement)
        except PlanError as error:
            if self._at_once or is_batch(self.settings):
                raise
            self._refused = error
        batch = {**self.settings, RUNTIME_MODE: "batch"}
        try:
            return replace(self, settings=batch)._plan(statement).sinks
        except PlanError:
            raise self._refused from None

    def _has_run(self, sinks: Sequence[Sink]) -> bool:
        has_run = super()._has_run(sinks)
        if not has_run and self._refused is not None:
            raise self._refused
        return has_run

    def _run_whole(self, sinks: Sequence[Sink]) -> None:
        """Runs an INSERT: a row in error ends it, since nobody would miss it later."""
        told = {k: v for k, v in self.settings.items() if LOOKING.get(k) != v}
        self.runner.run(sinks, {**told, RUNTIME_MODE: "batch"}, lambda rows: None)

    def check_plan(self, statement: Insert) -> None:
        """Raises the SqlError for which an INSERT cannot be planned."""
        self._sinks_of_insert(statement)

    def _inserted(self, name: str, *, submitted: bool) -> None:
        if submitted:
            self.buffer.job = name
            self.buffer.complete(message=f"job '{name}' writes the rows")
            return
        written = sum(graph.progress.rows_out.total() for graph in self.graphs)
        self.buffer.written = written
        self.buffer.complete(message=f"{written} row{'s' * (written != 1)} written")


class WritingExecution(Execution):
    """Runs the statements of one request of a driver. Queries go on with rows that come later
    where the session has SET 'execution.runtime-mode' = 'streaming'."""

    session_class: ClassVar[type[AdHocSession]] = WritingSession
    in_slots: ClassVar[tuple[type[Statement], ...]] = (Select, Insert, StatementSet)
    patience_s: ClassVar[float] = PATIENCE_S

    def __init__(
        self,
        engine: Engine,
        query: Query,
        state: ClientSession,
        slot: Slot,
        *,
        follow: bool = False,
        job: str | None = None,
    ) -> None:
        super().__init__(engine, query, state, slot, follow=follow)
        self._job = job

    def statements(self) -> Sequence[Statement]:
        """See `Execution`. UnsupportedError where a job is named that would be none, or many."""
        found = super().statements()
        writing = [s for s in found if isinstance(s, Insert | StatementSet)]
        if self._job is not None and len(writing) != 1:
            raise UnsupportedError(
                f"{len(writing) or 'no'} INSERTs cannot be the job '{self._job}'",
                hint="several are one in EXECUTE STATEMENT SET BEGIN … END",
                position=found[0].position,
            )
        return found

    def _takes_slot(self, statement: Statement) -> bool:
        """See `Execution`. CREATE TABLE … AS reads what its table gets."""
        fills = isinstance(statement, CreateTable) and statement.query is not None
        return fills or super()._takes_slot(statement)

    def _ad_hoc(self, query: Query, state: ClientSession, shared: Catalog) -> AdHocSession:
        session = super()._ad_hoc(query, state, shared)
        assert isinstance(session, WritingSession)
        assert isinstance(session.runner, EmbeddedRunner)
        session.engine, session.shared = self._engine, shared
        session.follow = session.follow or state.settings.get(RUNTIME_MODE) == "streaming"
        session.told = _told(state.settings, self._engine.config.settings)
        session.job, session.submit = self._job, self._submit
        session.wait = partial(wait_for_end, self._engine, query=query)
        session.runner = replace(session.runner, begun=session.graphs.append)
        return session

    def _submit(self, name: str, text: str) -> None:
        text = _comments(self._query.sql) + text
        submit(self._engine, name, text, self._query.by, replaces=self._job is not None)


def _check_replaced(statement: CreateTable, catalog: Catalog, *, existed: bool) -> None:
    """Raises the SqlError for which a table cannot take the place of the one before."""
    shown = ".".join(statement.name)
    if not existed and not statement.create:
        raise UnknownObject(
            f"table '{shown}' does not exist",
            hint="write CREATE OR REPLACE TABLE",
            position=statement.subject,
        )
    assert statement.query is not None
    if existed and catalog.resolve(statement.name) in names_of(statement.query, catalog):
        raise PlanError(
            f"table '{shown}' cannot be replaced by a query of itself: its rows are gone then",
            hint="make another table of the query, then replace this one by that",
            position=statement.subject or statement.position,
        )


def _comments(sql: str) -> str:
    """Returns the comments before the first statement: the head of a rule, perhaps."""
    lines = sql.splitlines(keepends=True)
    return "".join(takewhile(lambda line: not line.strip() or line.startswith("--"), lines))


def _told(settings: Mapping[str, str], standard: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the settings that the client has made, and no job has anyway."""
    known = {**LOOKING, **standard}
    return {key: value for key, value in settings.items() if known.get(key) != value}


class PlanningExecution(WritingExecution):
    """Finds out which columns a statement gives, and reads and writes no rows."""

    def _execute(self, statement: Statement) -> None:
        if isinstance(statement, _TELLS):
            super()._execute(statement)
            return
        session = self._ad_hoc(self._query, self._state, self._engine.catalog)
        try:
            if isinstance(statement, Select):
                schema, changes = session.shape_of(statement)
                self._query.buffer.announce(schema, changes=changes)
            elif isinstance(statement, Insert):
                assert isinstance(session, WritingSession)
                session.check_plan(with_typed_nulls(statement, session.catalog))
        except SqlError as error:
            raise error.at(statement.position) from None
