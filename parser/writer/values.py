"""Values of Python as SQL literals, each with its type."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from functools import singledispatch
from typing import Final
from uuid import UUID

from parser.errors import SqlError
from parser.writer.names import quoted

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_US: Final = dt.timedelta(microseconds=1)
_BIGINT: Final = 1 << 63
_DIGITS: Final = 38
# INTERVAL … DAY has so many digits.
_DAYS: Final = 999


class BadValue(SqlError):
    """A value that no SQL literal stands for."""

    title = "bad parameter"


@singledispatch
def literal(value: object) -> str:
    """Returns a value as SQL. BadValue where SQL has none of it.

    >>> literal("it's"), literal(-5), literal(1.5)
    ("'it''s'", '(-5)', '1.5E0')
    """
    kind = type(value)
    if kind.__module__.partition(".")[0] == "numpy":
        return _of_numpy(value)
    if kind.__name__ in ("NaTType", "NAType"):  # pandas has its own NULLs
        return "NULL"
    raise BadValue(f"a {kind.__name__} is no value of SQL", detail=repr(value)[:100])


def _of_numpy(value: object) -> str:
    text = str(value)
    if type(value).__name__ == "datetime64" and text != "NaT":
        return f"TIMESTAMP '{text.replace('T', ' ')}'" if "T" in text else f"DATE '{text}'"
    if text == "NaT":
        return "NULL"
    plain = value.item() if hasattr(value, "item") else value
    if plain is value or type(plain).__module__.partition(".")[0] == "numpy":
        raise BadValue(f"a {type(value).__name__} is no value of SQL", detail=text[:100])
    return literal(plain)


@literal.register
def _(value: None) -> str:
    return "NULL"


@literal.register
def _(value: bool) -> str:
    return "TRUE" if value else "FALSE"


@literal.register
def _(value: int) -> str:
    number = int(value)
    if 0 <= number < _BIGINT:
        return str(number)
    if -_BIGINT < number < 0:
        return f"({number})"  # two minus signs are a comment
    if number == -_BIGINT:
        return f"CAST('{number}' AS BIGINT)"
    return literal(Decimal(number))


@literal.register
def _(value: float) -> str:
    number = float(value)
    if not math.isfinite(number) or repr(number) == "-0.0":
        name = "NaN" if math.isnan(number) else repr(number).replace("inf", "Infinity")
        return f"CAST('{name}' AS DOUBLE)"
    text = repr(number)
    text = text.upper() if "e" in text else f"{text}E0"
    return f"({text})" if text[0] == "-" else text


@literal.register
def _(value: Decimal) -> str:
    if not value.is_finite():
        raise BadValue(f"{value} is no DECIMAL")
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > _DIGITS:
        raise BadValue(
            f"a DECIMAL has {_DIGITS} digits at most", detail=f"{value} has {precision}"[:100]
        )
    return f"CAST('{value:f}' AS DECIMAL({precision}, {scale}))"


@literal.register
def _(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise BadValue("a text has a part of a character", detail=str(error)) from None
    return quoted(str.__str__(value))


@literal.register(bytes)
@literal.register(bytearray)
@literal.register(memoryview)
def _(value: bytes | bytearray | memoryview) -> str:
    return f"X'{bytes(value).hex()}'"


@literal.register
def _(value: UUID) -> str:
    return quoted(str(value))


@literal.register
def _(value: dt.date) -> str:
    return f"DATE '{value.isoformat()}'"


@literal.register
def _(value: dt.time) -> str:
    if value.tzinfo is not None:
        raise BadValue("a TIME has no time zone", detail=str(value))
    if value.microsecond % 1000:
        raise BadValue("a TIME has milliseconds", detail=str(value))
    return f"TIME '{value.isoformat()}'"


@literal.register
def _(value: dt.datetime) -> str:
    if value != value:  # pandas' NaT is one
        return "NULL"
    if value.tzinfo is None:
        plain = value.isoformat(" ", "microseconds")
        nanos = getattr(value, "nanosecond", 0)  # of pandas
        return f"TIMESTAMP '{plain[:26]}{nanos:03}'" if nanos else f"TIMESTAMP '{plain[:26]}'"
    return f"TO_TIMESTAMP_LTZ({literal((value - _EPOCH) // _US)}, 6)"


@literal.register
def _(value: dt.timedelta) -> str:
    ms, rest = divmod(abs(value) // _US, 1000)
    days, ms = divmod(ms, 86_400_000)
    if rest or days > _DAYS:
        raise BadValue(f"an INTERVAL has milliseconds, and {_DAYS} days at most", detail=str(value))
    seconds, ms = divmod(ms, 1000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{ms:03}"
    sign = "-" if value < dt.timedelta(0) else ""
    return f"INTERVAL '{sign}{days} {clock}' DAY(3) TO SECOND(3)"


@literal.register(list)
@literal.register(tuple)
def _(value: list[object] | tuple[object, ...]) -> str:
    if not value:
        raise BadValue("an ARRAY without elements has no type", hint="write CAST(ARRAY[] AS …)")
    return f"ARRAY[{', '.join(map(literal, value))}]"


@literal.register
def _(value: Mapping) -> str:  # type: ignore[type-arg]
    if not value:
        raise BadValue("a MAP without entries has no type")
    return f"MAP[{', '.join(literal(part) for pair in value.items() for part in pair)}]"
