"""SQL data types and schemas, and the Arrow types that hold their values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property

import pyarrow as pa

MAX_LENGTH = 2147483647


class Root(Enum):
    """The family of a type, by Flink's name."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    INTERVAL_YEAR_MONTH = "INTERVAL_YEAR_MONTH"
    INTERVAL_DAY_TIME = "INTERVAL_DAY_TIME"
    ARRAY = "ARRAY"
    MAP = "MAP"
    MULTISET = "MULTISET"
    ROW = "ROW"
    NULL = "NULL"
    VARIANT = "VARIANT"
    # Types that a text can name and no plan has yet.
    BITMAP = "BITMAP"
    RAW = "RAW"
    STRUCTURED = "STRUCTURED"
    ANY = "ANY"
    TIME_LTZ = "TIME_LTZ"
    NAMED = "NAMED"

    # Members are singletons: hashing by identity is three times cheaper, and plans hash many types.
    __hash__ = object.__hash__


class TimeAttribute(Enum):
    """The kind of time attribute of a timestamp column: event time (ROWTIME), processing time
    (PROCTIME) or none. A value computed from a rowtime (FORMER) is no time attribute any more, but
    Flink shows it as one."""

    NONE = ""
    ROWTIME = "*ROWTIME*"
    PROCTIME = "*PROCTIME*"
    FORMER = "*ROWTIME* once"

    __hash__ = object.__hash__


@dataclass(frozen=True)
class Written:
    """Details of a type's text that the type itself does not keep.

    They are the comments of a ROW's fields (None for a field without one); the first and last unit
    of an INTERVAL and their precisions (None where not given); a character set."""

    comments: tuple[str | None, ...] = ()
    start: str = ""
    end: str = ""
    precisions: tuple[int | None, int | None] = (None, None)
    charset: str = ""


@dataclass(frozen=True)
class DataType:
    """A SQL type. `precision` counts digits (DECIMAL) or fractional digits of a second (TIME,
    TIMESTAMP); `length` counts characters or bytes (MAX_LENGTH is unbounded); `children` are the
    types of an ARRAY's or MULTISET's element, a MAP's key and value, or the fields of a ROW or
    STRUCTURED type, whose names are `names`. The class of a STRUCTURED or RAW type is `class_name`;
    the `names` of a RAW type are its serializer, those of a NAMED type the parts of its name.
    `written` is what a text said beyond the type, and two types are equal without it."""

    root: Root
    nullable: bool = True
    precision: int = 0
    scale: int = 0
    length: int = 0
    children: tuple[DataType, ...] = ()
    names: tuple[str, ...] = ()
    time: TimeAttribute = field(default=TimeAttribute.NONE)
    class_name: str = ""
    written: Written | None = field(default=None, compare=False, repr=False)

    @cached_property
    def _hash(self) -> int:
        parts = (
            self.root.value,
            self.nullable,
            self.precision,
            self.scale,
            self.length,
            self.children,
        )
        return hash((*parts, self.names, self.class_name))

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_") and k != "arrow"}

    def with_nullable(self, nullable: bool) -> DataType:
        return self if self.nullable == nullable else replace(self, nullable=nullable)

    def as_attribute(self, time: TimeAttribute) -> DataType:
        return self if self.time is time else replace(self, time=time)

    def made_from(self, other: DataType) -> DataType:
        """The type of a value that is made from one of another type: shown as a row time if that
        is, but none."""
        former = other.time in (TimeAttribute.ROWTIME, TimeAttribute.FORMER)
        return self.as_attribute(TimeAttribute.FORMER if former else TimeAttribute.NONE)

    def same_as(self, other: DataType) -> bool:
        """Equal but for nullability and time attribute."""
        return self is other or (
            self.root is other.root
            and (self.length, self.precision, self.scale)
            == (other.length, other.precision, other.scale)
            and (self.children, self.names, self.class_name)
            == (other.children, other.names, other.class_name)
        )

    @property
    def plain(self) -> DataType:
        """The type as values have it: nullable and no time attribute."""
        if self.nullable and self.time is TimeAttribute.NONE:
            return self
        return replace(self, nullable=True, time=TimeAttribute.NONE)

    @property
    def is_integer(self) -> bool:
        return self.root in INTEGERS

    @property
    def is_numeric(self) -> bool:
        return self.root in INTEGERS or self.root in (Root.FLOAT, Root.DOUBLE, Root.DECIMAL)

    @property
    def is_string(self) -> bool:
        return self.root in (Root.CHAR, Root.VARCHAR)

    @property
    def is_binary(self) -> bool:
        return self.root in (Root.BINARY, Root.VARBINARY)

    @property
    def is_timestamp(self) -> bool:
        return self.root in (Root.TIMESTAMP, Root.TIMESTAMP_LTZ)

    @property
    def is_rowtime(self) -> bool:
        return self.time is TimeAttribute.ROWTIME

    @property
    def is_proctime(self) -> bool:
        return self.time is TimeAttribute.PROCTIME

    @cached_property
    def arrow(self) -> pa.DataType:
        """The Arrow type of a column of this type. Nullability is not part of it."""
        return to_arrow(self)

    def __str__(self) -> str:
        """Flink's summary string: `VARCHAR(3)`, `TIMESTAMP(3) NOT NULL *ROWTIME*`."""
        text = type_name(self)
        if not self.nullable:
            text += " NOT NULL"
        return (
            f"{text} {self.time.value.removesuffix(' once')}"
            if self.time is not TimeAttribute.NONE
            else text
        )


INTEGERS = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)

BOOLEAN = DataType(Root.BOOLEAN)
TINYINT = DataType(Root.TINYINT)
SMALLINT = DataType(Root.SMALLINT)
INT = DataType(Root.INT)
BIGINT = DataType(Root.BIGINT)
FLOAT = DataType(Root.FLOAT)
DOUBLE = DataType(Root.DOUBLE)
STRING = DataType(Root.VARCHAR, length=MAX_LENGTH)
BYTES = DataType(Root.VARBINARY, length=MAX_LENGTH)
DATE = DataType(Root.DATE)
NULL = DataType(Root.NULL)
VARIANT = DataType(Root.VARIANT)
BITMAP = DataType(Root.BITMAP)
INTERVAL_DAY_TIME = DataType(Root.INTERVAL_DAY_TIME)
INTERVAL_YEAR_MONTH = DataType(Root.INTERVAL_YEAR_MONTH)


def char(length: int = 1) -> DataType:
    return DataType(Root.CHAR, length=length)


def varchar(length: int = 1) -> DataType:
    return DataType(Root.VARCHAR, length=length)


def decimal(precision: int = 10, scale: int = 0) -> DataType:
    return DataType(Root.DECIMAL, precision=precision, scale=scale)


def time(precision: int = 0) -> DataType:
    return DataType(Root.TIME, precision=precision)


def timestamp(precision: int = 6) -> DataType:
    return DataType(Root.TIMESTAMP, precision=precision)


def timestamp_ltz(precision: int = 6) -> DataType:
    return DataType(Root.TIMESTAMP_LTZ, precision=precision)


def array(element: DataType) -> DataType:
    return DataType(Root.ARRAY, children=(element,))


def map_of(key: DataType, value: DataType) -> DataType:
    return DataType(Root.MAP, children=(key, value))


def row(names: tuple[str, ...], types: tuple[DataType, ...]) -> DataType:
    return DataType(Root.ROW, names=names, children=types)


def type_name(t: DataType) -> str:
    """Flink's summary string without nullability."""
    match t.root:
        case Root.VARCHAR if t.length == MAX_LENGTH:
            return "STRING"
        case Root.VARBINARY if t.length == MAX_LENGTH:
            return "BYTES"
        case Root.CHAR | Root.VARCHAR | Root.BINARY | Root.VARBINARY:
            return f"{t.root.value}({t.length})"
        case Root.DECIMAL:
            return f"DECIMAL({t.precision}, {t.scale})"
        case Root.TIME | Root.TIMESTAMP | Root.TIMESTAMP_LTZ:
            return f"{t.root.value}({t.precision})"
        case Root.INTERVAL_DAY_TIME:
            return "INTERVAL SECOND(3)"
        case Root.INTERVAL_YEAR_MONTH:
            return "INTERVAL MONTH"
        case Root.ARRAY | Root.MULTISET:
            return f"{t.root.value}<{t.children[0]}>"
        case Root.MAP:
            return f"MAP<{t.children[0]}, {t.children[1]}>"
        case Root.ROW:
            return f"ROW<{_fields(t)}>"
    return _other_name(t)


def _other_name(t: DataType) -> str:
    match t.root:
        case Root.STRUCTURED:
            return f"STRUCTURED<'{t.class_name}'{', ' if t.names else ''}{_fields(t)}>"
        case Root.RAW:
            return f"RAW('{t.class_name}', '{t.names[0]}')"
        case Root.NAMED:
            return ".".join(f"`{n}`" for n in t.names)
    name: str = t.root.value
    return name


def _fields(t: DataType) -> str:
    return ", ".join(f"`{n}` {c}" for n, c in zip(t.names, t.children, strict=True))


# How columns hold values of a type.
_SIMPLE: dict[Root, pa.DataType] = {
    Root.BOOLEAN: pa.bool_(),
    Root.TINYINT: pa.int8(),
    Root.SMALLINT: pa.int16(),
    Root.INT: pa.int32(),
    Root.BIGINT: pa.int64(),
    Root.FLOAT: pa.float32(),
    Root.DOUBLE: pa.float64(),
    Root.CHAR: pa.string(),
    Root.VARCHAR: pa.string(),
    Root.BINARY: pa.binary(),
    Root.VARBINARY: pa.binary(),
    Root.DATE: pa.date32(),
    Root.INTERVAL_YEAR_MONTH: pa.int64(),
    Root.INTERVAL_DAY_TIME: pa.int64(),
    Root.NULL: pa.null(),
    Root.VARIANT: pa.string(),
    Root.BITMAP: pa.string(),
}


def unit(precision: int) -> str:
    """Arrow's unit for so many fractional digits of a second: ms up to 3, us up to 6, ns up to
    9."""
    return "ms" if precision <= 3 else "us" if precision <= 6 else "ns"


def to_arrow(t: DataType) -> pa.DataType:
    """The Arrow type that holds values of `t`; intervals are BIGINT months or milliseconds."""
    if t.root in _SIMPLE:
        return _SIMPLE[t.root]
    match t.root:
        case Root.DECIMAL:
            return pa.decimal128(t.precision, t.scale)
        case Root.TIME:
            return pa.time32("ms") if t.precision <= 3 else pa.time64(unit(t.precision))
        case Root.TIMESTAMP:
            return pa.timestamp(unit(t.precision))
        case Root.TIMESTAMP_LTZ:
            return pa.timestamp(unit(t.precision), "UTC")
        case Root.ARRAY:
            return pa.list_(t.children[0].arrow)
        case Root.MAP:
            return pa.map_(t.children[0].arrow, t.children[1].arrow)
        case Root.MULTISET:
            return pa.map_(t.children[0].arrow, pa.int32())
    return pa.struct([pa.field(n, c.arrow) for n, c in zip(t.names, t.children, strict=True)])


@dataclass(frozen=True)
class Column:
    """A named, typed column of a schema."""

    name: str
    type: DataType

    def __str__(self) -> str:
        return f"{self.name} {self.type}"


@dataclass(frozen=True)
class Schema:
    """An ordered list of columns with distinct names (Flink's names are case-sensitive)."""

    columns: tuple[Column, ...]

    @staticmethod
    def of(**types: DataType) -> Schema:
        return Schema(tuple(Column(n, t) for n, t in types.items()))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(c.name for c in self.columns)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {c.name: i for i, c in enumerate(self.columns)}

    @cached_property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(c.name, c.type.arrow) for c in self.columns])

    @cached_property
    def _selected(self) -> dict[tuple[str, ...], Schema]:
        return {}

    @cached_property
    def _hash(self) -> int:
        return hash(self.columns)

    def __hash__(self) -> int:
        return self._hash

    def __getstate__(self) -> dict[str, object]:
        return {"columns": self.columns}

    def index(self, name: str) -> int:
        """The column's position; KeyError where there is none."""
        return self._index[name]

    def type(self, name: str) -> DataType:
        return self.columns[self._index[name]].type

    def select(self, names: tuple[str, ...]) -> Schema:
        """Returns these of the columns: for the same names the same object, which many batches
        have."""
        if names not in self._selected:
            columns = tuple(self.columns[self._index[n]] for n in names)
            self._selected[names] = Schema(columns)
        return self._selected[names]

    def __contains__(self, name: str) -> bool:
        return name in self._index

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __str__(self) -> str:
        return ", ".join(map(str, self.columns))
