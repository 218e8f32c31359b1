"""Runs a script in this process, statement by statement: what `sql run` does, and tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol

from sqlglot import exp

from parser import parse_pieces
from parser.errors import PlanError, SqlError, UnknownObject, UnsupportedError
from parser.statements import (
    Alter,
    CreateCatalog,
    CreateDatabase,
    CreateFunction,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    Kind,
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
from planner import PlannedStatement, bind, bind_create_as, plan
from planner.analysis.deliver import MATERIALIZE
from planner.binder.unsupported import refuse
from planner.catalog import Catalog, CatalogObject, Table, View
from planner.graph.merge import Graph, merge
from planner.logical import Sink
from planner.settings import MINI_BATCH, is_batch
from sqlengine.batch import Batch
from sqlengine.catalog import modules
from sqlengine.catalog.changes import after, check_new, refreshed, with_container, without_container
from sqlengine.catalog.describe import describe, one_column, show, show_create
from sqlengine.catalog.partitions import show_partitions
from sqlengine.catalog.user_functions import altered_function
from sqlengine.connectors.base import Environment
from sqlengine.connectors.python_ import with_function
from sqlengine.connectors.query_result import ResultSink
from sqlengine.connectors.registry import capabilities_of, declared
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.embedded import EmbeddedExecutor
from sqlengine.executors.memory_limits import script_guard
from sqlengine.executors.runner import GraphRunner
from sqlengine.executors.sources import require_bounded
from sqlengine.executors.storage import RunnerOptions
from sqlengine.functions.library import Library
from sqlengine.jobs.explanation import explain_sinks
from sqlengine.jobs.script import called, expressions_of, held_object, use
from sqlengine.snapshots.savepoint_files import PATHS
from udf.user import UserFunction

SCRIPT = "script"


class Output(Protocol):
    """Where the results of statements go, by the statement's number in the script, counted from
    0."""

    def schema(self, stmt: int, schema: Schema) -> None: ...

    def rows(self, stmt: int, batch: Batch) -> None: ...

    def done(self, stmt: int, message: str) -> None: ...

    def error(self, stmt: int, error: SqlError) -> None: ...


class Runner(Protocol):
    """How a session runs statements: embedded here, or on Spark."""

    def run(
        self, sinks: Sequence[Sink], settings: Mapping[str, str], emit: Callable[[Batch], None]
    ) -> int:
        """Runs until all sources are read to their end; gives the number of rows read."""


@dataclass
class EmbeddedRunner:
    """Runs a graph in this thread, without epoch log and checkpoints: a killed script begins anew.
    Each run writes as a writer of its own, since its epochs begin at 1 and sinks drop epochs that a
    writer repeats."""

    environment: Environment
    factory: OperatorFactory
    rows_per_read: int = 4096
    idle: Callable[[], None] = lambda: None
    _runs: Iterator[int] = field(default_factory=count)

    def run(
        self, sinks: Sequence[Sink], settings: Mapping[str, str], emit: Callable[[Batch], None]
    ) -> int:
        fails = settings.get("job.on-error", "fail") != "dead-letter"
        runner = GraphRunner(
            SCRIPT,
            EmbeddedExecutor(self.factory),
            replace(self.environment, writer=f"{self.environment.writer}-{next(self._runs)}"),
            options=RunnerOptions(
                lambda owner: fails,
                self.rows_per_read,
                script_guard(SCRIPT, settings),
                ResultSink(emit),
            ),
        )
        try:
            graph = merge(Graph(), {SCRIPT: sinks})
            change = runner.prepare(graph, {SCRIPT: 1})
            if is_batch(settings):
                require_bounded(change.sources.values())
            runner.apply(change)
            while not runner.finished:
                if not runner.step():
                    self.idle()
            runner.step()
            runner.outputs.publish_overwrites()
            return runner.progress.rows_in
        finally:
            runner.close()


@dataclass
class Session:
    """What the statements of a script have said so far. Mini-batch is off unless the script sets
    it."""

    runner: Runner
    output: Output
    catalog: Catalog = field(default_factory=Catalog)
    settings: dict[str, str] = field(default_factory=dict)
    library: Library | None = None
    modules: tuple[str, ...] = (modules.CORE,)

    def run(self, text: str, file: str | None = None) -> bool:
        """Runs all statements, also those behind a failing one. True when none failed."""
        good = True
        for number, item in enumerate(parse_pieces(text, file=file)):
            try:
                if isinstance(item, SqlError):
                    raise item
                self._execute(number, item)
            except SqlError as error:
                place = None if isinstance(item, SqlError) else item.position
                self.output.error(number, error.at(place).in_file(file))
                good = False
        return good

    def _execute(self, number: int, statement: Statement) -> None:
        refuse(statement)
        match statement:
            case Query():
                self._query(number, statement)
            case Insert() | StatementSet():
                self._insert(number, statement)
            case CreateTable() if statement.query is not None:
                self._create_as(number, statement)
            case Explain():
                self._explain(number, statement)
            case Show() | ShowCreate() | Describe():
                self._table(number, self._show(statement))
            case _:
                self._define(statement)
                self.output.done(number, "OK")

    def _define(self, statement: Statement) -> None:
        match statement:
            case Set(key=str() as key):
                self.settings[key] = _setting(key, statement.value or "")
            case Set():
                pass
            case Reset():
                self.settings = {
                    k: v for k, v in self.settings.items() if statement.key and k != statement.key
                }
            case Use():
                self.catalog = use(self.catalog, statement)
            case UseModules() | LoadModule() | UnloadModule():
                self.modules = modules.after(self.modules, statement)
            case CreateTable() | CreateView() | CreateFunction():
                self._create(statement)
            case CreateDatabase() | CreateCatalog():
                self.catalog = with_container(self.catalog, statement)
            case Alter(kind=Kind.FUNCTION):
                self.catalog = altered_function(self.catalog, statement, self._load)
            case Alter():
                self.catalog = after(self.catalog, statement, self._bound_in)
            case Drop(kind=Kind.DATABASE | Kind.CATALOG):
                self.catalog = without_container(self.catalog, statement)
            case Drop():
                self._drop(statement)

    def _create(self, statement: CreateTable | CreateView | CreateFunction) -> None:
        if isinstance(statement, CreateFunction):
            item = bind(statement, self.catalog, self.settings, job=SCRIPT, load=self._load)
            self.catalog = self.catalog.put(item, if_not_exists=statement.if_not_exists)
            return
        made = self._bound_in(statement, self.catalog)
        held = self.catalog.temporary if made.temporary else self.catalog.objects
        if statement.if_not_exists and isinstance(held.get(made.name), Table | View):
            return
        check_new(self.catalog, made, statement.subject or statement.position)
        self.catalog = refreshed(self.catalog.put(made), made.name, self._bound_in)

    def _bound_in(self, statement: CreateTable | CreateView, catalog: Catalog) -> Table | View:
        self._activate(expressions_of(statement))
        item = bind(statement, catalog, self.settings, job=SCRIPT)
        if not isinstance(item, Table):
            return item
        table, sink = with_function(declared(item), catalog)
        if sink is not None and self.library is not None:
            self.library.activate([sink.user])
        return table

    def _split(self, statement: CreateTable) -> Insert:
        """Creates the table of CREATE TABLE … AS; what is left to do. One that is there already
        takes the rows."""
        assert statement.query is not None
        self._activate([statement.query])
        settings = {MINI_BATCH: "false", **self.settings}
        table, insert = bind_create_as(statement, self.catalog, settings, job=SCRIPT)
        held = self.catalog.permanent(statement.name)
        if statement.if_not_exists and isinstance(held, Table):
            return replace(insert, columns=(), places=())
        if statement.replace:
            self._make_room(statement, held)
        self._create(table)
        return insert

    def _make_room(self, statement: CreateTable, held: CatalogObject | None) -> None:
        if isinstance(held, Table):
            self.catalog = self.catalog.drop(held.name)
        elif not statement.create:
            name = ".".join(statement.name)
            hint = "write CREATE OR REPLACE TABLE"
            raise UnknownObject(
                f"table '{name}' does not exist", hint=hint, position=statement.position
            )

    def _create_as(self, number: int, statement: CreateTable) -> None:
        self._insert(number, self._split(statement))

    def _load(self, statement: CreateFunction) -> UserFunction:
        if self.library is None:
            raise UnsupportedError(
                "functions of users cannot be loaded here", position=statement.position
            )
        return self.library.load(statement, {})

    def _activate(self, queries: Iterable[exp.Expression]) -> None:
        """Makes the functions of users that are called here callable."""
        users = {f.user.identity: f.user for q in queries for f in called(q, self.catalog)}
        if users and self.library is not None:
            self.library.activate(users.values())

    def _drop(self, statement: Drop) -> None:
        held = held_object(self.catalog, statement)
        if held is not None and held.temporary is statement.temporary:
            catalog = self.catalog.drop(held.name)
            self.catalog = (
                refreshed(catalog, held.name, self._bound_in)
                if isinstance(held, Table | View)
                else catalog
            )
        elif held is not None and held.temporary:
            hint = f"write DROP TEMPORARY {statement.kind.words}"
            raise PlanError(
                f"'{statement.name[-1]}' is temporary", hint=hint, position=statement.subject
            )
        elif not statement.if_exists:
            name = ".".join(statement.name)
            raise UnknownObject(
                f"{statement.kind.lower()} '{name}' does not exist", position=statement.subject
            )

    def _plan(
        self, statement: Query | Insert | StatementSet, *, traced: bool = False
    ) -> PlannedStatement:
        if not traced:  # EXPLAIN calls no function
            inserts = statement.inserts if isinstance(statement, StatementSet) else (statement,)
            self._activate(s.query for s in inserts)
        return plan(
            statement,
            self.catalog,
            self._plan_settings(),
            capabilities_of=capabilities_of,
            job=SCRIPT,
            traced=traced,
        )

    def _plan_settings(self) -> dict[str, str]:
        """The settings of a statement: mini-batch is off by default. In batch mode every row is
        final, so that none is to take the place of another."""
        settings = {MINI_BATCH: "false", **self.settings}
        return settings | {MATERIALIZE: "NONE"} if is_batch(settings) else settings

    def _query(self, number: int, statement: Query) -> None:
        sinks = self._plan(statement).sinks
        self.output.schema(number, sinks[0].schema)
        self.runner.run(sinks, self.settings, lambda batch: self.output.rows(number, batch))

    def _insert(self, number: int, statement: Insert | StatementSet) -> None:
        rows = self.runner.run(self._plan(statement).sinks, self.settings, lambda batch: None)
        self.output.done(number, f"{rows} rows read")

    def _explain(self, number: int, statement: Explain) -> None:
        catalog, explained = self.catalog, statement.statement
        try:
            if isinstance(explained, CreateTable):
                explained = self._split(explained)
            planned = self._plan(explained, traced=True)
        finally:
            self.catalog = catalog  # EXPLAIN CREATE TABLE … AS creates no table
        settings = self._plan_settings()
        text = explain_sinks(planned.sinks, planned.traces, job=SCRIPT, settings=settings)
        self._table(number, one_column("result", [text]))

    def _show(self, statement: Show | ShowCreate | Describe) -> Batch:
        if isinstance(statement, Describe):
            return describe(self.catalog, statement)
        if isinstance(statement, ShowCreate):
            return show_create(self.catalog, statement)
        if statement.what == "PARTITIONS":
            return show_partitions(self.catalog, statement)
        return show(self.catalog, statement, self.modules)

    def _table(self, number: int, rows: Batch) -> None:
        self.output.schema(number, rows.schema)
        self.output.rows(number, rows)


def _setting(key: str, value: str) -> str:
    """The value, where the key has a meaning for a script."""
    if key in PATHS:
        hint = "submit the script to a server: 'sql submit'"
        raise UnsupportedError(
            "a script cannot start from a savepoint: it keeps no state", hint=hint
        )
    return value
