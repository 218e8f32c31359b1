"""The types of PEP 249: those of columns, and the constructors of values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

Binary = bytes
Date = dt.date
Time = dt.time
Timestamp = dt.datetime


def DateFromTicks(ticks: float) -> dt.date:  # noqa: N802
    """Returns the local date of seconds since 1970."""
    return dt.datetime.fromtimestamp(ticks).date()


def TimeFromTicks(ticks: float) -> dt.time:  # noqa: N802
    """Returns the local time of day of seconds since 1970."""
    return dt.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> dt.datetime:  # noqa: N802
    """Returns the local time of seconds since 1970."""
    return dt.datetime.fromtimestamp(ticks)


class TypeCode(str):
    """The type of a column: its SQL type, such as 'DECIMAL(10, 2)'. Equal to the type object of its
    kind, and to any text that says the same."""

    __slots__ = ()

    @property
    def root(self) -> str:
        """The type without what is behind its name: DECIMAL."""
        return self.partition("(")[0].partition("<")[0].removesuffix(" NOT NULL").split(" ")[0]

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers in parentheses: 10 and 2 of DECIMAL(10, 2)."""
        if "<" in self:
            return ()
        inner = self.partition("(")[2].partition(")")[0]
        return tuple(int(n) for n in inner.split(",") if n.strip().isdecimal())

    @property
    def nullable(self) -> bool:
        """True if its values may be NULL."""
        return not self.endswith(" NOT NULL")

    @property
    def plain(self) -> str:
        """The type without NOT NULL."""
        return self.removesuffix(" NOT NULL")

    def __eq__(self, other: object) -> bool:
        return other == self if isinstance(other, TypeObject) else str.__eq__(self, str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class TypeObject:
    """A kind of types, which is equal to the type codes of all of them."""

    def __init__(self, name: str, *roots: str) -> None:
        self.name = name
        self._roots = frozenset(roots)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self is other
        return isinstance(other, str) and TypeCode(other).root in self._roots

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return self.name


STRING: Final = TypeObject("STRING", "STRING", "CHAR", "VARCHAR", "VARIANT")
BINARY: Final = TypeObject("BINARY", "BYTES", "BINARY", "VARBINARY")
NUMBER: Final = TypeObject(
    "NUMBER", *"TINYINT SMALLINT INT INTEGER BIGINT FLOAT DOUBLE DECIMAL BOOLEAN".split()
)
DATETIME: Final = TypeObject("DATETIME", "DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "INTERVAL")
ROWID: Final = TypeObject("ROWID")

# name, type_code, display_size, internal_size, precision, scale, null_ok
Description = tuple[str, TypeCode, None, int | None, int | None, int | None, bool]


def describe(columns: Sequence[tuple[str, str]]) -> list[Description]:
    """Returns the description of columns, each of a name and a SQL type."""
    return [_described(name, TypeCode(kind)) for name, kind in columns]


def _described(name: str, kind: TypeCode) -> Description:
    """Describes a column. NOT NULL is said by `null_ok` alone: Polars takes a type with a U in it
    for one without a sign."""
    code = TypeCode(kind.plain)
    first, second, *_ = (*code.numbers, None, None)
    if code in (STRING, BINARY):
        return name, code, None, first, None, None, kind.nullable
    return name, code, None, None, first, second, kind.nullable
