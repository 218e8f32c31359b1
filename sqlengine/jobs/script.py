"""What the statements of one job say, one after the other: definitions, settings, and the plans of
its INSERTs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from parser.alterations import Alter
from parser.errors import JobError, OptionError, SqlError, UnknownObject, UnsupportedError
from parser.statements import (
    CreateCatalog,
    CreateDatabase,
    CreateFunction,
    CreateTable,
    CreateView,
    Drop,
    Insert,
    Kind,
    Reset,
    Set,
    Statement,
    StatementSet,
    Use,
)
from planner import bind, bind_create_as, plan
from planner.binder.expressions.calls import user_function
from planner.binder.queries.sources import check_connector
from planner.binder.unsupported import refuse
from planner.catalog import (
    DEFAULT_DATABASE,
    SYSTEM,
    Catalog,
    CatalogObject,
    Container,
    Function,
    Identifier,
    Table,
    View,
)
from planner.graph.takeover import policy_of
from planner.logical import Sink
from planner.plan import Trace
from planner.settings import RUNTIME_MODE, is_batch, late_table_name
from sqlengine.catalog.changes import (
    after,
    check_place,
    database_of,
    described,
    has_catalog,
    unknown_database,
)
from sqlengine.connectors.python_ import with_function
from sqlengine.connectors.registry import capabilities_of, declared, validate
from sqlengine.executors.memory_limits import LIMIT, memory_limit
from sqlengine.functions.library import Library, entry_key, key_of
from sqlengine.jobs.isolation_settings import ISOLATION, limits_in
from udf.user import UserFunction


@dataclass
class Script:
    """What the statements of one job have said so far."""

    name: str
    catalog: Catalog
    settings: dict[str, str]
    library: Library | None
    pinned: Mapping[str, str]
    uploads: Mapping[str, str]
    traced: bool = False
    inserts: int = 0
    traces: list[Trace] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    objects: list[CatalogObject] = field(default_factory=list)
    uses: set[Identifier] = field(default_factory=set)
    modules: dict[str, str] = field(default_factory=dict)
    functions: dict[str, UserFunction] = field(default_factory=dict)

    def load(self, statement: CreateFunction) -> UserFunction:
        """What a CREATE FUNCTION names; one module has one content throughout the job."""
        if self.library is None:
            raise UnsupportedError(
                "functions of users cannot be loaded here", position=statement.position
            )
        user = self.library.load(statement, {**self.pinned, **self.modules}, self.uploads)
        self.modules[key_of(statement)] = user.content
        self.functions[user.identity] = user
        return user


def apply(script: Script, statement: Statement) -> None:
    """Plans one statement. SqlError has its place."""
    try:
        refuse(statement)
        match statement:
            case Set() if statement.key is not None:
                _set(script, statement.key, statement.value or "")
            case Reset():
                script.settings.pop(statement.key or "", None)
            case Use():
                script.catalog = use(script.catalog, statement)
                _use_database(script, (script.catalog.catalog, script.catalog.database, ""))
            case CreateTable() if statement.query is not None:
                _insert(script, _split(script, statement))
            case CreateTable() | CreateView() | CreateFunction():
                _define(script, statement)
            case CreateDatabase() | CreateCatalog():
                _contain(script, statement)
            case Alter(kind=Kind.TABLE | Kind.VIEW):
                _alter(script, statement)
            case Drop(kind=Kind.TABLE | Kind.VIEW | Kind.FUNCTION):
                script.catalog = drop_temporary(script.catalog, statement)
            case Insert() | StatementSet():
                _insert(script, statement)
            case _:
                kind = type(statement).__name__.upper()
                raise UnsupportedError(
                    f"{kind} has no place in a job", hint="run it with 'sql run' instead"
                )
    except SqlError as error:
        raise error.at(statement.position) from None


def _set(script: Script, key: str, value: str) -> None:
    script.settings[key] = value
    policy_of(script.settings)
    if key == LIMIT:
        memory_limit(script.settings)
    if key.startswith(ISOLATION):
        limits_in(script.settings)
    if key == RUNTIME_MODE and is_batch(script.settings):
        hint = "run the script with 'sql run'"
        raise UnsupportedError(
            "batch mode is not supported for jobs: their input has no end", hint=hint
        )


def use(catalog: Catalog, statement: Use) -> Catalog:
    """After USE; refuses a catalog or database that does not exist."""
    name = statement.name
    if statement.catalog:
        if not has_catalog(catalog, name):
            raise UnknownObject(f"catalog '{name[0]}' does not exist", position=statement.position)
        held = catalog.objects.get((name[0], "", ""))
        default = held.default_database if isinstance(held, Container) else DEFAULT_DATABASE
        same = name[0] == catalog.catalog
        return catalog if same else catalog.with_use(catalog=name[0], database=default)
    target = database_of(catalog, name)
    if target not in catalog.databases:
        raise unknown_database(target, statement.position)
    return catalog.with_use(catalog=target[0], database=target[1])


def drop_temporary(catalog: Catalog, statement: Drop) -> Catalog:
    """After DROP of a job's own object. What all share goes with the job that defines it."""
    held = held_object(catalog, statement)
    if held is None:
        if statement.if_exists:
            return catalog
        raise UnknownObject(
            f"{statement.kind.lower()} '{'.'.join(statement.name)}' does not exist",
            position=statement.subject,
        )
    if not held.temporary:
        raise JobError(
            f"'{held.name[2]}' belongs to the job that defines it",
            hint="remove that job ('sql remove JOB'), or use CREATE TEMPORARY for a private object",
        )
    return catalog.drop(held.name)


def held_object(catalog: Catalog, statement: Drop) -> CatalogObject | None:
    """What DROP names, if it is there."""
    if statement.kind == "FUNCTION":
        name = catalog.resolve_function(statement.name, system=statement.system)
        return catalog.temporary.get(name) or (
            None if statement.temporary else catalog.objects.get(name)
        )
    held = catalog.get(statement.name)
    kinds: dict[str, type[CatalogObject]] = {"TABLE": Table, "VIEW": View}
    return held if isinstance(held, kinds[statement.kind]) else None


def _define(script: Script, statement: CreateTable | CreateView | CreateFunction) -> None:
    item = _bound(script, statement)
    check_place(script.catalog, item, statement.subject or statement.position)
    if isinstance(item, Table):
        assert isinstance(statement, CreateTable)
        item, sink = with_function(declared(item), script.catalog)
        _validate(item, statement)
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


def _contain(script: Script, statement: CreateDatabase | CreateCatalog) -> None:
    """Several jobs may make one database, each in the same words, or with IF NOT EXISTS."""
    made = described(script.catalog, statement)
    held = script.catalog.objects.get(made.name)
    if isinstance(held, Container) and statement.if_not_exists:
        made = held
    script.catalog = script.catalog.put(made)
    script.objects.append(made)
    _use_database(script, made.name)


def _use_database(script: Script, name: Identifier) -> None:
    """Notes the database, and the catalog, that an object is in."""
    script.uses |= {(*name[:2], ""), (name[0], "", "")} & script.catalog.objects.keys()


def _split(script: Script, statement: CreateTable) -> Insert:
    """Defines the table of CREATE TABLE … AS; what is left to do. The job that made it may replace
    it."""
    table, insert = bind_create_as(statement, script.catalog, script.settings, job=script.name)
    held = script.catalog.permanent(statement.name)
    own = next((o for o in script.objects if held is not None and o.name == held.name), None)
    if isinstance(held, Table) and statement.if_not_exists:
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
    """ALTER of what the job itself has defined; the statements behind it see it as it is then."""
    held = script.catalog.permanent(statement.name)
    if held is not None and all(o.name != held.name for o in script.objects):
        raise JobError(
            f"'{held.name[2]}' belongs to the job that defines it",
            hint="change its definition there: submit that job again",
        )

    def bound(definition: CreateTable | CreateView, catalog: Catalog) -> Table | View:
        item = bind(definition, catalog, script.settings, job=script.name)
        if not isinstance(item, Table):
            return item
        item, sink = with_function(declared(item), catalog)
        _validate(item, None)
        if sink is not None:
            _call(script, sink)
        return item

    names = [o.name for o in script.objects]
    before = script.catalog.objects.keys()
    script.catalog = after(script.catalog, statement, bound)
    names += script.catalog.objects.keys() - before
    script.objects = [script.catalog.objects[n] for n in names if n in script.catalog.objects]


def _validate(table: Table, statement: CreateTable | None) -> None:
    """Flink finds a wrong option when the table is used; the author of a job wants to know now, and
    where it stands. An option of a format is called without the name of the format. A table without
    any option is one for LIKE."""
    if not table.options:
        return
    check_connector(table)
    try:
        validate(table)
    except OptionError as error:
        if statement is None:
            raise
        prefix = f"{table.options.get('format')}."
        places = {key.removeprefix(prefix): p for key, p in statement.option_places.items()}
        if "type" in places:
            places.setdefault("connector", places["type"])
        raise error.at((dict(statement.option_places) | places).get(error.subject or "")) from None


def _insert(script: Script, statement: Insert | StatementSet) -> None:
    planned = plan(
        statement,
        script.catalog,
        script.settings,
        capabilities_of=capabilities_of,
        job=script.name,
        place=script.inserts,
        traced=script.traced,
    )
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
    script.uses |= _names(query, script.catalog)
    for function in called(query, script.catalog):
        _call(script, function)


def _call(script: Script, function: Function) -> None:
    """Notes a function that is called."""
    script.functions[function.user.identity] = function.user
    if function.name[:2] == SYSTEM and not function.temporary:
        script.modules[entry_key(function.display, function.user.place)] = function.user.content
    elif not function.temporary:
        script.uses.add(function.name)


def expressions_of(statement: CreateTable | CreateView | CreateFunction) -> list[exp.Expression]:
    """Queries and expressions in a definition."""
    if isinstance(statement, CreateView):
        return [statement.query]
    if isinstance(statement, CreateFunction):
        return []
    found = [c.expression for c in statement.columns if c.expression is not None]
    return [*found, statement.watermark.expression] if statement.watermark else found


def called(query: exp.Expression, catalog: Catalog) -> list[Function]:
    """Functions of users that a query calls."""
    found = (user_function(call, catalog) for call in query.find_all(exp.Anonymous))
    return [f for f in found if f is not None]


def _names(query: exp.Expression, catalog: Catalog) -> set[Identifier]:
    """Tables and views that a query names (names of its own CTEs are among them, but stand for no
    object)."""
    found = set()
    for table in query.find_all(exp.Table):
        parts = tuple(p.name for p in table.parts if isinstance(p, exp.Identifier))
        if 1 <= len(parts) <= 3:
            found.add(catalog.resolve(parts))
    return found
