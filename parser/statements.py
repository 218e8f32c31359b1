"""Statements as frozen dataclasses, one per kind.

Queries and scalar expressions inside are sqlglot trees; the binder turns them into typed plans and
then drops them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from parser.alterations import Alter, Drop, Partition, PartitionValue
from parser.definitions import (
    ColumnDefinition,
    ColumnKind,
    Constraint,
    CreateCatalog,
    CreateConnection,
    CreateDatabase,
    CreateFunction,
    CreateMaterializedTable,
    CreateModel,
    CreateTable,
    CreateView,
    Kind,
    Name,
    Statement,
    WatermarkDefinition,
)
from parser.errors import Position

__all__ = [
    "AddJar",
    "Alter",
    "Analyze",
    "Assignment",
    "Call",
    "ColumnDefinition",
    "ColumnKind",
    "CompilePlan",
    "Constraint",
    "CreateCatalog",
    "CreateConnection",
    "CreateDatabase",
    "CreateFunction",
    "CreateMaterializedTable",
    "CreateModel",
    "CreateTable",
    "CreateView",
    "Delete",
    "Describe",
    "Drop",
    "Emit",
    "ExecutePlan",
    "Explain",
    "Insert",
    "Kind",
    "LoadModule",
    "Merge",
    "Name",
    "Partition",
    "PartitionValue",
    "Query",
    "RemoveJar",
    "Reset",
    "Set",
    "Show",
    "ShowCreate",
    "Statement",
    "StatementSet",
    "StopJob",
    "Truncate",
    "UnloadModule",
    "Update",
    "Use",
    "UseModules",
    "WatermarkDefinition",
]


@dataclass(frozen=True)
class Emit:
    """RSQLDB: WITH DELAY interval | WITHOUT DELAY, BEFORE or AFTER WATERMARK; `delay` None is
    WITHOUT DELAY, and `when` (BEFORE, AFTER) None when the text is silent."""

    delay: exp.Expression | None = None
    when: str | None = None
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO target [(columns)] query. `columns` is empty when not given, and its names have
    more than one part for fields of rows; `hints` are calls; `extend` declares columns that the
    table has not; `on_conflict` is ERROR, NOTHING or DEDUPLICATE; `places` is where the columns
    stand."""

    target: Name
    columns: tuple[Name, ...]
    query: exp.Expression
    partition: Partition = ()
    hints: tuple[exp.Expression, ...] = ()
    extend: tuple[exp.Expression, ...] = ()
    overwrite: bool = False
    upsert: bool = False
    on_conflict: str | None = None
    emit: tuple[Emit, ...] = ()
    places: tuple[Position, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class StatementSet(Statement):
    """EXECUTE STATEMENT SET BEGIN … END, or BEGIN STATEMENT SET; … END;"""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True)
class Query(Statement):
    query: exp.Expression
    emit: tuple[Emit, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """SET column = value."""

    column: Name
    value: exp.Expression


@dataclass(frozen=True)
class Update(Statement):
    """UPDATE table SET …; the table may have hints and another name."""

    table: exp.Table
    assignments: tuple[Assignment, ...]
    where: exp.Expression | None = None


@dataclass(frozen=True)
class Delete(Statement):
    table: exp.Table
    where: exp.Expression | None = None


@dataclass(frozen=True)
class Merge(Statement):
    """MERGE INTO table USING source ON condition WHEN MATCHED … WHEN NOT MATCHED THEN INSERT
    (columns) VALUES values; `values` is None when nothing is inserted."""

    table: exp.Table
    source: exp.Expression
    condition: exp.Expression
    assignments: tuple[Assignment, ...] = ()
    columns: tuple[str, ...] = ()
    values: exp.Expression | None = None


@dataclass(frozen=True)
class Truncate(Statement):
    name: Name


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN [details] statement, or EXPLAIN STATEMENT SET BEGIN … END."""

    statement: Query | Insert | StatementSet | CreateTable
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class CompilePlan(Statement):
    """COMPILE [AND EXECUTE] PLAN 'path' [IF NOT EXISTS] FOR statement."""

    path: str
    statement: Insert | StatementSet
    if_not_exists: bool = False
    execute: bool = False


@dataclass(frozen=True)
class ExecutePlan(Statement):
    path: str


@dataclass(frozen=True)
class Show(Statement):
    """SHOW what [FROM name] [[NOT] LIKE | ILIKE pattern]. `what` is one word: TABLES, VIEWS,
    MATERIALIZED_TABLES, FUNCTIONS, USER_FUNCTIONS, PROCEDURES, CATALOGS, DATABASES, MODELS,
    CONNECTIONS, COLUMNS, PARTITIONS, JOBS, JARS, MODULES, FULL_MODULES, CURRENT_CATALOG,
    CURRENT_DATABASE."""

    what: str
    name: Name | None = None
    like: str | None = None
    negated: bool = False
    ignore_case: bool = False
    partition: Partition = ()


@dataclass(frozen=True)
class ShowCreate(Statement):
    kind: Kind
    name: Name


@dataclass(frozen=True)
class Describe(Statement):
    """DESCRIBE [kind] [EXTENDED] name; of a job the name is its id."""

    name: Name
    kind: Kind = Kind.TABLE
    extended: bool = False

    @property
    def function(self) -> bool:
        return self.kind is Kind.FUNCTION


@dataclass(frozen=True)
class Set(Statement):
    """SET 'key' = 'value'; SET alone lists all settings (`key` None)."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Reset(Statement):
    key: str | None = None


@dataclass(frozen=True)
class Use(Statement):
    """USE database, or USE CATALOG catalog (`catalog` True)."""

    name: Name
    catalog: bool = False


@dataclass(frozen=True)
class UseModules(Statement):
    names: tuple[str, ...]


@dataclass(frozen=True)
class LoadModule(Statement):
    name: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class UnloadModule(Statement):
    name: str


@dataclass(frozen=True)
class AddJar(Statement):
    path: str


@dataclass(frozen=True)
class RemoveJar(Statement):
    path: str


@dataclass(frozen=True)
class Call(Statement):
    """CALL procedure(arguments)."""

    call: exp.Expression


@dataclass(frozen=True)
class StopJob(Statement):
    job: str
    savepoint: bool = False
    drain: bool = False


@dataclass(frozen=True)
class Analyze(Statement):
    """ANALYZE TABLE name [PARTITION (…)] COMPUTE STATISTICS [FOR COLUMNS … | FOR ALL COLUMNS]."""

    name: Name
    partition: Partition = ()
    columns: tuple[str, ...] = ()
    all_columns: bool = False
