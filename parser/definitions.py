"""CREATE statements as frozen dataclasses, and the root class of all statements.

`parser.statements` exports all kinds of statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from sqlglot import exp

from parser.errors import Position
from parser.types import DataType

# A name of one to three parts: table, database.table or catalog.database.table.
Name = tuple[str, ...]


@dataclass(frozen=True)
class Statement:
    """The root of all statements: where it begins, and where the name stands that it is about, if
    it has one. `parser.writer.statements.write` gives its text."""

    position: Position = field(kw_only=True, compare=False)
    subject: Position | None = field(kw_only=True, default=None, compare=False)


class Kind(StrEnum):
    """Kinds of objects that CREATE, DROP, ALTER, DESCRIBE and SHOW CREATE name; an underscore is a
    space in SQL."""

    TABLE = "TABLE"
    MATERIALIZED_TABLE = "MATERIALIZED_TABLE"
    VIEW = "VIEW"
    FUNCTION = "FUNCTION"
    CATALOG = "CATALOG"
    DATABASE = "DATABASE"
    MODEL = "MODEL"
    CONNECTION = "CONNECTION"
    JOB = "JOB"

    @property
    def words(self) -> str:
        return self.value.replace("_", " ")


class ColumnKind(Enum):
    PHYSICAL = "physical"
    COMPUTED = "computed"
    METADATA = "metadata"
    HEADER = "header"


@dataclass(frozen=True)
class ColumnDefinition:
    """A column of CREATE TABLE.

    `type` is None for a computed column; `metadata_key` defaults to the name; `path` are the names
    before that of a field in a row: (a, b) for `a.b.c INT`. A HEADER column is RSQLDB's: a message
    property."""

    name: str
    kind: ColumnKind
    type: DataType | None = None
    expression: exp.Expression | None = None
    metadata_key: str | None = None
    virtual: bool = False
    comment: str | None = None
    path: Name = ()
    position: Position | None = field(default=None, compare=False)
    type_position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class WatermarkDefinition:
    """WATERMARK [name] FOR column AS expression; only RSQLDB gives it a name."""

    column: Name
    expression: exp.Expression
    name: str | None = None
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Constraint:
    """[CONSTRAINT name] PRIMARY KEY | UNIQUE (columns) [[NOT] ENFORCED]; `enforced` is None when
    the text is silent."""

    columns: tuple[str, ...]
    unique: bool = False
    name: str | None = None
    enforced: bool | None = None
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Distribution:
    """[BY [HASH | RANGE] (columns)] [INTO n BUCKETS]."""

    columns: tuple[str, ...] = ()
    method: str | None = None
    buckets: int | None = None
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class LikeOption:
    """INCLUDING | EXCLUDING | OVERWRITING (`strategy`) ALL | OPTIONS | WATERMARKS | …
    (`feature`)."""

    strategy: str
    feature: str


@dataclass(frozen=True)
class TableLike:
    """LIKE table [(options)]."""

    table: Name
    options: tuple[LikeOption, ...] = ()
    position: Position | None = field(default=None, compare=False)


@dataclass(frozen=True)
class CreateTable(Statement):
    """CREATE TABLE, also LIKE another and AS a query. `replace`: OR REPLACE; `column_order` are
    names without types in front of AS; `system_time`: PERIOD FOR SYSTEM_TIME, by which RSQLDB marks
    a table to look up; `option_places` says where the key of each option stands."""

    name: Name
    columns: tuple[ColumnDefinition, ...]
    watermark: WatermarkDefinition | None
    constraints: tuple[Constraint, ...]
    options: Mapping[str, str]
    temporary: bool = False
    if_not_exists: bool = False
    comment: str | None = None
    distribution: Distribution | None = None
    partition_keys: tuple[str, ...] = ()
    like: TableLike | None = None
    query: exp.Expression | None = None
    column_order: tuple[Name, ...] = ()
    replace: bool = False
    create: bool = True
    system_time: bool = False
    option_places: Mapping[str, Position] = field(default_factory=dict, compare=False)

    @property
    def primary_key(self) -> tuple[str, ...]:
        return next((c.columns for c in self.constraints if not c.unique), ())

    @property
    def key_position(self) -> Position | None:
        """Returns the position of the primary key's declaration; None if there is none."""
        return next((c.position for c in self.constraints if not c.unique), None)


@dataclass(frozen=True)
class StartMode:
    """START_MODE = FROM_BEGINNING | FROM_NOW [(interval)] | FROM_TIMESTAMP (time) | RESUME_OR_…."""

    mode: str
    value: exp.Expression | None = None


@dataclass(frozen=True)
class CreateMaterializedTable(Statement):
    """CREATE [OR ALTER] MATERIALIZED TABLE … AS query."""

    name: Name
    query: exp.Expression
    columns: tuple[ColumnDefinition, ...] = ()
    watermark: WatermarkDefinition | None = None
    constraints: tuple[Constraint, ...] = ()
    column_order: tuple[Name, ...] = ()
    comment: str | None = None
    distribution: Distribution | None = None
    partition_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    start_mode: StartMode | None = None
    freshness: exp.Expression | None = None
    refresh_mode: str | None = None
    or_alter: bool = False


@dataclass(frozen=True)
class CreateView(Statement):
    name: Name
    columns: tuple[str, ...]
    query: exp.Expression
    temporary: bool = False
    if_not_exists: bool = False
    comment: str | None = None
    replace: bool = False


@dataclass(frozen=True)
class Resource:
    """JAR | ARTIFACT 'path'."""

    kind: str
    path: str


@dataclass(frozen=True)
class CreateFunction(Statement):
    """CREATE FUNCTION name AS 'module.name' LANGUAGE PYTHON [USING FILE 'path']; `system` with
    TEMPORARY SYSTEM."""

    name: Name
    class_name: str
    language: str
    temporary: bool = False
    if_not_exists: bool = False
    system: bool = False
    file: str | None = None
    resources: tuple[Resource, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Described(Statement):
    """CREATE … [IF NOT EXISTS] name [COMMENT 'text'] [WITH (…)]."""

    name: Name
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    if_not_exists: bool = False


class CreateCatalog(_Described):
    """CREATE CATALOG."""


class CreateDatabase(_Described):
    """CREATE DATABASE."""


@dataclass(frozen=True)
class CreateModel(Statement):
    """CREATE MODEL name INPUT (columns) OUTPUT (columns) WITH (…) [AS query]."""

    name: Name
    inputs: tuple[ColumnDefinition, ...] = ()
    outputs: tuple[ColumnDefinition, ...] = ()
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    query: exp.Expression | None = None
    temporary: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateConnection(_Described):
    """CREATE [TEMPORARY [SYSTEM]] CONNECTION."""

    temporary: bool = False
    system: bool = False
