"""Types of SQL and those of SQLAlchemy, both ways."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import types
from sqlalchemy.sql.compiler import GenericTypeCompiler

from parser.writer.values import literal
from sqlengine.dbapi.types import TypeCode


class Nested(types.UserDefinedType):
    """ARRAY, MAP, ROW and what else SQLAlchemy has no type for: `text` is the type in SQL, values
    are lists and dicts."""

    cache_ok = True

    def __init__(self, text: str) -> None:
        self.text = text

    def get_col_spec(self, **options: object) -> str:
        """Returns the type in SQL."""
        return self.text

    @property
    def python_type(self) -> type:
        return list if self.text.startswith("ARRAY") else dict


class TINYINT(types.SmallInteger):
    """A whole number of one byte."""

    __visit_name__ = "TINYINT"


class DOUBLE(types.Float):
    """A number of 64 bits; SQLAlchemy 1.4 has none of that name."""

    __visit_name__ = "DOUBLE"


class _Written:
    """A type whose values, where they stand in a text, are literals with a type."""

    def literal_processor(self, dialect: object) -> Callable[[Any], str]:
        return lambda value: literal(self.as_written(value))

    def as_written(self, value: Any) -> Any:
        """Returns a value as one of Python's type for this one."""
        return value


class _Date(_Written, types.Date):
    def as_written(self, value: Any) -> Any:
        return value.date() if isinstance(value, dt.datetime) else value


class _DateTime(_Written, types.DateTime):
    def as_written(self, value: Any) -> Any:
        is_day = isinstance(value, dt.date) and not isinstance(value, dt.datetime)
        return dt.datetime.combine(value, dt.time()) if is_day else value


class _Time(_Written, types.Time): ...


class _Bytes(_Written, types.LargeBinary): ...


class _Text(types.Text):
    """Text that also takes Decimals: pandas knows no other type for them."""

    def bind_processor(self, dialect: object) -> Callable[[Any], Any]:
        return lambda value: str(value) if isinstance(value, Decimal) else value


class _Array(_Written, types.ARRAY): ...


# SQLAlchemy's types, and those that write their values.
WRITTEN: Final[dict[type, type]] = {
    types.Date: _Date,
    types.Time: _Time,
    types.DateTime: _DateTime,
    types.LargeBinary: _Bytes,
    types.ARRAY: _Array,
    types.Text: _Text,
}
_PLAIN: Final[dict[str, Callable[[], Any]]] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": TINYINT,
    "SMALLINT": types.SMALLINT,
    "INT": types.INTEGER,
    "BIGINT": types.BIGINT,
    "FLOAT": types.FLOAT,
    "DOUBLE": DOUBLE,
    "STRING": types.TEXT,
    "BYTES": types.LargeBinary,
    "DATE": types.DATE,
    "TIME": types.TIME,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMP_LTZ": lambda: types.TIMESTAMP(timezone=True),
}
_SIZED: Final[dict[str, Callable[..., Any]]] = {
    "CHAR": types.CHAR,
    "VARCHAR": types.VARCHAR,
    "BINARY": types.BINARY,
    "VARBINARY": types.VARBINARY,
    "DECIMAL": types.DECIMAL,
}


def type_of(text: str) -> Any:
    """Returns the SQLAlchemy type of a SQL type."""
    code = TypeCode(text)
    if code.root in _SIZED:
        return _SIZED[code.root](*code.numbers)
    if code.root in _PLAIN:
        return _PLAIN[code.root]()
    return Nested(code.plain)


class TypeCompiler(GenericTypeCompiler):
    """Writes types of SQLAlchemy in SQL."""

    def visit_TEXT(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return "STRING"

    visit_CLOB = visit_NCLOB = visit_text = visit_unicode_text = visit_JSON = visit_TEXT  # noqa: N815
    visit_UUID = visit_uuid = visit_enum = visit_ENUM = visit_TEXT  # noqa: N815

    def visit_VARCHAR(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return f"VARCHAR({type_.length})" if type_.length else "STRING"

    visit_NVARCHAR = visit_VARCHAR  # noqa: N815
    visit_string = visit_unicode = visit_VARCHAR

    def visit_CHAR(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return f"CHAR({type_.length})" if type_.length else "STRING"

    visit_NCHAR = visit_CHAR  # noqa: N815

    def visit_INTEGER(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return "INT"

    def visit_TINYINT(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return "TINYINT"

    def visit_DOUBLE(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return "DOUBLE"

    visit_float = visit_DOUBLE_PRECISION = visit_double = visit_DOUBLE  # noqa: N815

    def visit_FLOAT(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return "FLOAT"

    visit_REAL = visit_FLOAT  # noqa: N815

    def visit_DECIMAL(self, type_: Any, **options: Any) -> str:  # noqa: N802
        precision = 38 if type_.precision is None else type_.precision
        default = 18 if type_.precision is None else 0
        return f"DECIMAL({precision}, {default if type_.scale is None else type_.scale})"

    visit_NUMERIC = visit_DECIMAL  # noqa: N815

    def visit_TIMESTAMP(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return "TIMESTAMP_LTZ(6)" if type_.timezone else "TIMESTAMP(6)"

    visit_DATETIME = visit_datetime = visit_TIMESTAMP  # noqa: N815

    def visit_TIME(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return "TIME(3)"

    def visit_BLOB(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return "BYTES"

    visit_large_binary = visit_BLOB

    def visit_BINARY(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return f"BINARY({type_.length})" if type_.length else "BYTES"

    def visit_VARBINARY(self, type_: Any, **options: Any) -> str:  # noqa: N802
        return f"VARBINARY({type_.length})" if type_.length else "BYTES"

    def visit_ARRAY(self, type_: Any, **options: Any) -> str:  # noqa: N802
        depth = type_.dimensions or 1
        return "ARRAY<" * depth + self.process(type_.item_type) + ">" * depth
