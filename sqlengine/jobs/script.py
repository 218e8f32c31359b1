"""Runs the statements of one job's text in order: definitions, settings, and plans of INSERTs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from parser.alterations import Alter
from parser.errors import JobError, SqlError, UnknownObject, UnsupportedError
from parser.statements import (
    CreateCatalog,
    CreateDatabase,
    CreateFunction,
    CreateTable,
    CreateView,
    Drop,
    Insert,
    Kind,
    Query,
    Reset,
    Set,
    Statement,
    StatementSet,
    Use,
)
from planner import PlannedStatement, bind, bind_create_as, plan
from planner.binder.queries.sources import check_connector
from planner.binder.unsupported import refuse
from planner.capabilities import Capabilities
from planner.catalog import (
    SYSTEM,
    Catalog,
    CatalogObject,
    Container,
    Function,
    Identifier,
    Table,
    View,
)
from planner.logical import ProcessFunction, Sink
from planner.plan import Trace
from planner.settings import late_table_name
from sqlengine.access.patterns import any_matches
from sqlengine.access.policy import Forbidden
from sqlengine.catalog.changes import after, check_place, described
from sqlengine.catalog.dropping import drop_temporary
from sqlengine.catalog.using import use
from sqlengine.connectors.python_ import with_function
from sqlengine.connectors.registry import check_named, declared, validate
from sqlengine.functions.library import Library, entry_key, key_of
from sqlengine.jobs.references import called, expressions_of, names_of
from sqlengine.jobs.setting_checks import check_setting
from sqlengine.jobs.unknown_options import UnknownOptions
from udf.user import UserFunction


@dataclass
class Script:
    """The result of a job's statements so far.

    `pinned`, `modules`: contents of users' modules, those of an earlier start and those used now;
    `traced`: keep the `traces` of plans for EXPLAIN; `inserts`: the number of INSERTs; `objects`:
    permanent objects that the job defines; `uses`: names of objects that it refers to; `options`:
    what becomes of options that nobody reads; `loads`: patterns of functions that it may load, None
    for any; `calls`: its process functions by uid."""

    name: str
    catalog: Catalog
    settings: dict[str, str]
    library: Library | None
    pinned: Mapping[str, str]
    uploads: Mapping[str, str]
    options: UnknownOptions
    traced: bool = False
    loads: tuple[str, ...] | None = None
    inserts: int = 0
    traces: list[Trace] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    objects: list[CatalogObject] = field(default_factory=list)
    uses: set[Identifier] = field(default_factory=set)
    modules: dict[str, str] = field(default_factory=dict)
    functions: dict[str, UserFunction] = field(default_factory=dict)
    calls: dict[str, ProcessFunction] = field(default_factory=dict)

    def load(self, statement: CreateFunction) -> UserFunction:
        """Loads the function that CREATE FUNCTION names; a module has one content throughout the
        job."""
        if self.library is None:
            raise UnsupportedError(
                "functions of users cannot be loaded here", position=statement.position
            )
        # Loading runs the module: what the plan calls is looked at too late for that.
        if self.loads is not None and not any_matches(self.loads, statement.class_name):
            raise Forbidden(
                f"job '{self.name}' may not load function '{statement.class_name}'",
                detail="missing: a pattern of functions that it matches",
                hint="the administrator of the server gives it",
            )
        user = self.library.load(statement, {**self.pinned, **self.modules}, self.uploads)
        self.modules[key_of(statement)] = user.content
        self.functions[user.identity] = user
        return user


def apply(script: Script, statement: Statement) -> None:
    """Runs one statement. SqlError with its position in the script."""
    try:
        refuse(statement)
        match statement:
            case Set() if statement.key is not None:
                script.options.check_setting(statement, script.settings)
                script.settings[statement.key] = statement.value or ""
                check_setting(script.settings, statement.key)
            case Reset():
                script.options.check_setting(statement, script.settings)
                script.settings.pop(statement.key or "", None)
            case Use():
                script.catalog = use(script.catalog, statement)
                _use_database(script, (script.catalog.catalog, script.catalog.database, ""))
            case CreateTable() if statement.query is not None:
                _insert(script, _create_as(script, statement))
            case CreateTable() | CreateView() | CreateFunction():
                _define(script, statement)
            case CreateDatabase() | CreateCatalog():
                _define_container(script, statement)
            case Alter(kind=Kind.TABLE | Kind.VIEW):
                _alter(script, statement)
            case Drop(kind=Kind.TABLE | Kind.VIEW | Kind.FUNCTION):
                script.catalog = drop_temporary(script.catalog, statement)
            case Insert() | StatementSet():
                _insert(script, statement)
            case Query():
                raise UnsupportedError(
                    "a query alone has no place in a job: its rows would go nowhere",
                    hint="write INSERT INTO a_table SELECT …; ask once with `sql query`,"
                    " or with `sql run` without a server",
                )
            case _:
                kind = type(statement).__name__.upper()
                raise UnsupportedError(
                    f"{kind} has no place in a job", hint="run it with 'sql run' instead"
                )
    except SqlError as error:
        raise script.options.locate(error, statement) from None


def _define(script: Script, statement: CreateTable | CreateView | CreateFunction) -> None:
    item = _bound(script, statement)
    script.options.definitions.add(statement, item.name)
    check_place(script.catalog, item, statement.subject or statement.position)
    if isinstance(item, Table):
        assert isinstance(statement, CreateTable)
        item = script.options.known(item, statement, script.settings)
        item, sink = with_function(declared(item), script.catalog)
        _validate(item)
        if sink is not None:
            _call(script, sink)
    script.catalog = script.catalog.put(item, if_not_exists=statement.if_not_exists)
    for expression in expressions_of(statement):
        _use(script, expression)
    if isinstance(statement, CreateTable) and statement.like is not None:
        script.uses.add(script.catalog.resolve(statement.like.table))
    _use_database(script, item.name)
    if not item.temporary:
        script.objects.append(item)


def _bound(
    script: Script, statement: CreateTable | CreateView | CreateFunction
) -> Table | View | Function:
    if isinstance(statement, CreateFunction):
        return bind(statement, script.catalog, script.settings, load=script.load)
    return bind(statement, script.catalog, script.settings)


def _define_container(script: Script, statement: CreateDatabase | CreateCatalog) -> None:
    """Defines a catalog or a database. Several jobs may define the same one, each in equal words or
    with IF NOT EXISTS."""
    container = described(script.catalog, statement)
    existing = script.catalog.objects.get(container.name)
    if isinstance(existing, Container) and statement.if_not_exists:
        container = existing
    script.catalog = script.catalog.put(container)
    script.objects.append(container)
    _use_database(script, container.name)


def _use_database(script: Script, name: Identifier) -> None:
    """Notes the database, and the catalog, that an object is in."""
    script.uses |= {(*name[:2], ""), (name[0], "", "")} & script.catalog.objects.keys()


def _create_as(script: Script, statement: CreateTable) -> Insert:
    """Defines the table of CREATE TABLE … AS and returns the INSERT into it. The job that defined
    the table may replace it."""
    table, insert = bind_create_as(statement, script.catalog, script.settings, job=script.name)
    existing = script.catalog.permanent(statement.name)
    name = None if existing is None else existing.name
    own = next((o for o in script.objects if o.name == name), None)
    if isinstance(existing, Table) and statement.if_not_exists:
        return replace(insert, columns=(), places=())
    if own is not None and statement.replace:
        script.objects.remove(own)
        script.catalog = script.catalog.drop(own.name)
    elif own is None and not statement.create:
        hint = "write CREATE OR REPLACE TABLE"
        raise UnknownObject(
            f"table '{'.'.join(statement.name)}' does not exist",
            hint=hint,
            position=statement.position,
        )
    _define(script, table)
    return insert


def _alter(script: Script, statement: Alter) -> None:
    """Alters an object that the job itself has defined, for the statements behind it. JobError for
    an object of another job."""
    existing = script.catalog.permanent(statement.name)
    if existing is not None and all(o.name != existing.name for o in script.objects):
        raise JobError(
            f"'{existing.name[2]}' belongs to the job that defines it",
            hint="change its definition there: submit that job again",
        )

    def bound(definition: CreateTable | CreateView, catalog: Catalog) -> Table | View:
        item = bind(definition, catalog, script.settings, job=script.name)
        if not isinstance(item, Table):
            return item
        item = script.options.known(item, None, script.settings)
        item, sink = with_function(declared(item), catalog)
        _validate(item)
        if sink is not None:
            _call(script, sink)
        return item

    names = [o.name for o in script.objects]
    before = script.catalog.objects.keys()
    script.catalog = after(script.catalog, statement, bound)
    names += script.catalog.objects.keys() - before
    script.objects = [script.catalog.objects[n] for n in names if n in script.catalog.objects]


def _validate(table: Table) -> None:
    """Checks a table's options where it is defined: Flink does so when the table is used, but the
    author of a job wants to know now. Raises as `validate`.

    A table without any option is a template for LIKE."""
    if not table.options:
        return
    check_connector(table)
    check_named(table)
    validate(table)


def _insert(script: Script, statement: Insert | StatementSet) -> None:
    """Plans INSERTs, and notes what they refer to."""

    def planned_with(capabilities_of: Callable[[Table], Capabilities]) -> PlannedStatement:
        return plan(
            statement,
            script.catalog,
            script.settings,
            capabilities_of=capabilities_of,
            job=script.name,
            place=script.inserts,
            traced=script.traced,
            calls=script.calls,
        )

    planned = script.options.planned(statement, script.settings, planned_with)
    script.sinks += planned.sinks
    script.traces += planned.traces
    inserts = statement.inserts if isinstance(statement, StatementSet) else (statement,)
    script.inserts += len(inserts)
    for insert in inserts:
        _use(script, insert.query)
        script.uses.add(script.catalog.resolve(insert.target))
    if late := late_table_name(script.settings):
        script.uses.add(script.catalog.resolve(late))


def _use(script: Script, query: exp.Expression) -> None:
    """Notes the tables, views and functions that a query names."""
    script.uses |= names_of(query, script.catalog)
    for function in called(query, script.catalog):
        _call(script, function)


def _call(script: Script, function: Function) -> None:
    """Notes a function that is called."""
    script.functions[function.user.identity] = function.user
    if function.name[:2] == SYSTEM and not function.temporary:
        script.modules[entry_key(function.display, function.user.place)] = function.user.content
    elif not function.temporary:
        script.uses.add(function.name)
