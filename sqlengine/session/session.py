"""Runs a script in this process, statement by statement, for `sql run` and tests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol, TypeVar

from sqlglot import exp

from parser import parse_pieces
from parser.errors import PlanError, SqlError, UnknownObject, UnsupportedError
from parser.rule_head import Field, rule_head
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
from planner.capabilities import Capabilities
from planner.catalog import Catalog, CatalogObject, Table, View
from planner.rule_settings import at_head, rule_settings
from planner.settings import MINI_BATCH, is_batch
from sqlengine.batch import Batch
from sqlengine.catalog import modules
from sqlengine.catalog.changes import after, check_new, refreshed, with_container, without_container
from sqlengine.catalog.describe import describe, one_column, show, show_create
from sqlengine.catalog.dropping import dropped_object
from sqlengine.catalog.partitions import show_partitions
from sqlengine.catalog.user_functions import altered_function
from sqlengine.catalog.using import use
from sqlengine.connectors.python_ import with_function
from sqlengine.connectors.registry import check_named, declared
from sqlengine.functions.library import Library
from sqlengine.jobs.explanation import explain_sinks, stages_on_spark
from sqlengine.jobs.references import called, expressions_of
from sqlengine.jobs.targets import target_in
from sqlengine.jobs.unknown_options import UnknownOptions
from sqlengine.session.runner import SCRIPT, EmbeddedRunner, Runner
from sqlengine.snapshots.savepoint_files import PATHS
from udf.user import UserFunction

log = logging.getLogger("sqlengine")
T = TypeVar("T")


class Planning(Protocol):
    """Does work that takes the longer the more a statement says."""

    def __call__(self, work: Callable[[], T]) -> T:
        """Returns what comes of it."""


def planned_here(work: Callable[[], T]) -> T:
    """Does the work at once, however long it takes."""
    return work()


class Output(Protocol):
    """Takes the results of statements, by the statement's number in the script from 0 on."""

    def schema(self, stmt: int, schema: Schema) -> None:
        """Announces the columns of a query's rows."""

    def rows(self, stmt: int, batch: Batch) -> None:
        """Takes more rows of a query."""

    def done(self, stmt: int, message: str) -> None:
        """Says that a statement without rows has run."""

    def error(self, stmt: int, error: SqlError) -> None:
        """Takes the error of a statement; the statements behind it run all the same."""


@dataclass
class Session:
    """Executes the statements of a script: definitions change the catalog and settings, queries and
    INSERTs run to their end. Mini-batch is off unless the script sets it. `options`: the check of
    settings and options that nobody reads; `planning` binds and plans; `good`: none failed."""

    runner: Runner
    output: Output
    catalog: Catalog = field(default_factory=Catalog)
    settings: dict[str, str] = field(default_factory=dict)
    library: Library | None = None
    modules: tuple[str, ...] = (modules.CORE,)
    options: UnknownOptions = field(default_factory=lambda: UnknownOptions(log.warning))
    planning: Planning = planned_here
    good: bool = field(default=True, init=False)
    _numbers: Iterator[int] = field(default_factory=count, init=False)

    def run(self, text: str, file: str | None = None) -> bool:
        """Runs all statements, also those behind a failing one; a text before it may have defined
        what they use. True if none failed so far."""
        self.options.begin_text()
        head = self._take_head(text, file)
        for item, number in zip(parse_pieces(text, file=file), self._numbers, strict=False):
            try:
                if isinstance(item, SqlError):
                    raise item
                self.execute(number, item)
            except SqlError as error:
                if not isinstance(item, SqlError):
                    self.options.locate(error, item)
                self.output.error(number, at_head(error, head).in_file(file))
                self.good = False
        return self.good

    def _take_head(self, text: str, file: str | None) -> Mapping[str, Field]:
        """Makes settings of the head of a rule, which count for the texts behind it, too; returns
        its fields."""
        head: Mapping[str, Field] = {}
        try:
            head = rule_head(text) or {}
            self.settings |= rule_settings(head)
        except SqlError as error:
            self.output.error(next(self._numbers), error.in_file(file))
            self.good = False
        return head

    def execute(self, number: int, statement: Statement) -> None:
        """Executes one statement. Raises the SqlError of a statement that fails."""
        refuse(statement)
        match statement:
            case Query():
                self._query(number, statement)
            case Insert() | StatementSet():
                self._insert(number, statement)
            case CreateTable() if statement.query is not None:
                self._insert(number, self._create_as(statement))
            case Explain():
                self._explain(number, statement)
            case Show() | ShowCreate() | Describe():
                self._table(number, self._show(statement))
            case _:
                self._define(statement)
                self.output.done(number, "OK")

    def _define(self, statement: Statement) -> None:
        match statement:
            case Set() | Reset():
                self._configure(statement)
            case Use():
                self.catalog = use(self.catalog, statement)
            case UseModules() | LoadModule() | UnloadModule():
                self.modules = modules.after(self.modules, statement)
            case Drop():
                self._drop(statement)
            case CreateTable() | CreateView() | CreateFunction():
                self._create(statement)
            case CreateDatabase() | CreateCatalog():
                self.catalog = with_container(self.catalog, statement)
            case Alter(kind=Kind.FUNCTION):
                self.catalog = altered_function(self.catalog, statement, self._load)
            case Alter():
                self.catalog = after(self.catalog, statement, self._bound_in)
                self.options.definitions.add(statement)

    def _configure(self, statement: Set | Reset) -> None:
        """Applies SET, which without a key changes nothing, or RESET, which then clears all."""
        self.options.check_setting(statement, self.settings)
        if isinstance(statement, Set):
            if statement.key is not None:
                self.settings[statement.key] = _setting(statement.key, statement.value or "")
        elif statement.key:
            self.settings = {k: v for k, v in self.settings.items() if k != statement.key}
        else:
            self.settings = {}

    def _create(self, statement: CreateTable | CreateView | CreateFunction) -> None:
        if isinstance(statement, CreateFunction):
            function = bind(statement, self.catalog, self.settings, job=SCRIPT, load=self._load)
            self.catalog = self.catalog.put(function, if_not_exists=statement.if_not_exists)
            return
        item = self._bound_in(statement, self.catalog)
        objects = self.catalog.temporary if item.temporary else self.catalog.objects
        if statement.if_not_exists and isinstance(objects.get(item.name), Table | View):
            return
        check_new(self.catalog, item, statement.subject or statement.position)
        self.catalog = refreshed(self.catalog.put(item), item.name, self._bound_in)
        self.options.definitions.add(statement, item.name)

    def _bound_in(self, statement: CreateTable | CreateView, catalog: Catalog) -> Table | View:
        self._activate(expressions_of(statement))
        item = self.planning(lambda: bind(statement, catalog, self.settings, job=SCRIPT))
        if not isinstance(item, Table):
            return item
        item = self.options.defined(item, statement, self.settings)
        check_named(item)
        table, sink = with_function(declared(item), catalog)
        if sink is not None and self.library is not None:
            self.library.activate([sink.user])
        return table

    def _create_as(self, statement: CreateTable) -> Insert:
        """Creates the table of CREATE TABLE … AS and returns the INSERT into it; with IF NOT EXISTS
        a table that exists takes the rows."""
        assert statement.query is not None
        self._activate([statement.query])
        settings = {MINI_BATCH: "false", **self.settings}
        table, insert = self.planning(
            lambda: bind_create_as(statement, self.catalog, settings, job=SCRIPT)
        )
        existing = self.catalog.permanent(statement.name)
        if statement.if_not_exists and isinstance(existing, Table):
            return replace(insert, columns=(), places=())
        if statement.replace:
            self._drop_replaced(statement, existing)
        self._create(table)
        return insert

    def _drop_replaced(self, statement: CreateTable, existing: CatalogObject | None) -> None:
        if isinstance(existing, Table):
            self.catalog = self.catalog.drop(existing.name)
        elif not statement.create:
            name = ".".join(statement.name)
            hint = "write CREATE OR REPLACE TABLE"
            raise UnknownObject(
                f"table '{name}' does not exist", hint=hint, position=statement.position
            )

    def _load(self, statement: CreateFunction) -> UserFunction:
        if self.library is None:
            raise UnsupportedError(
                "functions of users cannot be loaded here", position=statement.position
            )
        return self.library.load(statement, {})

    def _activate(self, queries: Iterable[exp.Expression]) -> None:
        """Starts the workers of the users' functions that these queries call."""
        users = {f.user.identity: f.user for q in queries for f in called(q, self.catalog)}
        if users and self.library is not None:
            self.library.activate(users.values())

    def _drop(self, statement: Drop) -> None:
        if statement.kind in (Kind.DATABASE, Kind.CATALOG):
            self.catalog = without_container(self.catalog, statement)
            return
        item = dropped_object(self.catalog, statement)
        if item is not None and item.temporary is statement.temporary:
            self.catalog = self.catalog.drop(item.name)
            if isinstance(item, Table | View):
                self.catalog = refreshed(self.catalog, item.name, self._bound_in)
        elif item is not None and item.temporary:
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

        def planned_with(capabilities_of: Callable[[Table], Capabilities]) -> PlannedStatement:
            return plan(
                statement,
                self.catalog,
                self._plan_settings(),
                capabilities_of=capabilities_of,
                job=SCRIPT,
                traced=traced,
            )

        return self.planning(lambda: self.options.planned(statement, self.settings, planned_with))

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
                explained = self._create_as(explained)
            planned = self._plan(explained, traced=True)
        finally:
            self.catalog = catalog  # EXPLAIN CREATE TABLE … AS creates no table
        settings, sinks = self._plan_settings(), planned.sinks
        stages = []
        on_spark = isinstance(self.runner, EmbeddedRunner) and self.runner.on_spark
        if on_spark or target_in(settings, "embedded") == "spark":
            stages = stages_on_spark(sinks, settings)
        text = explain_sinks(sinks, planned.traces, job=SCRIPT, settings=settings, stages=stages)
        self._table(number, one_column("result", [text]))

    def _show(self, statement: Show | ShowCreate | Describe) -> Batch:
        if isinstance(statement, Describe):
            return describe(self.catalog, statement)
        if isinstance(statement, ShowCreate):
            return show_create(self.catalog, statement)
        if statement.what == "PARTITIONS":
            return show_partitions(self.catalog, statement, self.runner.files)
        return show(self.catalog, statement, self.modules)

    def _table(self, number: int, rows: Batch) -> None:
        self.output.schema(number, rows.schema)
        self.output.rows(number, rows)


def _setting(key: str, value: str) -> str:
    """The value of a setting. UnsupportedError for one that only a server can follow."""
    if key in PATHS:
        hint = "submit the script to a server: 'sql submit'"
        raise UnsupportedError(
            "a script cannot start from a savepoint: it keeps no state", hint=hint
        )
    return value
