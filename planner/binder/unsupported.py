"""Statements, and parts of them, that Flink has and this version has not: each is refused by name, with its place and
what to do instead."""

from __future__ import annotations

from collections.abc import Iterator

from parser.alterations import Alter, Drop
from parser.dialect import position_of
from parser.errors import Position, UnsupportedError
from parser.statements import (
    AddJar,
    Analyze,
    Call,
    ColumnKind,
    CompilePlan,
    CreateCatalog,
    CreateConnection,
    CreateDatabase,
    CreateFunction,
    CreateMaterializedTable,
    CreateModel,
    CreateTable,
    CreateView,
    Delete,
    Describe,
    ExecutePlan,
    Explain,
    Insert,
    Kind,
    LoadModule,
    Merge,
    RemoveJar,
    ShowCreate,
    Statement,
    StatementSet,
    StopJob,
    Truncate,
    UnloadModule,
    Update,
    UseModules,
)

_FOLDER = "jobs are durable: submit and stop them with `sql submit` and `sql stop`"
_PLAN = "submit the statements themselves with `sql submit`: jobs are durable"
_PYTHON = "there is no JVM here: write functions in Python, CREATE FUNCTION … LANGUAGE PYTHON"
_VERSION = "drop it and create it again, or submit a new version of the job"
_ROWS = "streams only append: write a new row with INSERT INTO"
_MODULES = "there is one module of functions, and it is loaded"
_MODEL = "call a Python function: CREATE FUNCTION … LANGUAGE PYTHON"
_CONNECTION = "write the options into the WITH clause of each table"
_CATALOG = "use the catalog that is there: default_catalog"
_DATABASE = "use the database that is there: default_database"
_MATERIALIZED = "write CREATE TABLE and an INSERT INTO that fills it"

_REPLACE = ("CREATE OR REPLACE", "drop the object first, or submit the job again", None)

_STATEMENTS: dict[type[Statement], tuple[str, str]] = {
    Update: ("UPDATE", _ROWS),
    Delete: ("DELETE", _ROWS),
    Merge: ("MERGE", _ROWS),
    Truncate: ("TRUNCATE TABLE", "drop the table and create it again"),
    Analyze: ("ANALYZE TABLE", "leave it out: plans do not depend on statistics"),
    Call: ("CALL", "there are no procedures: use a function in SELECT"),
    LoadModule: ("LOAD MODULE", _MODULES),
    UnloadModule: ("UNLOAD MODULE", _MODULES),
    UseModules: ("USE MODULES", _MODULES),
    AddJar: ("ADD JAR", _PYTHON),
    RemoveJar: ("REMOVE JAR", _PYTHON),
    CompilePlan: ("COMPILE PLAN", _PLAN),
    ExecutePlan: ("EXECUTE PLAN", _PLAN),
    StopJob: ("STOP JOB", _FOLDER),
    CreateCatalog: ("CREATE CATALOG", _CATALOG),
    CreateDatabase: ("CREATE DATABASE", _DATABASE),
    CreateMaterializedTable: ("CREATE MATERIALIZED TABLE", _MATERIALIZED),
    CreateModel: ("CREATE MODEL", _MODEL),
    CreateConnection: ("CREATE CONNECTION", _CONNECTION),
}
_HELD = (Kind.TABLE, Kind.VIEW, Kind.FUNCTION)
_KINDS = {
    Kind.CATALOG: _CATALOG,
    Kind.DATABASE: _DATABASE,
    Kind.MATERIALIZED_TABLE: _MATERIALIZED,
    Kind.MODEL: _MODEL,
    Kind.CONNECTION: _CONNECTION,
    Kind.JOB: "use SHOW JOBS",
}


def refuse(statement: Statement) -> None:
    """UnsupportedError where the statement, or a part of it, is not there yet."""
    for what, hint, position in _missing(statement):
        raise UnsupportedError(f"{what} is not supported", hint=hint, position=position or statement.position)


def _missing(statement: Statement) -> Iterator[tuple[str, str, Position | None]]:
    """What is not there, what to do instead, and where it stands (None: where the statement begins)."""
    known = _STATEMENTS.get(type(statement))
    if known is not None:
        yield *known, None
    match statement:
        case Alter():
            yield f"ALTER {statement.kind.words}", _VERSION, None
        case Drop() | ShowCreate() | Describe() if statement.kind in _KINDS:
            yield f"{_words(statement)} {statement.kind.words}", _KINDS[statement.kind], None
        case CreateTable():
            yield from _of_table(statement)
        case CreateView() if statement.replace:
            yield _REPLACE
        case CreateFunction():
            yield from _of_function(statement)
        case Insert():
            yield from _of_insert(statement)
        case StatementSet():
            for inner in statement.inserts:
                yield from _within(inner)
        case Explain():
            yield from _of_explain(statement)


def _words(statement: Statement) -> str:
    return {Drop: "DROP", ShowCreate: "SHOW CREATE"}.get(type(statement), "DESCRIBE")


def _within(inner: Statement) -> Iterator[tuple[str, str, Position | None]]:
    for what, hint, position in _missing(inner):
        yield what, hint, position or inner.position


def _of_explain(statement: Explain) -> Iterator[tuple[str, str, Position | None]]:
    if isinstance(statement.statement, CreateTable):
        yield "EXPLAIN of CREATE TABLE … AS", "explain its query", statement.statement.position
    yield from _within(statement.statement)


def _of_table(statement: CreateTable) -> Iterator[tuple[str, str, Position | None]]:
    if statement.replace:
        yield _REPLACE
    if statement.query is not None:
        hint = "write CREATE TABLE with its columns, then INSERT INTO"
        yield "CREATE TABLE … AS", hint, position_of(statement.query)
    if statement.like is not None:
        yield "CREATE TABLE … LIKE", "write the columns and options out", statement.like.position
    if statement.distribution is not None:
        hint = "set 'key.fields' of a topic to choose the shard of a row"
        yield "DISTRIBUTED", hint, statement.distribution.position
    if statement.system_time:
        yield "PERIOD FOR SYSTEM_TIME", "leave it out", None
    if not statement.columns:
        yield "CREATE TABLE without columns", "declare them", None
    yield from _of_parts(statement)


def _of_parts(statement: CreateTable) -> Iterator[tuple[str, str, Position | None]]:
    for constraint in statement.constraints:
        if constraint.unique:
            yield "UNIQUE", "declare a PRIMARY KEY … NOT ENFORCED", constraint.position
        elif constraint.enforced is not False:
            hint = "write PRIMARY KEY … NOT ENFORCED: data is not checked"
            yield "PRIMARY KEY without NOT ENFORCED", hint, constraint.position
    for column in statement.columns:
        if column.kind is ColumnKind.HEADER:
            yield "HEADER", "declare the column as METADATA FROM 'headers'", column.position
        if column.path:
            yield "a column with a point in its name", "declare a ROW<…>", column.position


def _of_function(statement: CreateFunction) -> Iterator[tuple[str, str, Position | None]]:
    for resource in statement.resources:
        yield f"USING {resource.kind}", "there is no JVM here: write the function in Python", None
    if statement.options:
        yield "WITH of a function", "put its settings into its code", None


def _of_insert(statement: Insert) -> Iterator[tuple[str, str, Position | None]]:
    if statement.upsert:
        yield "UPSERT", "write INSERT INTO a table with a PRIMARY KEY", None
    if statement.overwrite:
        yield "INSERT OVERWRITE", "use INSERT INTO: streams only append", None
    for hint in statement.hints:
        yield "a hint at the target of INSERT", "write the options into CREATE TABLE", position_of(hint)
    for extension in statement.extend:
        yield "EXTEND", "declare the columns in CREATE TABLE", position_of(extension)
    for column in statement.columns:
        if len(column) > 1:
            yield f"the target '{'.'.join(column)}'", "write the whole row: ROW(…)", None
