"""What a text can say: one frozen dataclass per kind of statement. Queries and scalar expressions inside are
sqlglot trees; the binder turns them into typed plans and then drops them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from sqlglot import exp

from parser.errors import Position
from parser.types import DataType


@dataclass(frozen=True)
class Statement:
    """The root of all statements: where it begins, and its own text without the closing semicolon; `subject` is where the
    name stands that it is about, if it has one."""

    position: Position = field(kw_only=True, compare=False)
    sql: str = field(kw_only=True, compare=False)
    subject: Position | None = field(kw_only=True, default=None, compare=False)


# A name of one to three parts: table, database.table or catalog.database.table.
Name = tuple[str, ...]


class ColumnKind(Enum):
    PHYSICAL = "physical"
    COMPUTED = "computed"
    METADATA = "metadata"


@dataclass(frozen=True)
class ColumnDefinition:
    """One column of CREATE TABLE. `type` is None for a computed column, whose expression is `text` as it was written, with
    the names of columns in backticks; `metadata_key` defaults to the name."""

    name: str
    kind: ColumnKind
    type: DataType | None = None
    expression: exp.Expression | None = None
    metadata_key: str | None = None
    virtual: bool = False
    comment: str | None = None
    position: Position | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)


@dataclass(frozen=True)
class WatermarkDefinition:
    """WATERMARK FOR column AS expression; `text` is the expression as in ColumnDefinition."""

    column: Name
    expression: exp.Expression
    position: Position | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)


@dataclass(frozen=True)
class CreateTable(Statement):
    name: Name
    columns: tuple[ColumnDefinition, ...]
    watermark: WatermarkDefinition | None
    primary_key: tuple[str, ...]
    options: Mapping[str, str]
    temporary: bool = False
    if_not_exists: bool = False
    comment: str | None = None
    key_position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class CreateView(Statement):
    name: Name
    columns: tuple[str, ...]
    query: exp.Expression
    temporary: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateFunction(Statement):
    """CREATE FUNCTION name AS 'module.name' LANGUAGE PYTHON [USING FILE 'path']; `system` with TEMPORARY SYSTEM."""

    name: Name
    class_name: str
    language: str
    temporary: bool = False
    if_not_exists: bool = False
    system: bool = False
    file: str | None = None


@dataclass(frozen=True)
class Drop(Statement):
    """DROP TABLE | VIEW | FUNCTION (`kind`)."""

    kind: str
    name: Name
    temporary: bool = False
    if_exists: bool = False
    system: bool = False


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO target [(columns)] query. `columns` is empty when not given; `places` is where they stand."""

    target: Name
    columns: tuple[str, ...]
    query: exp.Expression
    places: tuple[Position, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class StatementSet(Statement):
    """EXECUTE STATEMENT SET BEGIN … END, or BEGIN STATEMENT SET; … END;"""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True)
class Query(Statement):
    query: exp.Expression


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN [details] statement, or EXPLAIN STATEMENT SET BEGIN … END."""

    statement: Query | Insert | StatementSet
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Show(Statement):
    """SHOW TABLES | VIEWS | FUNCTIONS | CATALOGS | DATABASES | JOBS | CREATE TABLE name | … (`what`, upper case)."""

    what: str
    name: Name | None = None
    like: str | None = None


@dataclass(frozen=True)
class Describe(Statement):
    """DESCRIBE [FUNCTION] [EXTENDED] name."""

    name: Name
    function: bool = False
    extended: bool = False


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
