"""Values as the drivers of MariaDB give them, as the texts of logs of changes."""

from __future__ import annotations

import json
from collections.abc import Collection
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

_HEX = b"\\x"
# Types of columns in the protocol of the server.
_TIMESTAMPS: Final = frozenset((7, 17))
_YEAR: Final = 13
_DATES: Final = frozenset((7, 10, 12, 14))
# A TIMESTAMP and a YEAR have a number where they are zero, which stands for no other value.
_ZERO: Final = datetime(1970, 1, 1)
_ZERO_YEAR: Final = 1900


def logged(value: object, kind: int) -> object:
    """Returns a value of the log of changes as a query gives it; NULL for a date that is zero."""
    if kind in _TIMESTAMPS:
        return None if value == _ZERO else value
    return 0 if kind == _YEAR and value == _ZERO_YEAR else value


def queried(value: object, kind: object) -> object:
    """Returns a value of a query; NULL for a date that is zero, as in part (`2024-00-10`), which
    the driver gives as a text."""
    return None if kind in _DATES and isinstance(value, str) else value


def text_of(value: object, *, binary: bool) -> bytes | None:
    """Returns a value as text; `binary`: its column is one of bytes."""
    match value:
        case None:
            return None
        case bytes():
            return _HEX + value.hex().encode() if binary else value
        case str():
            return _HEX + value.encode().hex().encode() if binary else value.encode()
        case bool():
            return b"1" if value else b"0"
        case datetime():
            return value.isoformat(" ").encode()
        case timedelta():
            return _time(value).encode()
        case Decimal():
            return format(value, "f").encode()
        case set() | frozenset():
            return ",".join(sorted(map(str, value))).encode()
        case dict() | list():
            return json.dumps(_plain(value), ensure_ascii=False).encode()
        case _:
            return str(value).encode()


def _time(value: timedelta) -> str:
    """A TIME, which may be less than nothing and more than a day."""
    sign = "-" if value < timedelta() else ""
    seconds, micros = divmod(abs(value) // timedelta(microseconds=1), 1_000_000)
    fraction = f".{micros:06}" if micros else ""
    return f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}"


def _plain(value: object) -> object:
    """Makes texts of the bytes in a value of JSON."""
    if isinstance(value, dict):
        return {_plain(k): _plain(v) for k, v in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        return [_plain(v) for v in value]
    return value.decode() if isinstance(value, bytes) else value
