"""Statements, and parts of them, that Flink has and this version has not: each is refused by name,
with its place and what to do instead."""

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
    CreateConnection,
    CreateFunction,
    CreateMaterializedTable,
    CreateModel,
    CreateTable,
    Delete,
    Describe,
    ExecutePlan,
    Explain,
    Insert,
    Kind,
    Merge,
    RemoveJar,
    ShowCreate,
    Statement,
    StatementSet,
    StopJob,
    Truncate,
    Update,
)

_PLAN = "submit the statements themselves with `sql submit`: jobs are durable"
_PYTHON = "there is no JVM here: write functions in Python, CREATE FUNCTION … LANGUAGE PYTHON"
_VERSION = "drop it and create it again, or submit a new version of the job"
_ROWS = "streams only append: write a new row with INSERT INTO"
_MODEL = "call a Python function: CREATE FUNCTION … LANGUAGE PYTHON"
_CONNECTION = "write the options into the WITH clause of each table"
_MATERIALIZED = "write CREATE TABLE and an INSERT INTO that fills it"

_STATEMENTS: dict[type[Statement], tuple[str, str]] = {
    Update: ("UPDATE", _ROWS),
    Delete: ("DELETE", _ROWS),
    Merge: ("MERGE", _ROWS),
    Truncate: ("TRUNCATE TABLE", "drop the table and create it again"),
    Analyze: ("ANALYZE TABLE", "leave it out: plans do not depend on statistics"),
    Call: ("CALL", "there are no procedures: use a function in SELECT"),
    AddJar: ("ADD JAR", _PYTHON),
    RemoveJar: ("REMOVE JAR", _PYTHON),
    CompilePlan: ("COMPILE PLAN", _PLAN),
    ExecutePlan: ("EXECUTE PLAN", _PLAN),
    StopJob: (
        "STOP JOB in a script",
        "send it to the server: sql execute \"STOP JOB 'name' WITH SAVEPOINT\", or `sql stop`",
    ),
    CreateMaterializedTable: ("CREATE MATERIALIZED TABLE", _MATERIALIZED),
    CreateModel: ("CREATE MODEL", _MODEL),
    CreateConnection: ("CREATE CONNECTION", _CONNECTION),
}
_HELD = (Kind.TABLE, Kind.VIEW, Kind.FUNCTION)
_KINDS = {
    Kind.MATERIALIZED_TABLE: _MATERIALIZED,
    Kind.MODEL: _MODEL,
    Kind.CONNECTION: _CONNECTION,
    Kind.JOB: "use SHOW JOBS",
}


def refuse(statement: Statement) -> None:
    """UnsupportedError where the statement, or a part of it, is not there yet."""
    for what, hint, position in _missing(statement):
        raise UnsupportedError(
            f"{what} is not supported", hint=hint, position=position or statement.position
        )


def _missing(statement: Statement) -> Iterator[tuple[str, str, Position | None]]:
    """Yields what is not supported, the alternative, and the position (None: where the statement
    begins)."""
    known = _STATEMENTS.get(type(statement))
    if known is not None:
        yield *known, None
    match statement:
        case Alter() if statement.kind in _KINDS:
            yield f"ALTER {statement.kind.words}", _VERSION, None
        case ShowCreate() | Describe() if statement.kind is Kind.DATABASE:
            yield (
                f"{_words(statement)} DATABASE",
                "Flink has it not either: SHOW DATABASES lists all",
                None,
            )
        case Drop() | ShowCreate() | Describe() if statement.kind in _KINDS:
            yield f"{_words(statement)} {statement.kind.words}", _KINDS[statement.kind], None
        case CreateTable():
            yield from _of_table(statement)
        case CreateFunction():
            yield from _of_function(statement)
        case Insert():
            yield from _of_insert(statement)
        case StatementSet():
            for inner in statement.inserts:
                yield from _within(inner)
        case Explain():
            yield from _within(statement.statement)


def _words(statement: Statement) -> str:
    return {Drop: "DROP", ShowCreate: "SHOW CREATE"}.get(type(statement), "DESCRIBE")


def _within(inner: Statement) -> Iterator[tuple[str, str, Position | None]]:
    for what, hint, position in _missing(inner):
        yield what, hint, position or inner.position


def _of_table(statement: CreateTable) -> Iterator[tuple[str, str, Position | None]]:
    if statement.distribution is not None:
        hint = "set 'key.fields' of a topic to choose the shard of a row"
        yield "DISTRIBUTED", hint, statement.distribution.position
    if not statement.columns and statement.like is None and statement.query is None:
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
    for extension in statement.extend:
        yield "EXTEND", "declare the columns in CREATE TABLE", position_of(extension)
